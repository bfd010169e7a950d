package effect

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema/pause"
)

// span is a pause of a sink, in times of this process's clock. to is zero until the pause ends.
type span struct{ from, to time.Time }

// setPauses replaces the known pauses of the sink. spans includes pauses that have ended.
func (g *Gate) setPauses(spans []pause.Span) {
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	g.health.pauses, g.health.paused = nil, nil
	now := time.Now()
	for _, s := range spans {
		if s.Name != g.sink {
			continue
		}
		at := span{from: now.Add(-s.Ago)}
		if s.Over {
			at.to = now.Add(-s.EndedAgo)
		} else {
			paused := s.Pause
			g.health.paused = &paused
		}
		g.health.pauses = append(g.health.pauses, at)
	}
}

// Paused returns the current pause of the sink, and false if the sink is not paused.
func (g *Gate) Paused() (pause.Pause, bool) {
	if g == nil {
		return pause.Pause{}, false
	}
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	if g.health.paused == nil {
		return pause.Pause{}, false
	}
	return *g.health.paused, true
}

// pausedFor returns how long the sink was paused within the last d.
func (g *Gate) pausedFor(d time.Duration) (paused time.Duration) {
	if g == nil {
		return 0
	}
	g.health.mu.Lock()
	defer g.health.mu.Unlock()
	now := time.Now()
	for _, s := range g.health.pauses {
		from, to := s.from, s.to
		if to.IsZero() {
			to = now
		}
		if begin := now.Add(-d); from.Before(begin) {
			from = begin
		}
		paused += max(to.Sub(from), 0)
	}
	return min(paused, d)
}

// resume signals the runs that wait for a sink after its pause has ended, unless another process has done so. If this
// process dies first, the runs detect the end of the pause by polling.
func (r *Runner) resume(ctx context.Context, g *Gate, spans []pause.Span) {
	for _, s := range spans {
		if s.Name != g.sink || !s.Over || s.Notified {
			continue
		}
		if first, err := r.Pauses.Tell(ctx, s.ID); err == nil && first && r.Back != nil {
			r.Back(g.sink)
		}
	}
}
