package dispatch

import (
	"context"

	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/receipt"
)

// mark records runs that were started.
func (d *Dispatcher) mark(ctx context.Context, started ...receipt.Started) error {
	err := d.cfg.Receipts.MarkStarted(ctx, started...)
	failpoint.Hit("dispatch-after-mark")
	return err
}

// markLater records a run soon. Most runs have ended by then and have said all of it themselves, which
// saves a write of the receipt; should this process die before, the sweep finds the receipt and the run.
func (d *Dispatcher) markLater(s receipt.Started) {
	d.marking.Lock()
	defer d.marking.Unlock()
	d.toMark = append(d.toMark, s)
}

// markAll records what markLater took until ctx ends, and the rest then.
func (d *Dispatcher) markAll(ctx context.Context) {
	for more := true; more; {
		more = wait(ctx, markEvery)
		d.marking.Lock()
		started := d.toMark
		d.toMark = nil
		d.marking.Unlock()
		if len(started) == 0 {
			continue
		}
		record, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
		if err := d.mark(record, started...); err != nil {
			d.cfg.Log.Warn("starts not recorded; the sweep will", "count", len(started), "error", err)
		}
		cancel()
	}
}
