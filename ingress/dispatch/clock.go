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
				d.cfg.Log.Warn("what is due is not started; the next sweep tries again", "error", err)
			}
		}
		pause := d.cfg.Every
		if found == sweepBatch {
			pause = 0 // there is more
		}
		if !wait(ctx, pause) {
			return
		}
	}
}

// ClockOnce starts a run for each account that has something due, one batch of them, and returns how many accounts it
// found. A due row waits while its receipt is at work or parked.
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

// startClock starts the run of one due account, named by its due time. If that run has ended before the row
// came, the present time names the run, which does everything that is due by then. startClock gives the receipt to the
// run before it starts the run: if this process dies in between, the search finds the receipt without its run and
// starts that.
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

// leave takes a receipt out of a start whose run of the clock was there already, unless that is its own.
func (d *Dispatcher) leave(ctx context.Context, receiptID string, begun receipt.Begun) error {
	found, err := d.latest(ctx, begun.WorkflowID)
	if err != nil {
		return fmt.Errorf("ask whose run %s is: %w", begun.WorkflowID, err)
	}
	another, is := errors.AsType[*anotherError](checkOwner(found, receiptID))
	switch {
	case !is:
		return nil
	case another.receiptID == "":
		return d.cfg.Receipts.Transition(ctx, receiptID, receipt.NeedsReview, another.Error(), another.Error())
	}
	// Facts have changed which receipt the due row names; the other receipt's run does all of the work.
	was := begun.Was
	if was == receipt.Processing {
		was = receipt.Processed
	}
	return d.cfg.Receipts.Transition(ctx, receiptID, was, "", "")
}

// runOf returns the input of a receipt's run: its event and, for the workflow ID of a clock run, the due time in that
// ID.
func runOf(p receipt.Pending) workflows.EventInput {
	in := workflows.EventInput{Ref: p.Ref}
	if due, ok := workflows.DueOf(p.WorkflowID); ok {
		in.Due = due
	}
	return in
}
