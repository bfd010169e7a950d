package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// worker is a process with its view of a sink, on a database that several workers share.
type worker struct {
	*bundle
	runner *effect.Runner
	policy effect.Policy
	back   []string
}

func (b *bundle) worker() *worker {
	b.Helper()
	w := &worker{bundle: b, policy: policy}
	config := b.config
	config.Back = func(sink string) { w.back = append(w.back, sink) }
	var err error
	if w.runner, err = effect.NewRunner(config); err != nil {
		b.Fatal(err)
	}
	w.policy.Gate = effect.NewGate("finance", 16, 0)
	return w
}

// reads makes the worker read the stored breakers from the database.
func (w *worker) reads() {
	w.runner.Read(w.Context(), []*effect.Gate{w.policy.Gate}, func(context.Context) (map[string]int, error) { return map[string]int{"finance": 300}, nil })
}

func (w *worker) tries(c effect.Call, fn work) (effect.Result, error) {
	w.Helper()
	return w.activity(func(ctx context.Context) (effect.Result, error) { return w.runner.Do(ctx, c, w.policy, nil, fn) })
}

func down(status int) error {
	return &effect.Failure{Class: ledger.Transient, Health: effect.Down, Err: fmt.Errorf("finance answered %d", status)}
}

func denied() error {
	return &effect.Failure{Class: ledger.Transient, Health: effect.Denied, Err: errors.New("finance answered 401")}
}

func answered(class ledger.Class) error {
	return &effect.Failure{Class: class, Health: effect.Answered, Err: errors.New("finance answered 4xx")}
}

// fails makes the given number of effects fail, one after another.
func (w *worker) fails(name string, n int, err error) {
	w.Helper()
	for i := range n {
		if result, got := w.tries(keyed(fmt.Sprintf("%s-%d", name, i)), fail(err)); got == nil && result.State != effect.Waits {
			w.Fatalf("%s-%d ended as %+v", name, i, result)
		}
	}
}

func (w *worker) wantOut(out bool, reason string) {
	w.Helper()
	if _, got, is := w.policy.Gate.Out(); is != out || got != reason {
		w.Fatalf("out %t because %q, want %t because %q", is, got, out, reason)
	}
}

// Consecutive equal failures of more than one effect open the breaker; other failures do not.
func TestBreaker_WhatOpensIt(t *testing.T) {
	four := effect.DefaultBreaking.Failures - 1
	for name, tt := range map[string]struct {
		happens func(*worker)
		reason  string
	}{
		"equal failures": {func(w *worker) { w.fails("a", four+1, down(503)) }, "finance answered 503"},
		"one too few":    {func(w *worker) { w.fails("a", four, down(503)) }, ""},
		"an answer between": {func(w *worker) {
			w.fails("a", four, down(503))
			_, _ = w.tries(keyed("x"), succeed)
			w.fails("b", four, down(503))
		}, ""},
		"a refusal between": {func(w *worker) {
			w.fails("a", four, down(503))
			_, _ = w.tries(keyed("x"), fail(answered(ledger.Permanent)))
			w.fails("b", four, down(503))
		}, ""},
		"unequal failures": {func(w *worker) { w.fails("a", four, down(503)); w.fails("b", four, down(500)) }, ""},
		"one effect's": {func(w *worker) {
			for range 3 * four {
				w.fails("a", 1, down(503))
			}
		}, ""},
		"two effects', in turns": {func(w *worker) {
			for range 3 * four {
				w.fails("a", 2, down(503))
			}
		}, ""},
		"one that knows us not": {func(w *worker) { w.fails("a", 1, denied()) }, "finance answered 401"},
		"refusals": {func(w *worker) {
			for i := range 3 * four {
				_, _ = w.tries(keyed(fmt.Sprint(i)), fail(answered(ledger.Permanent)))
			}
		}, ""},
		"other answers":   {func(w *worker) { w.fails("a", 3*four, answered(ledger.Transient)) }, ""},
		"our own trouble": {func(w *worker) { w.fails("a", 3*four, effect.Infrastructure(errors.New("the database is away"))) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t).worker()
			tt.happens(w)
			w.wantOut(tt.reason != "", tt.reason)
		})
	}
}

// If one worker opens a breaker, the other worker makes no attempt and no claim, and uses no slot. Only one worker
// sends a probe. A successful probe closes the breaker for both workers, and one of them resumes the waiting effects.
func TestBreaker_TwoWorkers_OneProbes_ClosesForBoth(t *testing.T) {
	b := setup(t)
	one, other := b.worker(), b.worker()
	one.fails("a", 5, down(503))
	one.wantOut(true, "finance answered 503")
	other.wantOut(false, "")
	other.reads()
	other.wantOut(true, "finance answered 503")
	for _, w := range []*worker{one, other} {
		result, err := w.tries(keyed("late"), never(t))
		got := w.want(result, err, effect.Waits)
		if !strings.HasPrefix(got.Reason, "finance has been down since ") || !strings.HasSuffix(got.Reason, ": finance answered 503") {
			t.Errorf("told %q", got.Reason)
		}
	}
	result, err := other.tries(keyed("later"), never(t))
	if wait := other.want(result, err, effect.Waits).Wait; wait < 30*time.Second || wait > 36*time.Second {
		t.Errorf("waits %s behind 300 others, of which ten poll each second; want 30s and up to a fifth more", wait)
	}
	if got := b.one(`select count(*) || ' ' || max(attempts) from effects`); got != "5 1" {
		t.Errorf("effects and tries: %s, want those before it was out", got)
	}

	probe := func(fn work) (tried int) {
		t.Helper()
		b.exec(`update breakers set probe_at = now()`)
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range 8 {
			w := []*worker{one, other}[i%2]
			w.reads()
			group.Go(func() {
				_, _ = w.tries(keyed(fmt.Sprintf("probe-%d", i)), func(ctx context.Context, a *effect.Attempt) (any, error) {
					mu.Lock()
					defer mu.Unlock()
					tried++
					return fn(ctx, a)
				})
			})
		}
		group.Wait()
		return tried
	}
	if n := probe(fail(down(502))); n != 1 {
		t.Errorf("%d probes, want one", n)
	}
	if got := b.one(`select concat_ws(' ', open, reason, probes) from breakers`); got != "t finance answered 502 1" {
		t.Errorf("breaker: %s", got)
	}
	one.reads()
	one.wantOut(true, "finance answered 502")
	b.exec(`delete from effects where key like 'probe-%'`)
	if n := probe(succeed); n < 1 {
		t.Error("nobody probed")
	}
	one.reads()
	other.reads()
	one.wantOut(false, "")
	other.wantOut(false, "")
	if back := slices.Concat(one.back, other.back); !slices.Equal(back, []string{"finance"}) {
		t.Errorf("resumed %q, want one worker once", back)
	}
	result, err = other.tries(keyed("late"), succeed)
	b.want(result, err, effect.Done)
}

// If an effect has failed and its sink is down, the effect waits for the sink, and not for the time of its own next
// attempt. The receipt shows this wait.
func TestBreaker_FailedMeanwhile_WaitsForTheSink(t *testing.T) {
	w := setup(t).worker()
	result, err := w.tries(keyed("first"), fail(denied()))
	w.want(result, err, effect.Waits)
	if len(w.retrying) != 1 || !strings.HasPrefix(w.retrying[0], "effect:stripe:live:first waits: finance has been down since ") {
		t.Errorf("shown %q", w.retrying)
	}
	if got := w.one(`select state || ' ' || error_class || ' ' || failures from effects`); got != "failed transient 1" {
		t.Errorf("effect: %s", got)
	}
}

// If the retry time of an effect ends while its sink is down, the effect makes a last attempt and then ends. If an
// effect is done or has failed, Do returns its state at once.
func TestBreaker_TimeIsOver_LastTry(t *testing.T) {
	w := setup(t).worker()
	result, err := w.tries(keyed("done"), succeed)
	w.want(result, err, effect.Done)
	w.fails("tried", 1, denied())
	w.wantOut(true, "finance answered 401")
	result, err = w.tries(keyed("done"), never(t))
	w.want(result, err, effect.AlreadyDone)
	result, err = w.tries(keyed("tried-0"), never(t))
	w.want(result, err, effect.Waits)
	w.passes(25 * time.Hour)
	result, err = w.tries(keyed("tried-0"), fail(denied()))
	if got := w.want(result, err, effect.Failed); got.Reason != "exhausted: finance answered 401" {
		t.Errorf("reason %q", got.Reason)
	}
	result, err = w.tries(keyed("tried-0"), never(t))
	w.want(result, err, effect.Failed)
	// An effect that has made no attempt uses its waiting time instead.
	c := keyed("new")
	c.WaitingSince = time.Now().Add(-23 * time.Hour)
	result, err = w.tries(c, never(t))
	if got := w.want(result, err, effect.Waits); got.Wait > time.Hour {
		t.Errorf("waits %s, and an hour is left", got.Wait)
	}
	c.WaitingSince = time.Now().Add(-25 * time.Hour)
	result, err = w.tries(c, fail(denied()))
	w.want(result, err, effect.Failed)
}

// If a sink fails for only one account, the breaker stays open until the next probe. Effects of other accounts probe
// first, and close the breaker. The stored failures contain the events and the sink's answer.
func TestBreaker_FailsForOneAccount_AnotherProbes(t *testing.T) {
	w := setup(t).worker()
	of := func(account string) { w.policy.About = "live:" + account }
	of("acme")
	var locked *effect.Failure
	if !errors.As(down(503), &locked) {
		t.Fatal("a sink that is down is no failure")
	}
	locked.Detail = "acme is locked"
	w.fails("acme", 5, locked)
	w.wantOut(true, "finance answered 503")
	if got := w.one(`select concat_ws(' ', reason, said, array_length(events, 1), about) from breakers`); got != "finance answered 503 acme is locked 1 {live:acme}" {
		t.Errorf("breaker: %s", got)
	}
	w.exec(`update breakers set probe_at = now()`)
	w.reads()
	result, err := w.tries(keyed("acme-0"), never(t))
	w.want(result, err, effect.Waits)
	of("globex")
	result, err = w.tries(keyed("globex"), succeed)
	w.want(result, err, effect.Done)
	w.wantOut(false, "")
}

// If only effects of the failing account wait, one of them is the probe.
func TestBreaker_NobodyElseWaits_SameAccountProbes(t *testing.T) {
	w := setup(t).worker()
	w.policy.About = "live:acme"
	w.fails("acme", 5, down(503))
	w.exec(`update breakers set probe_at = now()`)
	w.runner.Read(w.Context(), []*effect.Gate{w.policy.Gate}, func(context.Context) (map[string]int, error) { return map[string]int{"finance": 1}, nil })
	w.passes(time.Hour)
	result, err := w.tries(keyed("acme-0"), succeed)
	w.want(result, err, effect.Done)
}

// affected lists the effects' events that the newest outage affects, by the names of [keyed] effects.
func (w *worker) affected() string {
	w.Helper()
	return w.one(`select coalesce(string_agg(r.event_id, ' ' order by r.event_id), '') from outage_events e join receipts r on r.id = e.receipt_id
		where e.outage = (select max(id) from outages)`)
}

// of returns an effect of an event.
func of(eventID, name string) effect.Call {
	c := keyed(name)
	c.Ref = schematest.Ref(eventID)
	return c
}

// An outage contains the events of the failures that opened the breaker, of failed probes, and of effects that waited
// without an attempt. It contains no event that the sink answered before or after.
func TestOutage_AffectedEvents(t *testing.T) {
	b := setup(t)
	w, other := b.worker(), b.worker()
	result, err := w.tries(of("evt_0", "before"), succeed)
	w.want(result, err, effect.Done)
	for i := range effect.DefaultBreaking.Failures {
		_, _ = w.tries(of("evt_1", fmt.Sprint("first-", i)), fail(down(503)))
	}
	w.wantOut(true, "finance answered 503")
	if got := w.affected(); got != "evt_1" {
		t.Fatalf("opened by %s, want evt_1", got)
	}
	other.reads()
	result, err = other.tries(of("evt_2", "waits"), never(t))
	other.want(result, err, effect.Waits)
	if got := w.affected(); got != "evt_1 evt_2" {
		t.Errorf("after an effect waited: %s", got)
	}
	b.exec(`update breakers set probe_at = now()`)
	other.reads()
	_, _ = other.tries(of("evt_3", "probe"), fail(down(503)))
	if got := w.affected(); got != "evt_1 evt_2 evt_3" {
		t.Errorf("after a failed probe: %s", got)
	}
	late := of("evt_4", "late")
	late.WaitingSince = time.Now().Add(-25 * time.Hour)
	result, err = w.tries(late, fail(down(503)))
	w.want(result, err, effect.Failed)
	if got := w.affected(); got != "evt_1 evt_2 evt_3 evt_4" {
		t.Errorf("after a failed last attempt: %s", got)
	}
	b.exec(`update breakers set probe_at = now()`)
	w.reads()
	result, err = w.tries(of("evt_5", "answered"), succeed)
	w.want(result, err, effect.Done)
	if got := w.one(`select concat_ws(' ', sink, until is not null, reason, count(e)) from outages o join outage_events e on e.outage = o.id group by o.id`); got != "finance t finance answered 503 4" {
		t.Errorf("outage: %s", got)
	}
}

// The failures of an outage that another worker has ended do not count for the next one.
func TestOutage_EndedByOtherWorker_CountsAnew(t *testing.T) {
	b := setup(t)
	w, other := b.worker(), b.worker()
	for i := range effect.DefaultBreaking.Failures {
		_, _ = w.tries(of("evt_1", fmt.Sprint("first-", i)), fail(down(503)))
	}
	b.exec(`update breakers set probe_at = now()`)
	other.reads()
	result, err := other.tries(of("evt_2", "answered"), succeed)
	other.want(result, err, effect.Done)
	w.reads()
	_, _ = w.tries(of("evt_3", "again"), fail(down(503)))
	if got := w.one(`select concat_ws(' ', open, (select count(*) from outages)) from breakers`); got != "f 1" {
		t.Errorf("after one failure: %s, want a closed breaker and one outage", got)
	}
}

// An effect that waits for a paused sink is not part of an outage.
func TestOutage_Pause_NoOutage(t *testing.T) {
	w := setup(t).worker()
	w.fails("a", 1, denied())
	w.exec(`delete from outage_events`)
	w.exec(`insert into pauses (kind, name, who, why) values ('sink', 'finance', 'ada', 'they move the books')`)
	w.reads()
	result, err := w.tries(of("evt_2", "waits"), never(t))
	w.want(result, err, effect.Waits)
	if got := w.affected(); got != "" {
		t.Errorf("affected %s, want no event", got)
	}
}
