package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/schema/receipt"
)

// queued is a receipt in the queue.
type queued struct {
	receipt.Pending
	// until is the last time at which a worker may start the receipt. Soon after that, the sweep of another process may
	// lease the receipt.
	until time.Time
}

// Offer queues committed events without waiting. If the queue is full or Temporal is down, it drops events, and the
// sweep starts them.
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
			// select chooses a ready case at random, so ctx may already have ended.
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

// leaveToSweep makes a queued receipt due within [markEvery], so that the sweep starts it. If all workers were blocked
// for long, another process may have leased the receipt. leaveToSweep then does nothing.
func (d *Dispatcher) leaveToSweep(q queued) {
	if d.cfg.Now().Before(q.until.Add(startTimeout)) {
		d.letGo(q.ReceiptID)
	}
}
