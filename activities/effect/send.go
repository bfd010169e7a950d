package effect

import (
	"context"
	"fmt"
	"time"
)

// Send sends a request that is not an effect of an event. The circuit breaker, the pauses and the limits of the sink
// apply as for an effect, and the outcome of the request updates the breaker. Send records nothing in the ledger and
// does not retry. If the sink is down, paused or busy, it returns an error without calling fn.
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
		return fmt.Errorf("%s has no free slot: %d requests are in flight", p.Gate.sink, p.Gate.Busy())
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := fn(ctx)
	r.judge(ctx, c, p, probe, err)
	return err
}

// Wait returns the delay before the next attempt of a Send, and whether there is a next attempt. tries is the number of
// attempts so far, and age the time since the first attempt. If the sink is down, the delay is short, because the
// circuit breaker limits the requests.
func (p Policy) Wait(err error, tries int, age time.Duration) (wait time.Duration, more bool) {
	if _, out := p.Gate.outage(); out {
		return DefaultBreaking.LeastWait, age < p.Retries.MaxElapsed
	}
	_, asked := Classify(err)
	return p.Retries.Next(tries, p.Retries.MaxElapsed-age, asked)
}
