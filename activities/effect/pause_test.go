package effect_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// pauses starts a pause of the finance sink in the past; the worker has not read the pause yet.
func (b *bundle) pauses(ago string) {
	b.Helper()
	b.exec(`insert into pauses (kind, name, who, why, since) values ('sink', 'finance', 'ada', 'the books are closed', now() - interval '` + ago + `')`)
}

func (b *bundle) resumes() {
	b.Helper()
	b.exec(`update pauses set until = now() where until is null`)
}

// A paused sink receives no attempt and no probe, and its breaker stays as it is, whether the sink is up or down.
func TestPause_NothingGoesThrough_UntilItIsOver(t *testing.T) {
	b := setup(t)
	one, other := b.worker(), b.worker()
	one.fails("a", 5, down(503))
	b.pauses("1 minute")
	b.exec(`update breakers set probe_at = now() - interval '1 minute'`)
	for _, w := range []*worker{one, other} {
		w.reads()
		if p, is := w.policy.Gate.Paused(); !is || p.Actor != "ada" {
			t.Fatalf("paused %t: %+v", is, p)
		}
		for _, key := range []string{"new", "a-0"} {
			result, err := w.tries(keyed(key), never(t))
			got := w.want(result, err, effect.Waits)
			if !strings.HasPrefix(got.Reason, "finance is paused since ") || !strings.HasSuffix(got.Reason, " by ada: the books are closed") {
				t.Errorf("told %q", got.Reason)
			}
			if got.Wait < 10*time.Minute {
				t.Errorf("polls after %s: the end of a pause is signalled, and each poll adds to the history", got.Wait)
			}
		}
	}
	if got := b.one(`select concat_ws(' ', open, probes) from breakers`); got != "t 0" {
		t.Errorf("breaker: %s, want no probe", got)
	}
	b.exec(`update breakers set open = false`)
	b.resumes()
	one.reads()
	other.reads()
	one.reads()
	if back := slices.Concat(one.back, other.back); !slices.Equal(back, []string{"finance"}) {
		t.Errorf("resumed %q, want one worker once", back)
	}
	result, err := other.tries(keyed("new"), succeed)
	b.want(result, err, effect.Done)
}

// While its sink is paused, the retry time of an effect stops, and no attempts are used up.
func TestPause_SpendsNoTime(t *testing.T) {
	w := setup(t).worker()
	result, err := w.tries(keyed("tried"), fail(denied()))
	w.want(result, err, effect.Waits)
	w.passes(100 * time.Hour) // the effect has 24 hours, and its sink was paused for 99 of these 100 hours
	w.exec(`update breakers set open = false`)
	w.pauses("99 hours")
	w.reads()
	result, err = w.tries(keyed("tried"), never(t))
	w.want(result, err, effect.Waits)
	w.resumes()
	w.reads()
	if _, err = w.tries(keyed("tried"), fail(down(503))); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("after the pause: %v, want another try to come", err)
	}
	if got := w.one(`select concat_ws(' ', state, error_class, attempts) from effects`); got != "failed transient 2" {
		t.Errorf("effect: %s", got)
	}
	w.passes(30 * time.Hour)
	result, err = w.tries(keyed("tried"), fail(down(503)))
	w.want(result, err, effect.Failed)
}

// If the sink is paused during a request, the request completes. If that request fails, the effect waits.
func TestPause_Meanwhile(t *testing.T) {
	w := setup(t).worker()
	w.pauses("1 second")
	paused := func(end work) work {
		return func(ctx context.Context, a *effect.Attempt) (any, error) { w.reads(); return end(ctx, a) }
	}
	result, err := w.tries(keyed("works"), paused(succeed))
	w.want(result, err, effect.Done)
	w.resumes()
	w.reads()
	w.pauses("1 second")
	result, err = w.tries(keyed("fails"), paused(fail(down(503))))
	w.want(result, err, effect.Waits)
	if len(w.retrying) != 1 || !strings.HasPrefix(w.retrying[0], "effect:stripe:live:fails waits: finance is paused since ") {
		t.Errorf("shown %q", w.retrying)
	}
}
