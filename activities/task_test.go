package activities_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

func TestTasks_OpenCloseCancel(t *testing.T) {
	b := setup(t)
	tasks := &activities.Tasks{Effects: b.effects}
	task := func(effectKind, kind string) activities.EffectInput[activities.Task] {
		return activities.EffectInput[activities.Task]{Effect: call(effectKind, "sub_1:pro"), For: activities.Task{
			Kind: kind, Mode: "live", Account: "acme", Object: "sub_1:pro", Title: "Welcome acme to pro",
		}}
	}
	want := func(want ...string) {
		t.Helper()
		if got := b.lines(`select concat_ws('|', kind, object, account, state, title) from tasks order by kind`); !slices.Equal(got, want) {
			t.Errorf("tasks\n got %q\nwant %q", got, want)
		}
	}
	open := task("onboarding-task", activities.TaskOnboarding)
	must(b, effect.Done, tasks.OpenTask, open)
	must(b, effect.AlreadyDone, tasks.OpenTask, open)
	must(b, effect.Done, tasks.OpenTask, task("review", activities.TaskReview))
	want("onboarding|sub_1:pro|acme|open|Welcome acme to pro", "review|sub_1:pro|acme|open|Welcome acme to pro")
	undo := task("cancel-onboarding-task", activities.TaskOnboarding)
	undo.Effect.Compensates = open.Effect.Key
	must(b, effect.Done, tasks.CancelTask, undo)
	must(b, effect.Compensated, tasks.OpenTask, open)
	must(b, effect.Done, tasks.CloseTask, task("close-review", activities.TaskReview))
	want("onboarding|sub_1:pro|acme|cancelled|Welcome acme to pro", "review|sub_1:pro|acme|done|Welcome acme to pro")
}

// A subscription's task needs nobody any more when that has ended, whichever comes first.
func TestTasks_OfAnEndedSubscription_Cancelled(t *testing.T) {
	b := setup(t)
	tasks := &activities.Tasks{Effects: b.effects}
	open := func(plan string) activities.EffectInput[activities.Task] {
		return activities.EffectInput[activities.Task]{Effect: call("onboarding-task", "sub_1:"+plan), For: activities.Task{
			Kind: activities.TaskOnboarding, Mode: "live", Account: "acme", Object: "sub_1:" + plan, Subscription: "sub_1",
		}}
	}
	must(b, effect.Done, tasks.OpenTask, open("pro"))
	b.apply(subscription(0, "active"))
	must(b, effect.Done, tasks.OpenTask, open("starter"))
	if got := b.lines(`select object || ' ' || state from tasks order by object`); !slices.Equal(got, []string{"sub_1:pro open", "sub_1:starter open"}) {
		t.Errorf("before the end: %q", got)
	}
	b.apply(subscription(1, "canceled"))
	must(b, effect.Done, tasks.OpenTask, open("enterprise"))
	want := []string{"sub_1:enterprise cancelled", "sub_1:pro cancelled", "sub_1:starter cancelled"}
	if got := b.lines(`select object || ' ' || state from tasks order by object`); !slices.Equal(got, want) {
		t.Errorf("after the end: %q, want %q", got, want)
	}
}
