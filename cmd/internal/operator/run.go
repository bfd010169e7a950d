package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// NotWaitingError means that an event cannot be run for the first time.
type NotWaitingError struct {
	ID, Status string
	// HasRun is set where a run has it already.
	HasRun bool
}

func (e *NotWaitingError) Error() string {
	if e.HasRun {
		return fmt.Sprintf("%s is %s and has a run: decide about that one, with events retry, skip or compensate", e.ID, e.Status)
	}
	return fmt.Sprintf("%s is %s: only an event that is ignored, or needs_review and never ran, can be run after all", e.ID, e.Status)
}

// NotEntitledError means that an event came through a source that may not speak for it. Nobody runs it by an ID: what one
// endpoint's secret signed would run as another one's event.
type NotEntitledError struct{ ID, Source, Reason string }

func (e *NotEntitledError) Error() string {
	return fmt.Sprintf("%s was signed for source %s, which may not speak for it (%s): mend the source's mode or accounts where they are wrong, and have the provider send it again",
		e.ID, e.Source, e.Reason)
}

// Transitioner makes receipts wait for their first run; a *receipt.Store.
type Transitioner interface {
	Transition(ctx context.Context, id string, to receipt.Status, reason, lastError string) error
	RunAnew(ctx context.Context, id, workflowID string) error
}

// RunEvent makes an event received that was kept and not run; the dispatcher of a running ingress starts it. It takes an
// event
//
//   - that is ignored for its type, or was parked before any run: a suspected replay, a body that could not be read;
//   - whose run has ended without finishing it ([receipt.RunEnded]) and is no longer known to Temporal. Where it still
//     is, the event parks again;
//   - whose run in Temporal is another receipt's ([receipt.AnotherRun]): it gets a run under an ID of its own.
//
// Who decides and why stands in the audit trail before anything is changed. The error is a [*NotWaitingError] where the
// event is none of these, a [*NotEntitledError] where it is ignored for its mode or account, and one of [ShowEvent]'s where id does not name an event.
func RunEvent(ctx context.Context, db timeline.DB, receipts Transitioner, trail *audit.Store, id, who, why string) (*timeline.Receipt, error) {
	if err := accountable(who, why); err != nil {
		return nil, err
	}
	r, err := FindEvent(ctx, db, id)
	if err != nil {
		return nil, err
	}
	if r.ReasonCode == receipt.ModeNotWanted || r.ReasonCode == receipt.AccountNotWanted {
		return nil, &NotEntitledError{ID: id, Source: r.Source, Reason: r.Reason}
	}
	ignored, parked := r.Status == string(receipt.Ignored), r.Status == string(receipt.NeedsReview)
	anew := parked && r.ReasonCode == receipt.AnotherRun
	// A run that was ended, and that Temporal has forgotten since, leaves nothing to decide about or to reset.
	ended := parked && r.ReasonCode == receipt.RunEnded
	if !ignored && !parked || r.WorkflowID != "" && !anew && !ended {
		return nil, &NotWaitingError{ID: id, Status: r.Status, HasRun: r.WorkflowID != ""}
	}
	if err := trail.Append(ctx, audit.Action{
		RequestID: "run/" + r.ID + "/" + uuid.NewString(), Actor: who, Action: "run", Target: r.EventID, Reason: why,
		Before: map[string]any{"receipt": r.ID, "status": r.Status, "reason": r.Reason},
		After:  map[string]any{"status": receipt.Received},
	}); err != nil {
		return nil, err
	}
	if anew {
		in := workflows.EventInput{ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode, EventID: r.EventID}
		err = receipts.RunAnew(ctx, r.ID, in.AnewID())
	} else {
		err = receipts.Transition(ctx, r.ID, receipt.Received, "", "")
	}
	if err != nil {
		return nil, err
	}
	r.Status, r.Reason, r.ReasonCode, r.LastError = string(receipt.Received), "", "", ""
	return r, nil
}

// accountable refuses what nobody answers for.
func accountable(who, why string) error {
	if strings.TrimSpace(who) == "" || strings.TrimSpace(why) == "" {
		return errors.New("who and why are required: both go into the audit trail")
	}
	return nil
}
