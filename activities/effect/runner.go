package effect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/pause"
)

// Config holds the dependencies of a Runner.
type Config struct {
	Ledger *ledger.Store
	// Retrying records a retryable failure on the receipt.
	Retrying func(ctx context.Context, c Call, reason string)
	// Waits records on the receipt that an effect waits, and why. words follows the sink's name; for NotFirst it is
	// the key of the effect that must finish first.
	Waits func(ctx context.Context, c Call, sink, words string, why Hindrance)
	// Breakers and Pauses are shared with the other workers. Nil disables them.
	Breakers *breaker.Store
	Breaking Breaking
	Pauses   *pause.Store
	// Back runs in exactly one process when a sink recovers or its pause ends.
	Back  func(sink string)
	Meter metric.Meter
	// Log gets one line per outcome.
	Log *slog.Logger
}

// Hindrance is the reason why an effect waits.
type Hindrance string

// Hindrances: all slots of the sink are in use, the sink is down, a person has paused it, or another effect comes
// first.
const (
	SinkBusy   Hindrance = "busy"
	SinkOut    Hindrance = "out"
	SinkPaused Hindrance = "paused"
	NotFirst   Hindrance = "not_first"
)

// Runner runs effects. It is safe for concurrent use.
type Runner struct {
	Config
	outcomes, stale metric.Int64Counter
	lag, calls      metric.Float64Histogram
}

// NewRunner returns a runner.
func NewRunner(c Config) (*Runner, error) {
	r := &Runner{Config: c}
	var errs [4]error
	r.outcomes, errs[0] = c.Meter.Int64Counter("pawl_effects",
		metric.WithDescription("Effects by kind and outcome; already_done counts ledger hits."))
	r.stale, errs[1] = c.Meter.Int64Counter("pawl_stale_rejections",
		metric.WithDescription("Effects of older events that left newer state unchanged, by kind."))
	r.lag, errs[2] = c.Meter.Float64Histogram("pawl_effect_lag", metric.WithUnit("s"),
		metric.WithDescription("Seconds from the receipt of an event to the completion of an effect, by kind."))
	r.calls, errs[3] = c.Meter.Float64Histogram("pawl_sink_call", metric.WithUnit("s"),
		metric.WithDescription("Duration of a call to a sink, by sink and outcome."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make metrics of effects: %w", err)
	}
	return r, nil
}

// claiming bounds the time of a claim. A claim waits up to a second if another run holds the key.
const claiming = 2 * time.Second

// Do runs an effect in an outside system. request holds the bytes to send on the first attempt; every later attempt
// gets the same bytes again. Do stores the value that fn returns as JSON.
//
// The flow decides on a Result without an error. An error makes Temporal call Do again with the same arguments, which
// the ledger makes safe.
func (r *Runner) Do(ctx context.Context, c Call, p Policy, request []byte,
	fn func(context.Context, *Attempt) (any, error)) (Result, error) {
	if c.ByHand != nil {
		return r.assert(ctx, c, p)
	}
	p.Timeout = cmp.Or(c.Timeout, p.Timeout)
	if deadline, ok := ctx.Deadline(); ok && activity.GetInfo(ctx).IsLocalActivity && time.Until(deadline) < p.Timeout+
		claiming {
		// A local activity spends its own timeout on waiting. The remaining time might cut off the call and leave an
		// e-mail uncertain that the server is about to accept. The regular activity that follows has its full
		// timeout.
		return Result{}, r.retryLater(ctx, TypeNotYet, 0, nil, "%s has waited too long for its turn", c.Key)
	}
	probe, last, waits, err := r.held(ctx, c, p)
	if err != nil || waits.State == Waits {
		return waits, err
	}
	leave, err := r.enter(ctx, c, p)
	if err != nil {
		return Result{}, err
	}
	defer leave()
	grant, err := r.claim(ctx, c, p, request)
	if err != nil {
		return Result{}, err
	}
	if !grant.Granted {
		return r.meet(ctx, c, grant)
	}
	reached(c, "after-claim")
	started := time.Now()
	if p.KeyLifetime > 0 && grant.Attempt > 1 && grant.Age > p.KeyLifetime {
		return r.record(ctx, c, p, grant, started, outcome{err: Doubt(
			"the first attempt was at %s and the sink forgets keys after %s: another could be applied twice", grant.ClaimedAt.UTC().Format(time.RFC3339), p.KeyLifetime)})
	}
	attemptCtx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	attempt := &Attempt{IdempotencyKey: idempotencyKey(c.Key, grant.Generation), Request: grant.Request,
		Repeat: grant.Age > 0, Correlation: c.Correlation, Trying: grant.Trying}
	// The mark can be set twice, and is refused after the claim has expired. If it is unknown whether the mark was
	// set, the effect would become uncertain although nothing was sent, so retry until the database answers.
	attempt.commit = func() (err error) {
		var held bool
		retryUntilDone(attemptCtx, func() bool {
			held, err = r.Ledger.Commit(attemptCtx, c.Key, grant.Token)
			return err == nil
		})
		reached(c, "after-mark")
		if err == nil && !held {
			err = ledger.ErrTakenOver
		}
		return Infrastructure(err)
	}
	value, err := r.call(attemptCtx, p.Gate, attempt, fn)
	reached(c, "after-send")
	r.judge(ctx, c, p, probe, err)
	if last {
		p.Retries.For = 0
	}
	return r.record(ctx, c, p, grant, started, outcome{value: value, also: attempt.also, err: err})
}

const (
	// waiting bounds the wait of a regular activity for a place at its sink. The activity timeout includes it.
	waiting = 1500 * time.Millisecond
	// waitingLocally bounds the wait of a local activity. A local activity blocks its workflow task, so it waits only
	// as long as a responsive sink needs. The regular activity that follows adds at least six events to the history.
	waitingLocally = 100 * time.Millisecond
)

// enter acquires a place at the sink before the claim.
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

// retryUntilDone repeats try until it reports success or ctx ends. The delay between two attempts grows up to a second.
func retryUntilDone(ctx context.Context, try func() (done bool)) {
	for pause := 50 * time.Millisecond; !try(); pause = min(2*pause, time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// longestIdempotencyKey is the maximum length in bytes that APIs accept (docs.stripe.com/api/idempotent_requests).
// They answer a longer key with 400, which is not retried.
const longestIdempotencyKey = 255

// idempotencyKey returns the key to send to the sink. Later generations, which an operator starts after an uncertain
// or refused outcome, get a suffix and are new requests to the sink. A key that is too long is replaced by its kind
// and its hash.
func idempotencyKey(key string, generation int) string {
	if generation > 1 {
		key += ":g" + strconv.Itoa(generation)
	}
	if len(key) <= longestIdempotencyKey {
		return key
	}
	kind, _, _ := strings.Cut(key, ":")
	sum := sha256.Sum256([]byte(key))
	return kind + ":" + hex.EncodeToString(sum[:])
}

// ClaimOf returns the ledger claim for a call by the current run. It must be called in an activity.
func ClaimOf(ctx context.Context, c Call, lease time.Duration) ledger.Claim {
	run := activity.GetInfo(ctx).WorkflowExecution
	return ledger.Claim{Key: c.Key, Kind: c.Kind, Round: c.Round, Ref: c.Ref, RunID: run.RunID, Lease: lease}
}

// claim claims the key. If another run holds it, claim waits for up to a second, because two events for one fact
// often arrive together and the first one finishes within milliseconds.
func (r *Runner) claim(ctx context.Context, c Call, p Policy, request []byte) (ledger.Grant, error) {
	claim := ClaimOf(ctx, c, p.lease())
	claim.Exclusive, claim.Request, claim.Unmarked = p.Exclusive, request, !p.Marks
	const patience, longest = time.Second, 200 * time.Millisecond
	// Measure by the clock and not by the number of delays: on a slow database each claim takes longer than the delay
	// and shortens the time for the effect. The delay doubles, because many waiting runs would otherwise add a query
	// each to every group commit.
	pause := 20 * time.Millisecond
	for begin := time.Now(); ; pause = min(2*pause, longest) {
		grant, err := r.Ledger.Claim(ctx, claim)
		if errors.Is(err, ledger.ErrForeign) {
			return ledger.Grant{}, Foreign(c.Ref, err)
		}
		if err != nil {
			return ledger.Grant{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot claim %s", c.Key)
		}
		held := !grant.Granted &&
			(grant.State == ledger.Claimed || grant.State == ledger.Failed && grant.Class == ledger.Transient)
		if !held {
			return grant, nil
		}
		if time.Since(begin) >= patience {
			return ledger.Grant{}, r.retryLater(ctx, TypeNotYet, jitter(time.Second), nil,
				"%s is being executed by another run", c.Key)
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return ledger.Grant{}, ctx.Err()
		}
	}
}

// reached is a failpoint where tests stop the process. It does nothing in an ordinary build.
func reached(c Call, step string) {
	if failpoint.Enabled {
		failpoint.Hit(c.Kind + "-" + step)
	}
}

// retryLater returns an error that makes Temporal retry the activity after the delay. A delay of zero means the default
// for failures of pawl's own infrastructure.
func (r *Runner) retryLater(ctx context.Context, kind string, wait time.Duration, cause error, format string,
	args ...any) error {
	if wait <= 0 {
		wait = jitter(ownWait(activity.GetInfo(ctx).Attempt))
	}
	message := fmt.Sprintf(format, args...)
	if cause != nil {
		message += ": " + describe(cause)
	}
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{
		NextRetryDelay: wait, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// Stale counts an effect of an older event that left newer state unchanged.
func (r *Runner) Stale(ctx context.Context, c Call) {
	r.stale.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", c.Kind)))
}

// call runs one attempt and measures its duration.
func (r *Runner) call(ctx context.Context, g *Gate, a *Attempt, fn func(context.Context, *Attempt) (any, error)) (any,
	error) {
	began := time.Now()
	value, err := fn(ctx, a)
	if g == nil {
		return value, err
	}
	class, _ := Classify(err)
	outcome := string(class)
	if _, unwanted := errors.AsType[*NotWanted](err); unwanted {
		outcome = "skipped"
	} else if isInfrastructure(err) {
		outcome = "infrastructure"
	} else if err == nil {
		outcome = "ok"
	}
	r.calls.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(attribute.String("sink", g.sink),
		attribute.String("outcome", outcome)))
	return value, err
}

// count counts and logs the outcome of an effect.
func (r *Runner) count(ctx context.Context, c Call, outcome State) {
	level := slog.LevelInfo
	if outcome == Refused || outcome == Failed || outcome == Uncertain {
		level = slog.LevelWarn
	}
	info := activity.GetInfo(ctx)
	r.Log.Log(ctx, level, "effect", c.Log("outcome", outcome, "kind", c.Kind, "effect_key", c.Key, "attempt",
		info.Attempt, "workflow_id", info.WorkflowExecution.ID, "run_id", info.WorkflowExecution.RunID)...)
	if received := c.ReceivedAt(); outcome == Done && c.Round == 0 && !received.IsZero() {
		r.lag.Record(ctx, time.Since(received).Seconds(), metric.WithAttributes(attribute.String("kind", c.Kind)))
	}
	r.outcomes.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", c.Kind),
		attribute.String("outcome", string(outcome))))
}
