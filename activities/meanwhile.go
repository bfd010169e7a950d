package activities

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
)

// SignalSettled is the signal to a parked run that other runs have settled all of its effects. It has no payload,
// because the run reads the ledger.
const SignalSettled = "settled"

// SignalTryAgain is the signal to a waiting run that its sink has recovered or that another effect is settled. The run
// then tries its effect again. The signal has no payload.
const SignalTryAgain = "try-again"

// DoneMeanwhile returns a message if the runs of other events have settled every effect of a parked run. The message
// names one of these events. A decision about such a run is too late, because the run ends by itself. DoneMeanwhile
// returns "" if an effect is open or if keys is empty. It also returns "" if the run's own event has settled an effect:
// the worker died while it executed a decision, and the run executes the decision again.
func DoneMeanwhile(eventID string, keys []string, states map[string]effect.Standing) string {
	var by string
	for _, key := range keys {
		s, ok := states[key]
		if !ok || s.EventID == eventID || s.State != ledger.Done && s.State != ledger.Skipped {
			return ""
		}
		by = s.EventID
	}
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("event %s has settled every effect that the run waits for: the run ends by itself", by)
}

// DoneMeanwhileIn is [DoneMeanwhile] with the ledger state of a transaction.
func DoneMeanwhileIn(ctx context.Context, db ledger.Tx, eventID string, keys []string) (string, error) {
	found, err := ledger.Peek(ctx, db, keys)
	if err != nil {
		return "", err
	}
	return DoneMeanwhile(eventID, keys, found), nil
}

// WakeWaitingInput lists effects that a decision has settled.
type WakeWaitingInput struct {
	event.Ref
	Keys []string
}

// WakeWaitingResult is empty.
type WakeWaitingResult struct{}

// WakeWaiting signals the parked runs of other events that have no open effects now. It also signals the runs with
// effects that wait for the settled effects.
func (r *Runs) WakeWaiting(ctx context.Context, in WakeWaitingInput) (WakeWaitingResult, error) {
	if _, err := r.own(ctx, in.Ref); err != nil {
		return WakeWaitingResult{}, err
	}
	waiting, err := r.Runs.WaitsForSettled(ctx, in.ReceiptID, in.Keys)
	if err != nil {
		return WakeWaitingResult{}, err
	}
	for _, workflowID := range waiting {
		if err := wake(ctx, workflowID, SignalSettled); err != nil {
			return WakeWaitingResult{}, err
		}
	}
	return WakeWaitingResult{}, wakeNext(ctx, r.Ledger, in.Keys)
}

// wakeNext signals the runs with effects that wait for the settled effects.
func wakeNext(ctx context.Context, book *ledger.Store, settled []string) error {
	waiting, err := book.Waiting(ctx, settled)
	for _, workflowID := range waiting {
		if err = wake(ctx, workflowID, SignalTryAgain); err == nil {
			err = book.Woken(ctx, settled, workflowID)
		}
		if err != nil {
			break
		}
	}
	return err
}

// wake signals a run. It ignores a run that has ended.
func wake(ctx context.Context, workflowID, signal string) error {
	err := activity.GetClient(ctx).SignalWorkflow(ctx, workflowID, "", signal, nil)
	if _, ended := errors.AsType[*serviceerror.NotFound](err); err != nil && !ended {
		return fmt.Errorf("wake %s: %w", workflowID, err)
	}
	return nil
}
