package dispatch

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/run"
)

// markLater records a run within [markEvery]. Most runs have ended by then and have recorded themselves, which saves
// a write of the receipt. If this process dies before, the sweep finds the receipt and the run.
func (d *Dispatcher) markLater(s run.Started) {
	d.noting.Lock()
	defer d.noting.Unlock()
	d.toMark = append(d.toMark, s)
}

// noteAll writes the records of markLater and letGo until ctx ends, and the remaining ones then.
func (d *Dispatcher) noteAll(ctx context.Context) {
	for more := true; more; {
		more = wait(ctx, markEvery)
		if err := d.note(ctx); err != nil {
			d.cfg.Log.Warn("starts not recorded; the sweep will", "error", err)
		}
	}
}

// note writes the records of markLater and letGo, even after ctx has ended.
func (d *Dispatcher) note(ctx context.Context) (err error) {
	d.noting.Lock()
	started, left := d.toMark, d.toRelease
	d.toMark, d.toRelease = nil, nil
	d.noting.Unlock()
	if len(started) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
		defer cancel()
		err = d.cfg.Runs.MarkStarted(ctx, started...)
		failpoint.Hit("dispatch-after-mark")
	}
	d.release(ctx, left...)
	return err
}

// release makes receipts due again at once: the sweep needs one to find out that Temporal is back, and the others
// should not wait for their lease. It works after ctx has ended, too. After a failure, the receipts are due when
// their lease ends.
func (d *Dispatcher) release(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := d.cfg.Receipts.Release(ctx, ids...); err != nil {
		d.cfg.Log.Warn("receipts wait for their lease", "error", err)
	}
}
