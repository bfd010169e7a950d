package dispatch

import (
	"context"

	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/run"
)

// markLater records a run within [markEvery]. Most runs end earlier and record themselves, which saves one write of the
// receipt. If this process dies before, the sweep finds the receipt and the run.
func (d *Dispatcher) markLater(s run.Started) {
	d.noting.Lock()
	defer d.noting.Unlock()
	d.toMark = append(d.toMark, s)
}

// letGo makes a receipt due at the next call of note. The sweep needs a due receipt to detect that Temporal has
// recovered, and the others should not wait for the end of their lease.
func (d *Dispatcher) letGo(receiptID string) {
	d.noting.Lock()
	defer d.noting.Unlock()
	d.toRelease = append(d.toRelease, receiptID)
}

// noteAll calls note every markEvery until ctx ends, and once more then.
func (d *Dispatcher) noteAll(ctx context.Context) {
	for more := true; more; {
		more = wait(ctx, markEvery)
		d.note(ctx)
	}
}

// note writes the records of markLater and letGo, even after ctx has ended. If a write fails, the sweep records the
// starts, and the receipts are due when their lease ends.
func (d *Dispatcher) note(ctx context.Context) {
	d.noting.Lock()
	started, left := d.toMark, d.toRelease
	d.toMark, d.toRelease = nil, nil
	d.noting.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if len(started) > 0 {
		if err := d.cfg.Runs.MarkStarted(ctx, started...); err != nil {
			d.cfg.Log.Warn("starts not recorded; the sweep records them", "error", err)
		}
		failpoint.Hit("dispatch-after-mark")
	}
	if err := d.cfg.Receipts.Release(ctx, left...); err != nil {
		d.cfg.Log.Warn("receipts wait for the end of their lease", "error", err)
	}
}
