package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// clock starts the runs of due clock rows until ctx ends. While Temporal is down, only the sweep tries to reach it.
func (d *Dispatcher) clock(ctx context.Context) {
	for {
		found := 0
		if !d.down.Load() {
			var err error
			if found, err = d.ClockOnce(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errUnable) {
				d.cfg.Log.Warn("due rows not started; the next sweep tries again", "error", err)
			}
		}
		pause := d.cfg.Every
		if found == sweepBatch {
			pause = 0 // more rows are due
		}
		if !wait(ctx, pause) {
			return
		}
	}
}

// ClockOnce starts one run for each account with due rows, one batch of accounts, and returns how many accounts it
// found. A due row waits while its receipt is running or parked.
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

// startClock starts the run of one due account. The due time names the run. If a run of that name ended before the row
// was inserted, the present time names the run, which handles every row that is due by then. startClock assigns the
// receipt to the run before it starts the run: if this process dies in between, the search finds the receipt without
// its run and starts the run.
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

// leave restores a receipt after its clock run turned out to have been started already, unless that run belongs to the
// receipt.
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
	// The due row now names another receipt, because facts have changed. The run of that receipt does all of the work.
	status := begun.Was
	if status == receipt.Processing {
		status = receipt.Processed
	}
	return d.cfg.Receipts.Transition(ctx, receiptID, status, "", "")
}

// runOf returns the input of a receipt's run: its event and, if the workflow ID belongs to a clock run, the due time in
// that ID.
func runOf(p receipt.Pending) workflows.EventInput {
	in := workflows.EventInput{Ref: p.Ref}
	if due, ok := workflows.DueOf(p.WorkflowID); ok {
		in.Due = due
	}
	return in
}
