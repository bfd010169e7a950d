package decide

import "context"

// Follow makes a decision that d includes, in the name of the same person and with the same reason and request ID. It
// needs no second person, because the people who made d have also made this decision. Call it after d is recorded. It
// is safe to repeat.
func (d *Decision) Follow(ctx context.Context, verb, target string) (*Answer, error) {
	next := Decision{Verb: verb, Target: target, Actor: d.Actor, Reason: d.Reason, By: d.By, Request: d.Request,
		follows: true}
	if err := next.check(d.Operator, false); err != nil {
		return nil, err
	}
	return next.verb.Rule.decide(ctx, &next)
}
