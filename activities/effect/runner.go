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

// Config is what a Runner needs.
type Config struct {
	Ledger *ledger.Store
	// Retrying is told of every failure that will be tried again, to show it on the receipt.
	Retrying func(ctx context.Context, c Call, reason string)
	// Waits is told of every effect that waits, in words that follow the sink's name or, for NotFirst, are the key of
	// the effect that comes first; and why it waits.
	Waits func(ctx context.Context, c Call, sink, words string, why Hindrance)
	// Breakers and Pauses are shared with the other workers; nil leaves both out.
	Breakers *breaker.Store
	Breaking Breaking
	Pauses   *pause.Store
	// Back is told of a sink that is back, or whose pause is over, in one process of all.
	Back  func(sink string)
	Meter metric.Meter
	// Log gets a line for each outcome of an effect.
	Log *slog.Logger
}

// Hindrance is why an effect waits for its sink.
type Hindrance string

// The hindrances: all places at the sink are taken, it is out, a person has paused it, or another effect comes first.
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
		metric.WithDescription("Effects that left what a newer event has written as it is, by kind."))
	r.lag, errs[2] = c.Meter.Float64Histogram("pawl_effect_lag", metric.WithUnit("s"),
		metric.WithDescription("From receiving an event to an effect that is done, by kind."))
	r.calls, errs[3] = c.Meter.Float64Histogram("pawl_sink_call", metric.WithUnit("s"),
		metric.WithDescription("What a call to a sink takes, by sink and outcome."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make metrics of effects: %w", err)
	}
	return r, nil
}

// claiming is what a claim may take before a call begins: it waits up to a second for another who holds the key.
const claiming = 2 * time.Second

// Do runs an effect outside our database. fn gets the bytes to send, which are request on the first
// attempt and the very same bytes on every later one. Its value is recorded as JSON.
//
// A result without an error is for the flow to decide on. An error means "try again": Temporal does, with the same
// arguments, and the ledger makes that safe.
func (r *Runner) Do(ctx context.Context, c Call, p Policy, request []byte,
	fn func(context.Context, *Attempt) (any, error)) (Result, error) {
	if c.ByHand != nil {
		return r.assert(ctx, c, p)
	}
	p.Timeout = cmp.Or(c.Timeout, p.Timeout)
	if deadline, ok := ctx.Deadline(); ok && activity.GetInfo(ctx).IsLocalActivity && time.Until(deadline) < p.Timeout+
		claiming {
		// A local try waits for its turn in its own time. The rest of that time could cut the call off, and leave a
		// mail in doubt that the server is about to take. The regular activity that follows has all its time.
		return Result{}, r.again(ctx, TypeNotYet, 0, nil, "%s has waited too long for its turn", c.Key)
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
		Repeat: grant.Age > 0, Correlation: c.Correlation}
	// The mark of the point of no return may be set twice, and is refused when the claim has run out. One that may have
	// been set makes the effect uncertain, though nothing was sent: it is asked for until that is known.
	attempt.commit = func() (err error) {
		var held bool
		insist(attemptCtx, func() bool {
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
	// waiting is what a regular activity may take for a place at its sink: its time has room for it beside a call and
	// what claiming and recording take.
	waiting = 1500 * time.Millisecond
	// waitingLocally is the same for a local try. It holds up its workflow task, and so it waits only for what a sink
	// that answers gives back soon. The regular activity that follows adds six events
	// or more to the history of its run.
	waitingLocally = 100 * time.Millisecond
)

// enter takes a place at the sink, before anything is claimed.
func (r *Runner) enter(ctx context.Context, c Call, p Policy) (leave func(), err error) {
	info, patience := activity.GetInfo(ctx), waiting
	if info.IsLocalActivity {
		patience = waitingLocally
	}
	leave, wait := p.Gate.enter(ctx, patience)
	if leave != nil {
		return leave, nil
	}
	words := fmt.Sprintf("has no place free: %d are in flight", p.Gate.Busy())
	if wait > 0 {
		words = fmt.Sprintf("takes %v a second, and more are waiting", p.Gate.pace.Limit())
	}
	if !info.IsLocalActivity {
		r.Waits(ctx, c, p.Gate.sink, words, SinkBusy)
	}
	return nil, r.again(ctx, TypeNotYet, jitter(max(wait, ownWait(info.Attempt))), nil, "%s waits: %s %s", c.Kind,
		p.Gate.sink, words)
}

// insist tries something until it is done or ctx has ended, with pauses that grow up to a second.
func insist(ctx context.Context, try func() (done bool)) {
	for pause := 50 * time.Millisecond; !try(); pause = min(2*pause, time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// longestIdempotencyKey is how many bytes APIs take of an Idempotency-Key (docs.stripe.com/api/idempotent_requests).
// One that is longer is answered 400, which is a refusal for good.
const longestIdempotencyKey = 255

// idempotencyKey is the effect's key; a repeat that an operator asked for, of something that was in
// doubt, or refused with every attempt answered, is a new request to the sink. A key that an account's long name
// makes too long is its kind and its hash.
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

// ClaimOf returns the claim of a call by the run whose activity asks for it. It must be called in an activity.
func ClaimOf(ctx context.Context, c Call, lease time.Duration) ledger.Claim {
	run := activity.GetInfo(ctx).WorkflowExecution
	return ledger.Claim{Key: c.Key, Kind: c.Kind, Round: c.Round, Ref: c.Ref, RunID: run.RunID, Lease: lease}
}

// claim asks for the key, and waits a moment when another holds it: two events for one fact come
// together, and the first is done in milliseconds.
func (r *Runner) claim(ctx context.Context, c Call, p Policy, request []byte) (ledger.Grant, error) {
	claim := ClaimOf(ctx, c, p.lease())
	claim.Exclusive, claim.Request, claim.Unmarked = p.Exclusive, request, !p.Marks
	const patience, longest = time.Second, 200 * time.Millisecond
	// By the clock, not by the pauses: on a slow database each claim takes longer than these, and all of it is missing
	// from the time for the effect. The pauses double: an effect that another has not done in milliseconds takes its
	// time, and many that wait would ask in every commit.
	pause := 20 * time.Millisecond
	for begin := time.Now(); ; pause = min(2*pause, longest) {
		grant, err := r.Ledger.Claim(ctx, claim)
		if errors.Is(err, ledger.ErrForeign) {
			return ledger.Grant{}, Foreign(c.Ref, err)
		}
		if err != nil {
			return ledger.Grant{}, r.again(ctx, TypeInfrastructure, 0, err, "cannot claim %s", c.Key)
		}
		held := !grant.Granted &&
			(grant.State == ledger.Claimed || grant.State == ledger.Failed && grant.Class == ledger.Transient)
		if !held {
			return grant, nil
		}
		if time.Since(begin) >= patience {
			return ledger.Grant{}, r.again(ctx, TypeNotYet, jitter(time.Second), nil, "%s is being done by another",
				c.Key)
		}
		select {
		case <-time.After(jitter(pause)):
		case <-ctx.Done():
			return ledger.Grant{}, ctx.Err()
		}
	}
}

// reached is where tests make a process die; in an ordinary build it is nothing.
func reached(c Call, step string) {
	if failpoint.Enabled {
		failpoint.Hit(c.Kind + "-" + step)
	}
}

// again returns an error that makes Temporal try the activity once more, after the wait. A wait of zero stands for
// that of our own trouble.
func (r *Runner) again(ctx context.Context, kind string, wait time.Duration, cause error, format string,
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

// Stale counts that an effect of an older event left newer state as it is.
func (r *Runner) Stale(ctx context.Context, c Call) {
	r.stale.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", c.Kind)))
}

// call makes an attempt, and measures what it takes.
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

// count counts and logs what an effect came to.
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
