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
	// until is when the receipt must be left to the sweep: soon after, the sweep of another process may lease it.
	until time.Time
}

// Offer queues committed events without waiting. It drops events if the queue is full or Temporal is down; the sweep
// starts them.
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
			// select chooses at random, so ctx may have ended.
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

// leaveToSweep makes a queued receipt due for the sweep within [markEvery]. If the receipt waited for much longer than
// it may, because all workers were blocked, another process may have leased it, and it stays unchanged.
func (d *Dispatcher) leaveToSweep(q queued) {
	if d.cfg.Now().Before(q.until.Add(startTimeout)) {
		d.letGo(q.ReceiptID)
	}
}
