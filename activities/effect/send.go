package effect

import (
	"context"
	"fmt"
	"time"
)

// Send sends something to a sink that is no effect of an event. The sink's breaker, pauses and places hold it like an
// effect, and its end tells them the same. It records nothing, and tries once. Where the sink is out, paused or busy,
// the error says so, and fn was not called.
func (r *Runner) Send(ctx context.Context, c Call, p Policy, fn func(context.Context) error) error {
	probe := false
	if o, out := p.Gate.outage(); out {
		var err error
		if probe, err = r.probes(ctx, c, p, o); err == nil && !probe {
			err = fmt.Errorf("%s %s", p.Gate.sink, o.words())
		}
		if err != nil {
			return err
		}
	}
	leave, _ := p.Gate.enter(ctx, waiting)
	if leave == nil {
		return fmt.Errorf("%s has no place free: %d are in flight", p.Gate.sink, p.Gate.Busy())
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := fn(ctx)
	r.judge(ctx, c, p, probe, err)
	return err
}

// Wait is how long something that a sink has not taken waits, and whether it is tried again, after so many tries and so
// long.
// A sink that is out is asked again soon, since its breaker says when it is back.
func (p Policy) Wait(err error, tries int, age time.Duration) (wait time.Duration, more bool) {
	if _, out := p.Gate.outage(); out {
		return DefaultBreaking.LeastWait, age < p.Retries.For
	}
	_, asked := Classify(err)
	return p.Retries.Next(tries, p.Retries.For-age, asked)
}
