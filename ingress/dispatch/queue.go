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
	// until is when it may wait no longer: another process's sweep will take it soon.
	until time.Time
}

// Offer takes committed events without waiting. What it cannot take, because the queue is full or
// Temporal is down, is left to the sweep.
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

// work starts what is queued until ctx ends.
func (d *Dispatcher) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-d.queue:
			// select has no preference, so ctx may have ended.
			if ctx.Err() != nil || d.down.Load() || d.isPaused(q.Source) || d.cfg.Now().After(q.until) {
				d.letGo(q)
				continue
			}
			started, err := d.start(ctx, q.Pending)
			if err != nil {
				d.failed(ctx, q.Pending, err)
				if errors.Is(err, errUnable) {
					d.release(ctx, q.ReceiptID)
				}
				continue
			}
			d.markLater(started)
		}
	}
}

// letGo leaves a queued receipt to the sweep, soon. One that has waited for much too long, because all workers hung,
// may be another sweep's by now and stays as it is.
func (d *Dispatcher) letGo(q queued) {
	if d.cfg.Now().Before(q.until.Add(startTimeout)) {
		d.noting.Lock()
		defer d.noting.Unlock()
		d.toRelease = append(d.toRelease, q.ReceiptID)
	}
}

// giveBack lets go of all that is queued. The workers have ended: nobody else takes from the queue.
func (d *Dispatcher) giveBack() {
	for len(d.queue) > 0 {
		d.letGo(<-d.queue)
	}
}
