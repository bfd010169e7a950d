package effect

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Gate is what the effects of one sink go through in this process: so many at once and, where it is said, so many a
// second; none but probes while the sink is out, and none while it is paused. Effects that wait at a gate hold no
// connection to the database, and no more of the worker's slots than the gate has places: a sink that hangs takes
// nothing from another. It is safe for concurrent use.
type Gate struct {
	sink string
	// places holds one for each effect in flight.
	places  chan struct{}
	waiting atomic.Int64
	// pace is nil where the sink takes as much as it gets.
	pace   *rate.Limiter
	health health
}

// NewGate returns the gate of a sink with so many places, and perSecond begins at most; 0 stands for any number. A
// second's worth may begin at once.
func NewGate(sink string, places, perSecond int) *Gate {
	g := &Gate{sink: sink, places: make(chan struct{}, places)}
	if perSecond > 0 {
		g.pace = rate.NewLimiter(rate.Limit(perSecond), perSecond)
	}
	return g
}

// Sink is the sink's name.
func (g *Gate) Sink() string { return g.sink }

// Places is how many effects can be in flight at once.
func (g *Gate) Places() int { return cap(g.places) }

// Slots is how many of a worker's slots the gate's effects can hold at once: those in flight, and as many that wait.
func (g *Gate) Slots() int { return 2 * cap(g.places) }

// Busy is how many effects are in flight.
func (g *Gate) Busy() int { return len(g.places) }

// enter takes a place and returns how to give it back, or nil if no place is free within patience. Then wait is how
// long the rate alone keeps it from beginning. A nil gate lets everything through.
func (g *Gate) enter(ctx context.Context, patience time.Duration) (leave func(), wait time.Duration) {
	if g == nil {
		return func() {}, 0
	}
	begin := time.Now()
	if !g.take(ctx, patience) {
		return nil, 0
	}
	leave = func() { <-g.places }
	if wait = g.inPace(ctx, max(0, patience-time.Since(begin))); wait > 0 {
		leave()
		return nil, wait
	}
	return leave, 0
}

// take takes a place. As many wait for one as there are places; who comes then is turned away.
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

// inPace waits until the rate allows one more to begin. It returns how long that would last where it is longer than
// patience.
func (g *Gate) inPace(ctx context.Context, patience time.Duration) time.Duration {
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
