package dispatch

import (
	"context"
	"time"
)

// readEvery is how often a process reads the paused sources and makes some receipts of resumed sources due.
const readEvery = time.Second

// readPauses reads which sources are paused, and makes some receipts of resumed sources due. The sweep postpones the
// receipts of paused sources. After a failed read, d.paused stays as it was.
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
				d.cfg.Log.Warn("receipts of a resumed source wait longer", "source", s.Name, "error", err)
			}
		}
	}
	d.paused.Store(&paused)
}
