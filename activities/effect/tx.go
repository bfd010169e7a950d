package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/schema/ledger"
)

// txLease is the lease of a claim by [Runner.DoTx]. No other process ever reads this claim, because claim and record
// commit together.
const txLease = 10 * time.Second

// DoTx runs an effect in pawl's database. The changes of fn commit together with the ledger row, so the effect
// happens exactly once. fn must use only tx. If fn returns a [Failure], DoTx rolls back and records the failure.
// After any other error it rolls back and Temporal retries.
//
// queue is the name of the first lock that fn acquires, e.g. "account acme (live)". Effects with the same queue wait
// for each other without holding a connection. If another session holds the lock for long, the reason on the receipt
// names the lock.
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
		wait := min(max(time.Since(stalled.Since)/2, time.Second), 10*time.Second) // grows with the wait
		r.Retrying(ctx, c, reason)
		return Result{}, r.retryLater(ctx, TypeNotYet, jitter(wait), nil, "%s", reason)
	case errors.Is(err, ledger.ErrBusy):
		return Result{}, r.retryLater(ctx, TypeNotYet, jitter(time.Second), err, "%s waits for %s", c.Key, queue)
	case errors.As(err, &failure), errors.As(err, &unwanted):
		// The rollback also removed the claim. Claim the key again to record the failure. Because Marks is set and
		// Commit is not called, the effect is not done if this claim expires.
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
		return Result{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot execute %s", c.Key)
	case !grant.Granted && grant.State == ledger.Claimed:
		return Result{}, r.retryLater(ctx, TypeNotYet, jitter(time.Second), nil,
			"%s is being executed by another run", c.Key)
	case !grant.Granted:
		return r.meet(ctx, c, grant)
	}
	reached(c, "after-done")
	r.count(ctx, c, Done)
	return Result{State: Done, Value: encoded}, nil
}
