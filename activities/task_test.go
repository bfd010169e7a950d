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
