package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema/ledger"
)

// txLease is nominal: claim and record are committed together, so that nobody ever sees the claim of a [Runner.DoTx].
const txLease = 10 * time.Second

// DoTx runs an effect in our database: fn's changes and the ledger row commit together, so that it
// happens exactly once. fn must not talk to anything but tx. A [Failure] that fn returns rolls back
// and is recorded; any other error rolls back and is tried again.
//
// queue names what fn locks first, such as "account acme (live)": effects that queue for the same wait for each other
// without a connection. If somebody else holds its lock, the receipt says so, and since when.
func (r *Runner) DoTx(ctx context.Context, c Call, queue string,
	fn func(context.Context, ledger.Tx) (any, error)) (Result, error) {
	started := time.Now()
	var encoded json.RawMessage
	finish := ledger.Finish{Compensates: c.Compensates, StartedAt: started}
	claim := ClaimOf(ctx, c, txLease)
	claim.Queue = queue
	grant, err := r.Ledger.InTx(ctx, claim, finish, func(ctx context.Context, tx ledger.Tx) (json.RawMessage, error) {
		value, err := fn(ctx, tx)
		if err != nil {
			return nil, err
		}
		if encoded, err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encode result of %s: %w", c.Key, err)
		}
		reached(c, "before-commit")
		return encoded, nil
	})
	var failure *Failure
	var unwanted *NotWanted
	var stalled *ledger.StalledError
	switch {
	case errors.As(err, &stalled):
		reason := fmt.Sprintf("%s: %s", c.Kind, stalled)
		wait := min(max(time.Since(stalled.Since)/2, time.Second), 10*time.Second) // the longer it lasts, the seldomer
		r.Retrying(ctx, c, reason)
		return Result{}, r.again(ctx, TypeNotYet, jitter(wait), nil, "%s", reason)
	case errors.Is(err, ledger.ErrBusy):
		return Result{}, r.again(ctx, TypeNotYet, jitter(time.Second), err, "%s waits for %s", c.Key, queue)
	case errors.As(err, &failure), errors.As(err, &unwanted):
		// Rolled back, the ledger row with it: claim again to record why. The claim is marked, so that nothing has
		// happened if it runs out.
		grant, claimErr := r.claim(ctx, c, Policy{Timeout: 5 * time.Second, Marks: true}, nil)
		if claimErr != nil {
			return Result{}, claimErr
		}
		if !grant.Granted {
			return r.meet(ctx, c, grant)
		}
		return r.record(ctx, c, Policy{}, grant, started, outcome{err: err})
	case errors.Is(err, ledger.ErrForeign):
		return Result{}, Foreign(c.Ref, err)
	case err != nil:
		return Result{}, r.again(ctx, TypeInfrastructure, 0, err, "cannot do %s", c.Key)
	case !grant.Granted && grant.State == ledger.Claimed:
		return Result{}, r.again(ctx, TypeNotYet, jitter(time.Second), nil, "%s is being done by another", c.Key)
	case !grant.Granted:
		return r.meet(ctx, c, grant)
	}
	reached(c, "after-done")
	r.count(ctx, c, Done)
	return Result{State: Done, Value: encoded}, nil
}
