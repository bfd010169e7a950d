package dispatch

import (
	"context"
	"time"
)

// readEvery is how often a process reads which sources are paused, and lets in some of what has waited for those that
// are no more.
const readEvery = time.Second

// watchPauses heeds the pauses of sources until ctx ends. The sweep puts aside what belongs to them.
func (d *Dispatcher) watchPauses(ctx context.Context) {
	for wait(ctx, readEvery) {
		d.readPauses(ctx)
	}
}

// readPauses reads which sources are paused, and makes some receipts due of those that are no more. Where that cannot be
// read, what was known stays.
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
			if err := d.cfg.Receipts.LetIn(ctx, s.Name, letIn); err != nil && ctx.Err() == nil {
				d.cfg.Log.Warn("what has waited for a paused source is let in later", "source", s.Name, "error", err)
			}
		}
	}
	d.paused.Store(&paused)
}

// isPaused reports whether the source is paused, as far as this process knows.
func (d *Dispatcher) isPaused(source string) bool {
	paused := d.paused.Load()
	return paused != nil && (*paused)[source]
}
