package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Waits records on the receipt that an effect waits, and why. words continues a sentence that starts with the
	// sink's name. For NotFirst, words is the key of the effect that must finish first.
	Waits func(ctx context.Context, c Call, sink, words string, why Hindrance)
	// Breakers and Pauses are stored in the database, so that all workers use the same state. Nil disables them.
	Breakers *breaker.Store
	Breaking Breaking
	Pauses   *pause.Store
	// Back is called when a sink recovers or its pause ends. Only one process calls it.
	Back  func(sink string)
	Meter metric.Meter
	// Log gets one line per outcome.
	Log *slog.Logger
	// Lost describes the last loss of data. It must not change while effects run.
	Lost Loss
}

// Hindrance is the reason why an effect waits.
type Hindrance string

// An effect waits because all slots of the sink are in use, the sink is down, a person has paused the sink, or another
// effect must finish first.
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
		metric.WithDescription("Effects by kind and outcome; already_done means that an earlier run executed the effect."))
	r.stale, errs[1] = c.Meter.Int64Counter("pawl_stale_rejections",
		metric.WithDescription("Effects of older events that did not change newer state, by kind."))
	r.lag, errs[2] = c.Meter.Float64Histogram("pawl_effect_lag", metric.WithUnit("s"),
		metric.WithDescription("Seconds from the receipt of an event to the completion of an effect, by kind."))
	r.calls, errs[3] = c.Meter.Float64Histogram("pawl_sink_call", metric.WithUnit("s"),
		metric.WithDescription("Duration of a call to a sink, by sink and outcome."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make metrics of effects: %w", err)
	}
	return r, nil
}

// Do runs an effect in an outside system. request holds the bytes to send on the first attempt; every later attempt
// gets the same bytes again. Do stores the value that fn returns as JSON.
//
// It waits while the sink is down or paused, acquires a slot of the sink's gate, claims the key, attempts the effect,
// updates the circuit breaker, and records the outcome.
//
// If Do returns an error, Temporal calls it again with the same arguments. The ledger prevents a second execution of
// the effect.
func (r *Runner) Do(ctx context.Context, c Call, p Policy, request []byte,
	fn func(context.Context, *Attempt) (any, error)) (Result, error) {
	if c.ByHand != nil {
		return r.assert(ctx, c, p)
	}
	p.Timeout = cmp.Or(c.Timeout, p.Timeout)
	if err := r.tooLate(ctx, c, p); err != nil {
		return Result{}, err
	}
	turn, err := r.hold(ctx, c, p)
	if err != nil {
		return Result{}, err
	}
	if turn.waits != nil {
		return *turn.waits, nil
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
	if err := p.forgotten(grant); err != nil {
		return r.record(ctx, c, p, grant, started, outcome{err: err})
	}
	out := r.attempt(ctx, c, p, grant, fn)
	reached(c, "after-send")
	if begun, ok := errors.AsType[*Unfinished](out.err); ok {
		// If the release fails, the lease ends soon.
		_ = r.Ledger.Release(context.WithoutCancel(ctx), c.Key, grant.Token, begun.Reason)
		return Result{}, r.Later(ctx, begun)
	}
	r.judge(ctx, c, p, turn.probe, out.err)
	if turn.last {
		p.Retries.MaxElapsed = 0
	}
	return r.record(ctx, c, p, grant, started, out)
}

// tooLate returns an error if a local activity has waited for so long that its call could be interrupted by the
// timeout. An interrupted call may leave an e-mail uncertain. The regular activity that follows has its full timeout.
func (r *Runner) tooLate(ctx context.Context, c Call, p Policy) error {
	deadline, ok := ctx.Deadline()
	if !ok || !activity.GetInfo(ctx).IsLocalActivity || time.Until(deadline) >= p.Timeout+claiming {
		return nil
	}
	return r.retryLater(ctx, TypeNotYet, 0, nil, "%s has waited too long for its turn", c.Key)
}

// attempt executes the effect once and measures the duration of the call.
func (r *Runner) attempt(ctx context.Context, c Call, p Policy, g ledger.Grant,
	fn func(context.Context, *Attempt) (any, error)) outcome {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	a := &Attempt{IdempotencyKey: IdempotencyKey(c.Key, g.Generation), Request: g.Request,
		Repeat: g.Age > 0, Age: g.Age, Correlation: c.Correlation, Trying: g.Trying}
	a.commit = func() error { return r.mark(ctx, c, g) }
	a.lost = func(at time.Time) error { return r.Lost.check(p, g, at) }
	began := time.Now()
	value, err := fn(ctx, a)
	if p.Gate != nil {
		r.calls.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(attribute.String("sink", p.Gate.sink),
			attribute.String("outcome", callOutcome(err))))
	}
	return outcome{value: value, also: a.also, err: err}
}

// mark records in the ledger that the effect may happen from now on. It returns an error if the claim has expired. If
// the database does not answer, mark retries until ctx ends: if it is unknown whether the mark was set, the effect
// would become uncertain although nothing was sent.
func (r *Runner) mark(ctx context.Context, c Call, g ledger.Grant) (err error) {
	var held bool
	retryUntilDone(ctx, func() bool {
		held, err = r.Ledger.Commit(ctx, c.Key, g.Token)
		return err == nil
	})
	reached(c, "after-mark")
	if err == nil && !held {
		err = ledger.ErrTakenOver
	}
	return Infrastructure(err)
}

// callOutcome returns the metric label for a call that ended with err.
func callOutcome(err error) string {
	if err == nil {
		return "ok"
	}
	if _, unwanted := errors.AsType[*NotWanted](err); unwanted {
		return "skipped"
	}
	if _, begun := errors.AsType[*Unfinished](err); begun {
		return "unfinished"
	}
	if isInfrastructure(err) {
		return "infrastructure"
	}
	class, _ := Classify(err)
	return string(class)
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

// reached is a failpoint at which tests stop the process. It does nothing in an ordinary build.
func reached(c Call, step string) {
	if failpoint.Enabled {
		failpoint.Hit(c.Kind + "-" + step)
	}
}

// retryLater returns an error with which Temporal retries the activity after the delay wait. Zero means the default
// delay for failures of pawl's own infrastructure.
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

// Later returns the error with which Temporal calls the activity of an unfinished effect again.
func (r *Runner) Later(ctx context.Context, u *Unfinished) error {
	return r.retryLater(ctx, TypeNotYet, u.Wait, nil, "%s", u.Reason)
}

// Stale counts an effect of an older event that did not change newer state.
func (r *Runner) Stale(ctx context.Context, c Call) {
	r.stale.Add(ctx, 1, metric.WithAttributes(attribute.String("kind", c.Kind)))
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
