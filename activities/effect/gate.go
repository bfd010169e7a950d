package effect

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/time/rate"
)

// Gate limits the requests to one sink in this process: the number in flight and, if configured, the rate. It also
// stores the state of the sink: down, paused or available. Effects that wait for a slot hold no database connection
// and only a limited number of worker slots, so a sink that hangs does not slow down other sinks. A Gate is safe for
// concurrent use.
type Gate struct {
	sink string
	// places holds one element for each effect in flight. Its capacity is the number of slots.
	places  chan struct{}
	waiting atomic.Int64
	// pace is nil if the rate is unlimited.
	pace   *rate.Limiter
	health health
}

// NewGate returns the gate of a sink. It allows at most places effects in flight, and starts at most perSecond effects
// per second, with a burst of the same number. If perSecond is 0, the rate is not limited.
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

// Slots returns the maximum number of worker slots that the effects of this gate use: the effects in flight, and the
// same number of waiting effects.
func (g *Gate) Slots() int { return 2 * cap(g.places) }

// Busy returns the number of effects in flight.
func (g *Gate) Busy() int { return len(g.places) }

// enter waits for a free slot, at most for patience, and returns the function that releases the slot. It returns nil if
// no slot became free. If the rate limit alone is the reason, wait is the delay until the next start. A nil gate admits
// everything.
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

// take acquires a slot. The number of waiting callers is limited to the number of slots; take returns false at once for
// further callers.
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

const (
	// waiting is the maximum time that a regular activity waits for a slot of its sink. The activity timeout includes
	// it.
	waiting = 1500 * time.Millisecond
	// waitingLocally is the maximum time that a local activity waits for a slot. It is short, because a local activity
	// blocks its workflow task. It is not zero, because the regular activity that follows a failed local activity adds
	// at least six events to the history.
	waitingLocally = 100 * time.Millisecond
)

// enter acquires a slot of the sink. Do calls enter before it claims the key.
func (r *Runner) enter(ctx context.Context, c Call, p Policy) (leave func(), err error) {
	info, patience := activity.GetInfo(ctx), waiting
	if info.IsLocalActivity {
		patience = waitingLocally
	}
	leave, wait := p.Gate.enter(ctx, patience)
	if leave != nil {
		return leave, nil
	}
	words := fmt.Sprintf("has no free slot: %d effects are in flight", p.Gate.Busy())
	if wait > 0 {
		words = fmt.Sprintf("is limited to %v effects per second, and more are waiting", p.Gate.pace.Limit())
	}
	if !info.IsLocalActivity {
		r.Waits(ctx, c, p.Gate.sink, words, SinkBusy)
	}
	return nil, r.retryLater(ctx, TypeNotYet, jitter(max(wait, ownWait(info.Attempt))), nil, "%s waits: %s %s", c.Kind,
		p.Gate.sink, words)
}
