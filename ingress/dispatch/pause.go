package dispatch

import (
	"context"
	"time"
)

// readEvery is how often a process calls readPauses.
const readEvery = time.Second

// readPauses sets d.paused to the paused sources, and makes some receipts of resumed sources due. The sweep skips the
// receipts of paused sources. If the read fails, readPauses does not change d.paused.
func (d *Dispatcher) readPauses(ctx context.Context) {
	list, err := d.cfg.Receipts.SourcePauses(ctx)
	if err != nil {
		return
	}
	paused := map[string]bool{}
	for _, s := range list {
		switch {
		case s.Paused:
			paused[s.Name] = true
		case s.Waits:
			if err := d.cfg.Receipts.Resume(ctx, s.Name, resumeRate); err != nil && ctx.Err() == nil {
				d.cfg.Log.Warn("receipts of a resumed source not made due; the next read retries",
					"source", s.Name, "error", err)
			}
		}
	}
	d.paused.Store(&paused)
}
