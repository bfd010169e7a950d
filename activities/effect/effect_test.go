package effect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// bundle runs effects as activities with a real ledger.
type bundle struct {
	*testing.T
	pool   *pgxpool.Pool
	runner *effect.Runner
	config effect.Config

	mu       sync.Mutex
	retrying []string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{T: t, pool: schematest.New(t)}
	for i := range 8 {
		schematest.Receipts(t, b.pool, fmt.Sprintf("evt_%d", i))
	}
	book := ledger.New(b.pool, groupcommit.Config{})
	t.Cleanup(book.Close)
	var err error
	b.config = effect.Config{Log: slog.New(slog.DiscardHandler),
		Ledger: book, Meter: noop.Meter{}, Breakers: breaker.New(b.pool), Pauses: pause.New(b.pool), Breaking: effect.DefaultBreaking,
		Waits: func(_ context.Context, c effect.Call, sink, words string, _ effect.Hindrance) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.retrying = append(b.retrying, c.Key+" waits: "+sink+" "+words)
		},
		Retrying: func(_ context.Context, _ effect.Call, reason string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.retrying = append(b.retrying, reason)
		},
	}
	if b.runner, err = effect.NewRunner(b.config); err != nil {
		t.Fatal(err)
	}
	return b
}

func call(eventID string, round int) effect.Call {
	return effect.Call{Ref: schematest.Ref(eventID), Key: "finance-export:stripe:live:acme:in_1", Kind: "finance-export", Round: round}
}

var policy = effect.Policy{
	Timeout: 5 * time.Second, Retries: effect.Retries{InitialInterval: 100 * time.Millisecond, MaxInterval: time.Second, MaxElapsed: 24 * time.Hour},
}

type work func(context.Context, *effect.Attempt) (any, error)

// activity runs fn as Temporal runs an activity.
func (b *bundle) activity(fn func(context.Context) (effect.Result, error)) (effect.Result, error) {
	b.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(fn)
	value, err := env.ExecuteActivity(fn)
	if err != nil {
		return effect.Result{}, err
	}
	var result effect.Result
	if err := value.Get(&result); err != nil {
		b.Fatal(err)
	}
	return result, nil
}

func (b *bundle) do(c effect.Call, p effect.Policy, request string, fn work) (effect.Result, error) {
	b.Helper()
	return b.activity(func(ctx context.Context) (effect.Result, error) { return b.runner.Do(ctx, c, p, []byte(request), fn) })
}

func (b *bundle) doTx(c effect.Call, fn func(context.Context, ledger.Tx) (any, error)) (effect.Result, error) {
	b.Helper()
	return b.activity(func(ctx context.Context) (effect.Result, error) {
		return b.runner.DoTx(ctx, c, "account acme (live)", fn)
	})
}

// again fails the test unless the error is retryable and has the given type.
func (b *bundle) again(err error, kind string) *temporal.ApplicationError {
	b.Helper()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != kind || app.NonRetryable() {
		b.Fatalf("error %v, want a retryable one of type %s", err, kind)
	}
	return app
}

func (b *bundle) want(result effect.Result, err error, state effect.State) effect.Result {
	b.Helper()
	if err != nil || result.State != state {
		b.Fatalf("result %+v, %v; want %s", result, err, state)
	}
	return result
}

func (b *bundle) one(sql string) (text string) {
	b.Helper()
	if err := b.pool.QueryRow(b.Context(), sql).Scan(&text); err != nil {
		b.Fatal(err)
	}
	return text
}

func (b *bundle) exec(sql string) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql); err != nil {
		b.Fatal(err)
	}
}

// passes moves the times of the first attempts and of the first claims into the past.
func (b *bundle) passes(d time.Duration) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), `update effects set tried_since = tried_since - $1::interval, claimed_at = claimed_at - $1::interval`, d); err != nil {
		b.Fatal(err)
	}
}

func succeed(context.Context, *effect.Attempt) (any, error) { return map[string]int{"n": 1}, nil }

func fail(err error) work {
	return func(context.Context, *effect.Attempt) (any, error) { return nil, err }
}

func never(t *testing.T) work {
	return func(context.Context, *effect.Attempt) (any, error) {
		t.Error("the effect was tried")
		return nil, nil
	}
}

func busy(after time.Duration, unanswered bool) error {
	return &effect.Failure{Class: ledger.Transient, RetryAfter: after, Unanswered: unanswered, Err: errors.New("answered 503")}
}

func TestDo_Once_LaterCallsLearnWhoDidIt(t *testing.T) {
	b := setup(t)
	result, err := b.do(call("evt_1", 0), policy, "x", succeed)
	if got := b.want(result, err, effect.Done); string(got.Value) != `{"n":1}` {
		t.Errorf("value %s", got.Value)
	}
	result, err = b.do(call("evt_1", 0), policy, "x", never(t))
	if got := b.want(result, err, effect.AlreadyDone); got.By != "" || string(got.Value) != `{"n":1}` {
		t.Errorf("result %+v, want the same event's, with what was recorded", got)
	}
	result, err = b.do(call("evt_2", 0), policy, "x", never(t))
	if got := b.want(result, err, effect.AlreadyDone); got.By != "evt_1" {
		t.Errorf("done by %q, want evt_1", got.By)
	}
	if got := b.one(`select string_agg(outcome || ' ' || error, ', ' order by ended_at) from attempts`); got != "done , already_done done, already_done done by evt_1" {
		t.Errorf("attempts: %s", got)
	}
}

// The request of a retry depends on the earlier attempts. It is a new request only if the sink cannot have received
// an earlier request.
func TestDo_EveryAttempt_SameBytesSameKey(t *testing.T) {
	key := call("", 0).Key
	for name, tt := range map[string]struct {
		unanswered bool
		second     error
		retried    string
	}{
		"answered, then refused":    {false, effect.Refuse("422"), key + ":g2 fourth"},
		"unanswered, then refused":  {true, effect.Refuse("402"), key + " first"},
		"answered, then a fault":    {false, effect.Fault("401"), key + ":g2 fourth"},
		"unanswered, then a fault":  {true, effect.Fault("401"), key + " first"},
		"unanswered, then in doubt": {true, effect.Doubt("no answer to the final dot"), key + ":g2 fourth"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			var sent []string
			send := func(err error) work {
				return func(_ context.Context, a *effect.Attempt) (any, error) {
					sent = append(sent, a.IdempotencyKey+" "+string(a.Request))
					return nil, err
				}
			}
			_, err := b.do(call("evt_1", 0), policy, "first", send(busy(0, tt.unanswered)))
			_ = b.again(err, effect.TypeTransient)
			ended, err := b.do(call("evt_2", 0), policy, "second", send(tt.second))
			if err != nil || ended.MayHaveHappened() != tt.unanswered {
				t.Fatalf("result %+v, %v", ended, err)
			}
			result, err := b.do(call("evt_2", 0), policy, "third", never(t))
			round := b.want(result, err, ended.State).Round
			result, err = b.do(call("evt_2", round+1), policy, "fourth", send(nil))
			b.want(result, err, effect.Done)
			if want := []string{key + " first", key + " first", tt.retried}; !slices.Equal(sent, want) {
				t.Errorf("sent\n got %q\nwant %q", sent, want)
			}
		})
	}
}

// A person repeats an uncertain effect, and the sink refuses the repetition. The effect stays uncertain.
func TestDo_RefusedAfterADoubt_MayHaveHappened(t *testing.T) {
	b := setup(t)
	result, err := b.do(call("evt_1", 0), policy, "x", fail(effect.Doubt("no answer to the final dot")))
	b.want(result, err, effect.Uncertain)
	result, err = b.do(call("evt_1", 1), policy, "x", fail(effect.Refuse("550")))
	if got := b.want(result, err, effect.Refused); !got.MayHaveHappened() {
		t.Errorf("result %+v", got)
	}
	result, err = b.do(call("evt_1", 1), policy, "x", never(t))
	if got := b.want(result, err, effect.Refused); !got.MayHaveHappened() {
		t.Errorf("the recorded result is %+v", got)
	}
}

func TestDo_Transient_WaitsAsAskedOrLonger(t *testing.T) {
	b := setup(t)
	_, err := b.do(call("evt_1", 0), policy, "x", fail(busy(0, false)))
	if wait := b.again(err, effect.TypeTransient).NextRetryDelay(); wait < 100*time.Millisecond || wait > 120*time.Millisecond {
		t.Errorf("first backoff is %s, want 100ms and up to a fifth more", wait)
	}
	_, err = b.do(call("evt_1", 0), policy, "x", fail(busy(42*time.Second, false)))
	if wait := b.again(err, effect.TypeTransient).NextRetryDelay(); wait < 42*time.Second || wait > 51*time.Second {
		t.Errorf("wait is %s, want the 42s that were asked for", wait)
	}
	if len(b.retrying) != 2 || b.retrying[0] != "finance-export: answered 503" {
		t.Errorf("reported %q, want each failure", b.retrying)
	}
}

func TestDo_TimeUsedUp_FailedUntilALaterRound(t *testing.T) {
	b := setup(t)
	for range 2 {
		_, err := b.do(call("evt_1", 0), policy, "x", fail(busy(0, false)))
		_ = b.again(err, effect.TypeTransient)
	}
	b.passes(25 * time.Hour)
	result, err := b.do(call("evt_1", 0), policy, "x", fail(busy(0, false)))
	if got := b.want(result, err, effect.Failed); got.Reason != "exhausted: answered 503" || got.MayHaveHappened() {
		t.Errorf("result %+v", got)
	}
	result, err = b.do(call("evt_1", 0), policy, "x", never(t))
	if got := b.want(result, err, effect.Failed); got.Reason != "exhausted: answered 503" {
		t.Errorf("the recorded result is %+v", got)
	}
	_, err = b.do(call("evt_1", 1), policy, "x", fail(busy(0, false)))
	_ = b.again(err, effect.TypeTransient) // the count of attempts starts again
	result, err = b.do(call("evt_1", 1), policy, "x", succeed)
	b.want(result, err, effect.Done)
}

func TestDo_OneTryUnanswered_MayHaveHappenedWhateverComesAfter(t *testing.T) {
	for name, last := range map[string]error{"exhausted": busy(0, false), "refused": effect.Refuse("402"), "a fault": effect.Fault("403")} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			_, err := b.do(call("evt_1", 0), policy, "x", fail(busy(0, true)))
			_ = b.again(err, effect.TypeTransient)
			_, err = b.do(call("evt_1", 0), policy, "x", fail(busy(0, false)))
			_ = b.again(err, effect.TypeTransient)
			b.passes(25 * time.Hour)
			result, err := b.do(call("evt_1", 0), policy, "x", fail(last))
			if err != nil || !result.MayHaveHappened() {
				t.Errorf("result %+v, %v; want that it may have happened", result, err)
			}
			result, err = b.do(call("evt_1", 0), policy, "x", never(t))
			if err != nil || !result.MayHaveHappened() {
				t.Errorf("the recorded result is %+v, %v", result, err)
			}
		})
	}
}

func TestDo_OurOwnTrouble_NotCounted(t *testing.T) {
	b := setup(t)
	for range 5 {
		_, err := b.do(call("evt_1", 0), policy, "x", fail(effect.Infrastructure(errors.New("connection reset"))))
		_ = b.again(err, effect.TypeInfrastructure)
		b.exec(`update effects set lease_until = now() - interval '1 second'`)
	}
	if got := b.one(`select failures || ' ' || state from effects`); got != "0 claimed" {
		t.Errorf("effect is %s, want no failure counted", got)
	}
}

func TestDo_DatabaseGone_TriedAgain(t *testing.T) {
	b := setup(t)
	b.pool.Close()
	_, err := b.do(call("evt_1", 0), policy, "x", never(t))
	_ = b.again(err, effect.TypeInfrastructure)
	_, err = b.doTx(call("evt_1", 0), func(context.Context, ledger.Tx) (any, error) { return nil, nil })
	_ = b.again(err, effect.TypeInfrastructure)
}

func TestDo_KeyForgottenByTheSink_Uncertain(t *testing.T) {
	b := setup(t)
	p := policy
	p.KeyLifetime = time.Hour
	_, err := b.do(call("evt_1", 0), p, "x", fail(busy(0, true)))
	_ = b.again(err, effect.TypeTransient)
	b.exec(`update effects set claimed_at = now() - interval '59 minutes'`)
	_, err = b.do(call("evt_1", 0), p, "x", fail(busy(0, true)))
	_ = b.again(err, effect.TypeTransient)
	b.exec(`update effects set claimed_at = now() - interval '61 minutes'`)
	result, err := b.do(call("evt_1", 0), p, "x", never(t))
	got := b.want(result, err, effect.Uncertain)
	if !strings.Contains(got.Reason, "the sink forgets keys after 1h0m0s") || !got.MayHaveHappened() {
		t.Errorf("result %+v", got)
	}
	result, err = b.do(call("evt_1", got.Round+1), p, "y", succeed) // a person has decided to retry
	b.want(result, err, effect.Done)
}

// The clock of the database measures the age of a key. A worker with a wrong clock therefore neither gives up early
// nor sends late.
func TestDo_KeyLifetime_ByTheDatabasesClock(t *testing.T) {
	for _, ahead := range []string{"1 day", "-1 day"} {
		t.Run(ahead, func(t *testing.T) {
			b := setup(t)
			// New connections use this function now() instead of the built-in function.
			b.exec(`create schema clock;
				create function clock.now() returns timestamptz stable language sql as $$ select pg_catalog.now() + interval '` + ahead + `' $$;
				alter table effects alter claimed_at set default clock.now();
				alter table effects alter tried_since set default clock.now();
				do $$ begin execute format('alter database %I set search_path = clock, pg_catalog, public', current_database()); end $$`)
			b.pool.Reset()
			p := policy
			p.KeyLifetime = time.Hour
			_, err := b.do(call("evt_1", 0), p, "x", fail(busy(0, true)))
			_ = b.again(err, effect.TypeTransient)
			_, err = b.do(call("evt_1", 0), p, "x", fail(busy(0, true)))
			_ = b.again(err, effect.TypeTransient)
			b.exec(`update effects set claimed_at = claimed_at - interval '31 days'`)
			result, err := b.do(call("evt_1", 0), p, "x", never(t))
			b.want(result, err, effect.Uncertain)
		})
	}
}

func TestDo_NotWanted_Skipped(t *testing.T) {
	b := setup(t)
	result, err := b.do(call("evt_1", 0), policy, "x", fail(&effect.NotWanted{Reason: "superseded"}))
	if got := b.want(result, err, effect.Skipped); got.Reason != "superseded" {
		t.Errorf("result %+v", got)
	}
	result, err = b.do(call("evt_1", 5), policy, "x", never(t))
	b.want(result, err, effect.Skipped)
}

// An effect that has begun and has no outcome yet is attempted again with the same key. It counts as no failure.
func TestDo_Unfinished_AttemptedAgain(t *testing.T) {
	b := setup(t)
	once := policy
	once.Marks = true
	for range 2 {
		_, err := b.do(call("evt_1", 0), once, "x", fail(&effect.Unfinished{Reason: "it runs", Wait: time.Minute}))
		if again := b.again(err, effect.TypeNotYet); again.NextRetryDelay() != time.Minute {
			t.Errorf("again after %s, want a minute", again.NextRetryDelay())
		}
	}
	result, err := b.do(call("evt_1", 0), once, "x", func(_ context.Context, a *effect.Attempt) (any, error) {
		if a.IdempotencyKey != call("evt_1", 0).Key || !a.Repeat || a.Age <= 0 {
			t.Errorf("attempt %+v", a)
		}
		return "done", nil
	})
	b.want(result, err, effect.Done)
}

// A request without a response may still reach the sink after the effect is no longer wanted. The next attempt must
// report that.
func TestDo_NotWantedAfterAnUnansweredTry_SaysSo(t *testing.T) {
	b := setup(t)
	_, err := b.do(call("evt_1", 0), policy, "x", fail(busy(0, true)))
	_ = b.again(err, effect.TypeTransient)
	result, err := b.do(call("evt_1", 0), policy, "x", fail(&effect.NotWanted{Reason: "superseded"}))
	if got := b.want(result, err, effect.Skipped); !got.Unanswered || got.Value != nil {
		t.Errorf("result %+v", got)
	}
	result, err = b.do(call("evt_2", 0), policy, "x", never(t))
	if got := b.want(result, err, effect.Skipped); !got.Unanswered || got.Value != nil {
		t.Errorf("the recorded result is %+v", got)
	}
}

func TestDo_Doubt_UncertainAndNeverRepeatedByItself(t *testing.T) {
	b := setup(t)
	result, err := b.do(call("evt_1", 0), policy, "x", fail(effect.Doubt("no answer to the final dot")))
	b.want(result, err, effect.Uncertain)
	result, err = b.do(call("evt_1", 0), policy, "x", never(t))
	b.want(result, err, effect.Uncertain)
}

// A run keeps the timeout that was configured when it started, because its flow uses the same value.
func TestDo_TimeoutOfTheCall_BeforeThePolicys(t *testing.T) {
	b := setup(t)
	for i, want := range []time.Duration{0, 20 * time.Second, 2 * time.Second} {
		c := call("evt_1", 0)
		c.Key, c.Timeout = fmt.Sprintf("finance-export:stripe:live:%d", i), want
		if want == 0 {
			want = policy.Timeout
		}
		result, err := b.do(c, policy, "x", func(ctx context.Context, _ *effect.Attempt) (any, error) {
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline); left > want || left < want/2 {
				t.Errorf("the attempt has %s, want %s", left, want)
			}
			if held := b.one(`select (lease_until > now() + make_interval(secs => ` + fmt.Sprint(want.Seconds()) + `))::text from effects where key = '` + c.Key + `'`); held != "true" {
				t.Error("the claim may run out before the attempt does")
			}
			return nil, nil
		})
		b.want(result, err, effect.Done)
	}
}

// Responses of other systems are stored in the ledger and not in Temporal's history.
func TestDo_WhatTheOtherSideSaid_InTheLedgerAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		class  ledger.Class
		state  effect.State
		reason string
	}{
		"transient": {ledger.Transient, "", "finance-export: sink.test answered 404"},
		"fault":     {ledger.Fault, effect.Failed, "fault: sink.test answered 404"},
		"refused":   {ledger.Permanent, effect.Refused, "sink.test answered 404"},
		"in doubt":  {ledger.Ambiguous, effect.Uncertain, "sink.test answered 404"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			said := &effect.Failure{Class: tt.class, Err: errors.New("sink.test answered 404"), Detail: "no customer ada@example.com – ever"}
			result, err := b.do(call("evt_1", 0), policy, "x", fail(said))
			if tt.state == "" {
				if app := b.again(err, effect.TypeTransient); app.Message() != tt.reason {
					t.Errorf("Temporal receives %q, want %q", app.Message(), tt.reason)
				}
			} else {
				for range 2 {
					if got := b.want(result, err, tt.state); got.Reason != tt.reason {
						t.Errorf("the flow receives %q, want %q", got.Reason, tt.reason)
					}
					result, err = b.do(call("evt_1", 0), policy, "x", never(t))
				}
			}
			if got := b.one(`select error from effects`); got != "sink.test answered 404 – no customer ada@example.com – ever" {
				t.Errorf("the ledger holds %q", got)
			}
		})
	}
}

// The response to a retry with the same key may describe an earlier attempt. It is therefore not treated as the
// result of the retry itself.
func TestDo_LaterAttemptOfAGeneration_IsARepeat(t *testing.T) {
	b := setup(t)
	var repeats []bool
	attempt := func(err error) work {
		return func(_ context.Context, a *effect.Attempt) (any, error) {
			repeats = append(repeats, a.Repeat)
			return nil, err
		}
	}
	_, err := b.do(call("evt_1", 0), policy, "x", attempt(busy(0, false)))
	_ = b.again(err, effect.TypeTransient)
	result, err := b.do(call("evt_1", 0), policy, "x", attempt(effect.Refuse("422")))
	b.want(result, err, effect.Refused)
	result, err = b.do(call("evt_1", 1), policy, "x", attempt(nil)) // the retry has a new key
	b.want(result, err, effect.Done)
	if want := []bool{false, true, false}; !slices.Equal(repeats, want) {
		t.Errorf("repeats: %v, want %v", repeats, want)
	}
}

// A worker dies between the mark and the response. Its claim expires, and the outcome of the effect is unknown.
func TestDo_DiedAfterPointOfNoReturn_Uncertain(t *testing.T) {
	b := setup(t)
	_, err := b.do(call("evt_1", 0), policy, "x", func(_ context.Context, a *effect.Attempt) (any, error) {
		if err := a.Commit(); err != nil {
			t.Errorf("commit: %v", err)
		}
		b.exec(`update effects set lease_until = now() - interval '1 second'`)
		result, err := b.do(call("evt_1", 0), policy, "x", never(t))
		b.want(result, err, effect.Uncertain)
		return nil, nil // a worker that resumes later does not record its result
	})
	_ = b.again(err, effect.TypeNotYet)
	if got := b.one(`select state from effects`); got != "uncertain" {
		t.Errorf("effect is %s", got)
	}
}

// Postgres does not respond while the mark is written. The attempt waits for Postgres, because nothing was sent yet.
func TestDo_StallAtThePointOfNoReturn_Done(t *testing.T) {
	b := setup(t)
	sent := 0
	result, err := b.do(call("evt_1", 0), policy, "x", func(ctx context.Context, a *effect.Attempt) (any, error) {
		holder, err := b.pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := holder.Exec(ctx, `select from effects for update`); err != nil {
			return nil, err
		}
		// The wait is longer than the timeout of a group commit.
		time.AfterFunc(1500*time.Millisecond, func() { _ = holder.Rollback(context.Background()) })
		if err := a.Commit(); err != nil {
			return nil, err
		}
		sent++
		return nil, nil
	})
	b.want(result, err, effect.Done)
	if got := b.one(`select state || ' ' || attempts from effects`); got != "done 1" || sent != 1 {
		t.Errorf("effect is %s, sent %d times", got, sent)
	}
}

// A worker dies during an effect, and the next attempt is refused or is the last one. The outcome of the first
// attempt is known only if the effect sets a mark before it sends anything.
func TestDo_DiedWithoutAMark_MayHaveHappened(t *testing.T) {
	marks := policy
	marks.Marks = true
	last := policy
	last.Retries.MaxElapsed = 0
	for name, tt := range map[string]struct {
		policy effect.Policy
		then   error
		want   effect.State
		may    bool
	}{
		"refused":                {policy, effect.Refuse("401"), effect.Refused, true},
		"exhausted":              {last, busy(0, false), effect.Failed, true},
		"refused, before a mark": {marks, effect.Refuse("550"), effect.Refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			_, err := b.do(call("evt_1", 0), tt.policy, "x", fail(effect.Infrastructure(errors.New("the database is gone"))))
			_ = b.again(err, effect.TypeInfrastructure)
			b.exec(`update effects set lease_until = now() - interval '1 second'`)
			result, err := b.do(call("evt_1", 0), tt.policy, "x", fail(tt.then))
			if got := b.want(result, err, tt.want); got.MayHaveHappened() != tt.may {
				t.Errorf("result %+v, want may have happened %v", got, tt.may)
			}
		})
	}
}

// A completed effect keeps its result, even if earlier attempts failed.
func TestDo_DiedThenDone_KeepsTheValue(t *testing.T) {
	b := setup(t)
	_, err := b.do(call("evt_1", 0), policy, "x", fail(effect.Infrastructure(errors.New("the database is gone"))))
	_ = b.again(err, effect.TypeInfrastructure)
	b.exec(`update effects set lease_until = now() - interval '1 second'`)
	result, err := b.do(call("evt_1", 0), policy, "x", fail(nil))
	b.want(result, err, effect.Done)
	result, err = b.do(call("evt_1", 0), policy, "x", never(t))
	if got := b.want(result, err, effect.AlreadyDone); string(got.Value) != "null" || got.Unanswered {
		t.Errorf("result %+v with %s", got, got.Value)
	}
}

// A slow worker loses its claim to another worker. The slow worker must stop before its point of no return.
func TestDo_TakenOver_StopsBeforePointOfNoReturn(t *testing.T) {
	b := setup(t)
	_, err := b.do(call("evt_1", 0), policy, "x", func(_ context.Context, a *effect.Attempt) (any, error) {
		b.exec(`update effects set lease_until = now() - interval '1 second'`)
		result, err := b.do(call("evt_1", 0), policy, "x", succeed)
		b.want(result, err, effect.Done)
		err = a.Commit()
		if err == nil {
			t.Error("the slow worker may continue")
		}
		return nil, err
	})
	_ = b.again(err, effect.TypeInfrastructure)
	if got := b.one(`select state || ' ' || attempts from effects`); got != "done 2" {
		t.Errorf("effect is %s", got)
	}
}

func TestDo_ManyAtOnce_OneDoesIt(t *testing.T) {
	b := setup(t)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		tried int
	)
	states := make([]effect.State, 8)
	for i := range states {
		group.Go(func() {
			result, err := b.do(call(fmt.Sprintf("evt_%d", i), 0), policy, "x", func(context.Context, *effect.Attempt) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				tried++
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
			states[i] = result.State
		})
	}
	group.Wait()
	slices.Sort(states)
	if tried != 1 || states[0] != effect.AlreadyDone || states[6] != effect.AlreadyDone || states[7] != effect.Done {
		t.Errorf("tried %d times: %v; want one done and seven already done", tried, states)
	}
}

// The limit of the wait for a claim is a time and not a number of queries, because the database may be slow. A longer
// wait would shorten the time for the effect, and an interrupted e-mail becomes uncertain.
func TestDo_HeldByAnother_SlowDatabase_WaitsNoLonger(t *testing.T) {
	b := setup(t)
	b.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until) values
		('finance-export:stripe:live:acme:in_1', 'finance-export', 'claimed', gen_random_uuid(), 'evt_1', 'r', now() + interval '1 hour')`)
	var asked atomic.Int64
	options := b.pool.Config()
	options.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
		asked.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return true, nil
	}
	slow, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	book := ledger.New(slow, groupcommit.Config{})
	t.Cleanup(book.Close)
	b.runner.Ledger = book
	_, err = b.do(call("evt_2", 0), policy, "x", never(t))
	_ = b.again(err, effect.TypeNotYet)
	// Each refused claim takes two queries of 0.2 s, and Do retries for one second.
	if n := asked.Load(); n > 12 {
		t.Errorf("asked the database %d times, %d s, for its turn; want about one second", n, n/10)
	}
}

// Many APIs accept keys of up to 255 bytes, and an account ID alone may have 200 bytes.
func TestDo_LongKey_SinksKeyIsShort(t *testing.T) {
	b := setup(t)
	sent := map[string]bool{}
	for _, length := range []int{254, 255, 256, 400} {
		for _, end := range []string{"a", "b"} {
			c := call("evt_1", 0)
			prefix := "finance-export:stripe:live:"
			c.Key = prefix + strings.Repeat("x", length-len(prefix)-1) + end
			_, err := b.do(c, policy, "x", func(_ context.Context, a *effect.Attempt) (any, error) {
				if k := a.IdempotencyKey; len(k) > 255 || !strings.HasPrefix(k, "finance-export:") || (k == c.Key) != (length <= 255) {
					t.Errorf("key of %d bytes: the sink gets %q", length, k)
				}
				sent[a.IdempotencyKey] = true
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(sent) != 8 {
		t.Errorf("eight effects have %d keys at the sink", len(sent))
	}
}

func TestDo_HeldByAnother_NotYet(t *testing.T) {
	b := setup(t)
	result, err := b.do(call("evt_1", 0), policy, "x", func(context.Context, *effect.Attempt) (any, error) {
		_, err := b.do(call("evt_2", 0), policy, "x", never(t))
		_ = b.again(err, effect.TypeNotYet)
		return nil, nil
	})
	b.want(result, err, effect.Done)
}

// A compensation is never dropped: when its attempts are used up, the run parks, and the next round continues.
func TestDo_Undo_FailsLikeAnyEffect_AndCompensates(t *testing.T) {
	b := setup(t)
	result, err := b.do(call("evt_1", 0), policy, "x", succeed)
	b.want(result, err, effect.Done)
	undo := effect.Call{Ref: schematest.Ref("evt_1"), Key: "reverse-finance-entry:stripe:live:in_1", Kind: "reverse-finance-entry", Compensates: call("", 0).Key}
	_, err = b.do(undo, policy, "x", fail(busy(0, false)))
	_ = b.again(err, effect.TypeTransient)
	b.passes(25 * time.Hour)
	result, err = b.do(undo, policy, "x", fail(busy(0, false)))
	b.want(result, err, effect.Failed)
	undo.Round = 1
	result, err = b.do(undo, policy, "x", succeed)
	b.want(result, err, effect.Done)
	result, err = b.do(call("evt_2", 7), policy, "x", never(t))
	b.want(result, err, effect.Compensated)
}

func TestDo_Also_InTheCommitOfTheOutcome(t *testing.T) {
	b := setup(t)
	b.exec(`create table seen (n int primary key)`)
	insert := func(err error) work {
		return func(_ context.Context, a *effect.Attempt) (any, error) {
			a.Also(ledger.Statement{SQL: `insert into seen values ($1)`, Args: []any{1}})
			return nil, err
		}
	}
	_, err := b.do(call("evt_1", 0), policy, "x", insert(busy(0, false)))
	_ = b.again(err, effect.TypeTransient)
	if got := b.one(`select count(*)::text from seen`); got != "0" {
		t.Errorf("%s rows after a failure", got)
	}
	result, err := b.do(call("evt_1", 0), policy, "x", insert(nil))
	b.want(result, err, effect.Done)
	if got := b.one(`select count(*)::text from seen`); got != "1" {
		t.Errorf("%s rows, want the effect's own", got)
	}
}

// If the response cannot be stored, the run parks after one request instead of sending the request again.
func TestDo_OutcomeThatCannotBeRecorded_FaultAndMayHaveHappened(t *testing.T) {
	b := setup(t)
	// a rollback does not reset a sequence
	b.exec(`create table seen (n int primary key check (n < 100)); create sequence tries minvalue 0`)
	var sent []string
	attempt := func(n int, value any) work {
		return func(_ context.Context, a *effect.Attempt) (any, error) {
			sent = append(sent, a.IdempotencyKey+" "+string(a.Request))
			a.Also(ledger.Statement{SQL: `insert into seen select $1::int from nextval('tries')`, Args: []any{n}})
			return value, nil
		}
	}
	round := 0
	for name, one := range map[string]work{
		"a constraint": attempt(100, nil),
		// Postgres rejects the parameter before it runs the statement
		"data": attempt(1, json.RawMessage(`1e999999`)),
	} {
		result, err := b.do(call("evt_1", round), policy, "x", one)
		got := b.want(result, err, effect.Failed)
		if got.Reason != "fault: the effect may have happened, but its result cannot be recorded" || !got.MayHaveHappened() || len(got.Value) != 0 {
			t.Errorf("%s: result %+v", name, got)
		}
		recorded, err := b.do(call("evt_1", round), policy, "x", never(t))
		if recorded := b.want(recorded, err, effect.Failed); recorded.Reason != got.Reason || !recorded.MayHaveHappened() {
			t.Errorf("%s: the recorded result is %+v", name, recorded)
		}
		round = got.Round + 1
	}
	if got := b.one(`select last_value::text from tries`); got != "0" {
		t.Errorf("the same record was tried %s times more", got)
	}
	// in this round the constraint does not fail
	result, err := b.do(call("evt_1", round), policy, "y", attempt(1, nil))
	b.want(result, err, effect.Done)
	key := call("", 0).Key
	if want := []string{key + " x", key + " x", key + " x"}; !slices.Equal(sent, want) {
		t.Errorf("sent\n got %q\nwant %q", sent, want)
	}
}

// The caller gets the same value as a later reader of the ledger.
func TestDo_ValueThatPostgresCannotHold_AsRecorded(t *testing.T) {
	b := setup(t)
	for _, state := range []effect.State{effect.Done, effect.AlreadyDone} {
		result, err := b.do(call("evt_1", 0), policy, "x", func(context.Context, *effect.Attempt) (any, error) { return "a\x00b", nil })
		if got := b.want(result, err, state); string(got.Value) != `"ab"` {
			t.Errorf("%s with %s", state, got.Value)
		}
	}
}

func TestDoTx_ChangeAndLedgerRow_TogetherOrNotAtAll(t *testing.T) {
	b := setup(t)
	b.exec(`create table seen (n int)`)
	insert := func(err error) func(context.Context, ledger.Tx) (any, error) {
		return func(ctx context.Context, tx ledger.Tx) (any, error) {
			if _, err := tx.Exec(ctx, `insert into seen values (1)`); err != nil {
				return nil, err
			}
			return "value", err
		}
	}
	_, err := b.doTx(call("evt_1", 0), insert(errors.New("deadlock detected")))
	_ = b.again(err, effect.TypeInfrastructure)
	if got := b.one(`select (select count(*) from seen) || ' ' || (select count(*) from effects)`); got != "0 0" {
		t.Errorf("after a failure of our own: %s rows", got)
	}
	result, err := b.doTx(call("evt_1", 0), insert(effect.Refuse("subscription_ended")))
	got := b.want(result, err, effect.Refused)
	if got := b.one(`select (select count(*) from seen) || ' ' || state || ' ' || error from effects`); got != "0 failed subscription_ended" {
		t.Errorf("after a refusal: %s", got)
	}
	result, err = b.doTx(call("evt_1", 0), insert(nil))
	b.want(result, err, effect.Refused)
	result, err = b.doTx(call("evt_1", got.Round+1), insert(nil))
	if got := b.want(result, err, effect.Done); string(got.Value) != `"value"` {
		t.Errorf("value %s", got.Value)
	}
	result, err = b.doTx(call("evt_2", 9), insert(nil))
	if got := b.want(result, err, effect.AlreadyDone); got.By != "evt_1" {
		t.Errorf("result %+v", got)
	}
	if got := b.one(`select (select count(*) from seen) || ' ' || state from effects`); got != "1 done" {
		t.Errorf("in the end: %s", got)
	}
}

// An effect in pawl's own database commits together with its record. If its claim expires without a record, the
// effect has not happened.
func TestDoTx_DiedAtTheRecordOfARefusal_HasNotHappened(t *testing.T) {
	b := setup(t)
	result, err := b.doTx(call("evt_1", 0), func(context.Context, ledger.Tx) (any, error) { return nil, effect.Refuse("subscription_ended") })
	b.want(result, err, effect.Refused)
	b.exec(`update effects set state = 'claimed', error_class = '', lease_until = now() - interval '1 second'`)
	result, err = b.doTx(call("evt_1", 0), func(context.Context, ledger.Tx) (any, error) { return nil, effect.Refuse("subscription_ended") })
	if got := b.want(result, err, effect.Refused); got.MayHaveHappened() {
		t.Errorf("result %+v", got)
	}
}

func TestDoTx_ManyAtOnce_OneCommits(t *testing.T) {
	b := setup(t)
	b.exec(`create table seen (n int)`)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			_, err := b.doTx(call(fmt.Sprintf("evt_%d", i), 0), func(ctx context.Context, tx ledger.Tx) (any, error) {
				_, err := tx.Exec(ctx, `insert into seen values (1)`)
				return nil, err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := b.one(`select (select count(*) from seen) || ' ' || (select count(*) from effects)`); got != "1 1" {
		t.Errorf("%s, want one row and one effect", got)
	}
}

// If another session has locked a row, the effect waits, and the receipt shows the reason. The wait does not count as
// an attempt.
func TestDoTx_LockHeldElsewhere_TriedAgainAndSaid(t *testing.T) {
	b := setup(t)
	b.exec(`create table seen (n int)`)
	b.exec(`insert into seen values (1)`)
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := holder.Exec(t.Context(), `select from seen for update`); err != nil {
		t.Fatal(err)
	}
	c := call("evt_1", 0)
	work := func(ctx context.Context, tx ledger.Tx) (any, error) {
		_, err := tx.Exec(ctx, `update seen set n = n + 1`)
		return nil, err
	}
	_, err = b.doTx(c, work)
	app := b.again(err, effect.TypeNotYet)
	if wait := app.NextRetryDelay(); wait < time.Second || wait > 2*time.Second {
		t.Errorf("tried again after %s", wait)
	}
	want := regexp.MustCompile(`^finance-export: waits for account acme \(live\) since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: another transaction holds its lock$`)
	if len(b.retrying) != 1 || !want.MatchString(b.retrying[0]) {
		t.Errorf("the receipt shows %q", b.retrying)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	result, err := b.doTx(c, work)
	b.want(result, err, effect.Done)
	if got := b.one(`select n || ' ' || attempts || ' ' || failures from seen, effects`); got != "2 1 0" {
		t.Errorf("%s: n, attempts, failures", got)
	}
}

func TestFromStatus(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answer := func(status int, after string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Request: &http.Request{URL: &url.URL{Host: "sink.test"}}}
	}
	for status := 100; status < 600; status++ {
		err := effect.FromStatus(answer(status, ""), "because", now) //nolint:bodyclose // it has no body
		var want ledger.Class
		switch {
		case status >= 200 && status < 300:
			if err != nil {
				t.Errorf("%d: %v", status, err)
			}
			continue
		case status == 401, status == 403, status == 408, status == 409, status == 425, status == 429, status >= 500:
			want = ledger.Transient
		default:
			want = ledger.Fault
		}
		if got, _ := effect.Classify(err); got != want || err.Error() != fmt.Sprintf("sink.test answered %d – because", status) {
			t.Errorf("%d is %s (%v), want %s", status, got, err, want)
		}
		open := want == ledger.Transient && status != 401 && status != 403 && status != 425 && status != 429 && status != 503
		if err.Unanswered != open {
			t.Errorf("%d: %+v; want unanswered %v", status, err, open)
		}
	}
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "1.5": 0, "soon": 0, "999999999": time.Hour,
		"10000000000": time.Hour, "18446744074": time.Hour, "99999999999999999999": time.Hour, "-99999999999999999999": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 11:00:00 GMT": 0, "Mon, 01 Mar 2027 12:00:00 GMT": time.Hour,
	} {
		err := effect.FromStatus(answer(503, header), "", now) //nolint:bodyclose // it has no body
		if _, got := effect.Classify(err); got != want {
			t.Errorf("Retry-After %q: wait %s, want %s", header, got, want)
		}
	}
}

func TestClassify_UnknownIsTransient(t *testing.T) {
	t.Parallel()
	if class, wait := effect.Classify(fmt.Errorf("wrapped: %w", errors.New("whatever"))); class != ledger.Transient || wait != 0 {
		t.Errorf("class %s, wait %s", class, wait)
	}
	if class, _ := effect.Classify(fmt.Errorf("wrapped: %w", effect.Doubt("x"))); class != ledger.Ambiguous {
		t.Errorf("class %s", class)
	}
}

func TestResult_StandsInHistoriesAsWritten(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(effect.Result{State: effect.Done})
	if err != nil || string(encoded) != `{"State":"done"}` {
		t.Errorf("encoded %s, %v", encoded, err)
	}
}

// Temporal's protocol rejects invalid UTF-8. If an error were cut within a character, it could not be reported, and
// the flow would wait forever.
func TestDo_LongAnswer_CutBetweenLetters(t *testing.T) {
	b := setup(t)
	for _, lead := range []string{"", "x"} {
		_, err := b.do(call("evt_1", 0), policy, "", fail(&effect.Failure{
			Class: ledger.Transient, Err: errors.New(lead + strings.Repeat("\u00e9", 400) + "\x00\xff"),
		}))
		if message := b.again(err, effect.TypeTransient).Message(); !utf8.ValidString(message) {
			t.Errorf("error %q is no UTF-8", message)
		}
		_, err = b.do(call("evt_1", 0), policy, "", fail(&effect.Failure{
			Class: ledger.Transient, Err: errors.New("bad header \x00\xff"),
		}))
		if message := b.again(err, effect.TypeTransient).Message(); !utf8.ValidString(message) || strings.Contains(message, "\x00") {
			t.Errorf("error %q cannot be held", message)
		}
	}
	for _, shown := range b.retrying {
		if !utf8.ValidString(shown) || strings.Contains(shown, "\x00") {
			t.Errorf("receipt shows %q, which Postgres cannot hold", shown)
		}
	}
}

// A local attempt that has waited for a slot may have less time left than the timeout of a call. In that case it does
// not start.
func TestDo_TooLittleTimeLeft_NotBegun(t *testing.T) {
	b := setup(t)
	local := func(left time.Duration) (called bool, err error) {
		_, err = b.locally(policy, left, "evt_1", func(context.Context, *effect.Attempt) (any, error) {
			called = true
			return nil, nil
		})
		return called, err
	}
	called, err := local(policy.Timeout + time.Second)
	if _ = b.again(err, effect.TypeNotYet); called {
		t.Error("it was begun")
	}
	if got := b.one(`select count(*)::text from effects`); got != "0" {
		t.Errorf("%s effects were claimed, want none", got)
	}
	// The available times of a local attempt that does not wait, and then of the regular attempt.
	if called, err := local(policy.Timeout + 5*time.Second); err != nil || !called {
		t.Errorf("with time enough: called %t, %v", called, err)
	}
}

// locally runs an effect as a local attempt with the given time.
func (b *bundle) locally(p effect.Policy, left time.Duration, key string, fn func(context.Context, *effect.Attempt) (any, error)) (effect.Result, error) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	value, err := suite.NewTestActivityEnvironment().SetTestTimeout(time.Minute).ExecuteLocalActivity(func(ctx context.Context) (effect.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		return b.runner.Do(ctx, keyed(key), p, nil, fn)
	})
	if err != nil {
		return effect.Result{}, err
	}
	var result effect.Result
	err = value.Get(&result)
	return result, err
}
