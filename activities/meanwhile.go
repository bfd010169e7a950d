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

// SignalSettled tells a parked run that others have settled all that it waits for. It takes nothing: the run reads the
// ledger.
const SignalSettled = "settled"

// SignalTryAgain tells a run that a sink which it waits for is back, or that an effect which comes before one of its
// own is settled. It takes nothing and decides nothing: the run tries again, and learns from that.
const SignalTryAgain = "try-again"

// DoneMeanwhile says that all effects which a parked run of an event waits for are done or skipped by now, and names
// the other event that did so. A decision about such a run comes too late: the run ends by itself. DoneMeanwhile
// returns "" if one of the effects is open, and for a run that waits for none. It also does if the event itself has
// settled one: its run has followed a decision and lost that with its worker, and follows it again.
func DoneMeanwhile(eventID string, keys []string, stands map[string]effect.Standing) string {
	var by string
	for _, key := range keys {
		s, ok := stands[key]
		if !ok || s.EventID == eventID || s.State != ledger.Done && s.State != ledger.Skipped {
			return ""
		}
		by = s.EventID
	}
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("all that it waited for was done meanwhile, by %s: it ends by itself", by)
}

// DoneMeanwhileIn is [DoneMeanwhile] by what the ledger holds in a transaction.
func DoneMeanwhileIn(ctx context.Context, db ledger.Tx, eventID string, keys []string) (string, error) {
	found, err := ledger.Peek(ctx, db, keys)
	if err != nil {
		return "", err
	}
	return DoneMeanwhile(eventID, keys, found), nil
}

// WakeWaitingInput names effects that a person's decision has had settled.
type WakeWaitingInput struct {
	event.Ref
	Keys []string
}

// WakeWaitingResult is empty.
type WakeWaitingResult struct{}

// WakeWaiting signals the parked runs of other events that have nothing left to wait for, and the runs whose effects
// come after the settled ones.
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

// wakeNext signals the runs whose effects come after settled ones.
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

// wake signals a run. One that has ended needs nothing.
func wake(ctx context.Context, workflowID, signal string) error {
	err := activity.GetClient(ctx).SignalWorkflow(ctx, workflowID, "", signal, nil)
	if _, ended := errors.AsType[*serviceerror.NotFound](err); err != nil && !ended {
		return fmt.Errorf("wake %s: %w", workflowID, err)
	}
	return nil
}
