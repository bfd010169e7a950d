package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// queued is a receipt that waits in memory.
type queued struct {
	receipt.Pending
	// until is when it must be left to the sweep: another process's sweep may take it soon after.
	until time.Time
}

// Offer queues committed events without waiting. The sweep starts those that it does not queue, because the queue is
// full or Temporal is down.
func (d *Dispatcher) Offer(events []receipt.Pending) {
	if d.down.Load() {
		return
	}
	until := d.cfg.Now().Add(keep)
	for _, p := range events {
		select {
		case d.queue <- queued{p, until}:
		default:
			return
		}
	}
}

// work starts queued receipts until ctx ends.
func (d *Dispatcher) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-d.queue:
			// select has no preference, so ctx may have ended.
			if ctx.Err() != nil || d.down.Load() || (*d.paused.Load())[q.Source] || d.cfg.Now().After(q.until) {
				d.leaveToSweep(q)
				continue
			}
			if err := d.startAndMark(ctx, q.Pending); errors.Is(err, errUnable) {
				d.letGo(q.ReceiptID)
				d.note(ctx)
			}
		}
	}
}

// leaveToSweep makes a queued receipt due for the sweep within [markEvery]. A receipt that waited for much longer than
// it may, because all workers hung, may be leased to another process by now and stays as it is.
func (d *Dispatcher) leaveToSweep(q queued) {
	if d.cfg.Now().Before(q.until.Add(startTimeout)) {
		d.letGo(q.ReceiptID)
	}
}
