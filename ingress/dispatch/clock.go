package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// clock starts the runs of due scheduled actions until ctx ends. While Temporal is down, clock does nothing, and only
// the sweep calls Temporal.
func (d *Dispatcher) clock(ctx context.Context) {
	for {
		found := 0
		if !d.down.Load() {
			var err error
			if found, err = d.ClockOnce(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errUnable) {
				d.cfg.Log.Warn("due actions not started; the next sweep retries", "error", err)
			}
		}
		pause := d.cfg.Every
		if found == sweepBatch {
			pause = 0 // more actions are due
		}
		if !wait(ctx, pause) {
			return
		}
	}
}

// ClockOnce starts one run for each account with due actions, for one batch of accounts. It returns the number of these
// accounts. While the receipt of an action is running or parked, ClockOnce does not start the action.
func (d *Dispatcher) ClockOnce(ctx context.Context) (found int, err error) {
	due, err := d.cfg.Receipts.Clock(ctx, sweepBatch)
	if err != nil {
		return 0, err
	}
	var faults []error
	for _, c := range due {
		err := d.startClock(ctx, c)
		if faults = append(faults, err); errors.Is(err, errUnable) {
			break
		}
	}
	return len(due), errors.Join(faults...)
}

// startClock starts the run for the due actions of one account. The workflow ID contains the due time. If a run with
// this ID ended before the action was stored, the workflow ID contains the present time instead. startClock assigns the
// receipt to the run before it starts the run. If this process dies in between, the search for lost runs starts the
// run.
func (d *Dispatcher) startClock(ctx context.Context, c receipt.Clock) error {
	in := workflows.EventInput{Ref: c.Ref}
	anew := in
	in.Due = &workflows.DueInput{Account: c.DueAccount, At: c.DueAt}
	anew.Due = &workflows.DueInput{Account: c.DueAccount, At: d.cfg.Now()}
	begun, err := d.cfg.Receipts.Begin(ctx, c.ReceiptID, in.ID(), anew.ID())
	if err != nil || begun == (receipt.Begun{}) {
		return err
	}
	if begun.WorkflowID == anew.ID() {
		in = anew
	}
	in.Due.Compensated = begun.Was == receipt.Compensated
	runID, already, err := d.execute(c.Traced(ctx), d.options(begun.WorkflowID, in), in)
	if err != nil {
		if errors.Is(err, errUnable) {
			d.down.Store(true)
		}
		return fmt.Errorf("start %s: %w", begun.WorkflowID, err)
	}
	if already {
		return d.leave(ctx, c.ReceiptID, begun)
	}
	d.metrics.start(ctx, c.Provider, "due")
	d.markLater(run.Started{ReceiptID: c.ReceiptID, WorkflowID: begun.WorkflowID, RunID: runID,
		StartedAt: d.cfg.Now(), Kind: run.ByClock})
	return nil
}

// leave restores the status of a receipt if the run with its workflow ID was already started for another receipt.
func (d *Dispatcher) leave(ctx context.Context, receiptID string, begun receipt.Begun) error {
	found, err := d.latest(ctx, begun.WorkflowID)
	if err != nil {
		return fmt.Errorf("find the receipt of run %s: %w", begun.WorkflowID, err)
	}
	another, isAnother := errors.AsType[*anotherError](checkOwner(found, receiptID))
	switch {
	case !isAnother:
		return nil
	case another.receiptID == "":
		return d.cfg.Receipts.Transition(ctx, receiptID, receipt.NeedsReview, another.Error(), another.Error())
	}
	// Facts have changed, so the due actions now belong to another receipt. The run of that receipt executes all of
	// them.
	status := begun.Was
	if status == receipt.Processing {
		status = receipt.Processed
	}
	return d.cfg.Receipts.Transition(ctx, receiptID, status, "", "")
}

// runOf returns the input of a receipt's run: the event and, for a run of scheduled actions, the due time from the
// workflow ID.
func runOf(p receipt.Pending) workflows.EventInput {
	in := workflows.EventInput{Ref: p.Ref}
	if due, ok := workflows.DueOf(p.WorkflowID); ok {
		in.Due = due
	}
	return in
}
