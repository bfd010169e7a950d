package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema/ledger"
)

// assert records an effect as done because a person confirms it. It does not change an effect that is already settled.
// While another run executes the effect, assert returns an error, so that Temporal retries.
func (r *Runner) assert(ctx context.Context, c Call, p Policy) (Result, error) {
	attempt := &Attempt{}
	value := any(map[string]string{"reference": c.ByHand.Reference})
	if p.ByHand != nil {
		value = p.ByHand(attempt, c.ByHand.Reference)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return Result{}, fmt.Errorf("encode result of %s: %w", c.Key, err)
	}
	held, err := r.Ledger.Assert(ctx, ClaimOf(ctx, c, 0), ledger.Assertion{
		Result: encoded, Compensates: c.Compensates, Also: attempt.also,
		Note: fmt.Sprintf("done by hand, confirmed by %s: %s (reference %s)", c.ByHand.Actor, c.ByHand.Reason,
			c.ByHand.Reference),
	})
	if errors.Is(err, ledger.ErrForeign) {
		return Result{}, Foreign(c.Ref, err)
	}
	if err != nil {
		return Result{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot record %s", c.Key)
	}
	if held {
		r.count(ctx, c, Done)
		return Result{State: Done, Value: encoded}, nil
	}
	found, err := r.Ledger.Read(ctx, []string{c.Key})
	if err != nil {
		return Result{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot read %s", c.Key)
	}
	if now := found[c.Key]; now.Settled() {
		return r.meet(ctx, c, now)
	}
	return Result{}, r.retryLater(ctx, TypeNotYet, jitter(time.Second), nil, "%s is being executed now", c.Key)
}
