package effect

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Gate limits the requests to one sink in this process: the number in flight and, if configured, the rate. It admits
// only probes while the sink is down, and nothing while the sink is paused. Effects that wait at a gate hold no
// database connection and only a limited number of worker slots, so a sink that hangs does not slow down other sinks.
// A Gate is safe for concurrent use.
type Gate struct {
	sink string
	// places holds one element per effect in flight.
	places  chan struct{}
	waiting atomic.Int64
	// pace is nil if the rate is unlimited.
	pace   *rate.Limiter
	health health
}

// NewGate returns the gate of a sink that admits places effects at once and starts at most perSecond effects per
// second. 0 means no rate limit. A burst of one second's worth is allowed.
func NewGate(sink string, places, perSecond int) *Gate {
	g := &Gate{sink: sink, places: make(chan struct{}, places)}
	if perSecond > 0 {
		g.pace = rate.NewLimiter(rate.Limit(perSecond), perSecond)
	}
	return g
}

// Sink returns the sink's name.
func (g *Gate) Sink() string { return g.sink }

// Places returns the maximum number of effects in flight.
func (g *Gate) Places() int { return cap(g.places) }

// Slots returns how many worker slots the effects of this gate can hold: the effects in flight, and as many that
// wait.
func (g *Gate) Slots() int { return 2 * cap(g.places) }

// Busy returns the number of effects in flight.
func (g *Gate) Busy() int { return len(g.places) }

// enter acquires a place and returns the function that releases it. If no place is free within patience, it returns
// nil; wait is then positive if the rate limit alone is the cause. A nil gate admits everything.
func (g *Gate) enter(ctx context.Context, patience time.Duration) (leave func(), wait time.Duration) {
	if g == nil {
		return func() {}, 0
	}
	begin := time.Now()
	if !g.take(ctx, patience) {
		return nil, 0
	}
	leave = func() { <-g.places }
	if wait = g.waitForRate(ctx, max(0, patience-time.Since(begin))); wait > 0 {
		leave()
		return nil, wait
	}
	return leave, 0
}

// take acquires a place. At most as many callers wait as there are places; further callers are rejected at once.
func (g *Gate) take(ctx context.Context, patience time.Duration) bool {
	select {
	case g.places <- struct{}{}:
		return true
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > int64(cap(g.places)) || patience <= 0 {
		return false
	}
	select {
	case g.places <- struct{}{}:
		return true
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return false
}

// waitForRate waits until the rate limit admits another start. If that takes longer than patience, it does not wait and
// returns the delay.
func (g *Gate) waitForRate(ctx context.Context, patience time.Duration) time.Duration {
	if g.pace == nil {
		return 0
	}
	turn := g.pace.Reserve()
	wait := turn.Delay()
	if wait <= patience {
		select {
		case <-time.After(wait):
			return 0
		case <-ctx.Done():
		}
	}
	turn.Cancel()
	return wait
}
