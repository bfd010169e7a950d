package dispatch

import (
	"context"

	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/run"
)

// markLater records the start of a run within [markEvery]. Most runs end earlier and record their start themselves,
// which saves a write. If this process dies before the record, the sweep finds the receipt and the run.
func (d *Dispatcher) markLater(s run.Started) {
	d.noting.Lock()
	defer d.noting.Unlock()
	d.toMark = append(d.toMark, s)
}

// letGo ends the lease of a receipt with the next call of note. The receipt is then due at once. The sweep needs a
// due receipt to detect that Temporal has recovered.
func (d *Dispatcher) letGo(receiptID string) {
	d.noting.Lock()
	defer d.noting.Unlock()
	d.toRelease = append(d.toRelease, receiptID)
}

// noteAll calls note every markEvery until ctx ends, and once more at the end.
func (d *Dispatcher) noteAll(ctx context.Context) {
	for more := true; more; {
		more = wait(ctx, markEvery)
		d.note(ctx)
	}
}

// note writes the records of markLater and letGo, even after ctx has ended. If note cannot record which runs
// have started, the sweep records it later. If it cannot release the receipts, they become due when their lease ends.
func (d *Dispatcher) note(ctx context.Context) {
	d.noting.Lock()
	started, left := d.toMark, d.toRelease
	d.toMark, d.toRelease = nil, nil
	d.noting.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if len(started) > 0 {
		if err := d.cfg.Runs.MarkStarted(ctx, started...); err != nil {
			d.cfg.Log.Warn("started runs not recorded; the next sweep records them", "error", err)
		}
		failpoint.Hit("dispatch-after-mark")
	}
	if err := d.cfg.Receipts.Release(ctx, left...); err != nil {
		d.cfg.Log.Warn("leases not ended; the receipts are due when their lease expires", "error", err)
	}
}
