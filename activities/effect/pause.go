package effect

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema/pause"
)

// span is a pause of a sink by this process's clock; to is zero while it lasts.
type span struct{ from, to time.Time }

// setPauses sets the known pauses of a sink. They include those that are over.
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

// Paused returns the pause of the sink, false if it is not paused.
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

// pausedFor is how much of the time d, up to now, the sink was paused.
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

// resume lets in who waited for a sink whose pause is over, where no other process does. Should this one die over that,
// they poll by themselves.
func (r *Runner) resume(ctx context.Context, g *Gate, spans []pause.Span) {
	for _, s := range spans {
		if s.Name != g.sink || !s.Over || s.Told {
			continue
		}
		if tell, err := r.Pauses.Tell(ctx, s.ID); err == nil && tell && r.Back != nil {
			r.Back(g.sink)
		}
	}
}
