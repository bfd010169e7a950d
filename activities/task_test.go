package activities_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
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

// The task of a subscription is cancelled when the subscription has ended, in any order of the two events.
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

// Destinations receive each step of a task once, with the same task ID, even if a worker is killed between publishing
// and recording the step, and even if several workers check due tasks.
func TestTasks_News_OnceEach(t *testing.T) {
	b := setup(t)
	s := activitiestest.NewSink(t)
	publisher := b.publisher(activities.Destination{Name: "tickets", URL: s.URL + "/events", Events: []string{"task.*"}})
	publish := func() {
		t.Helper()
		for b.publish(publisher) {
		}
		// This is the state after a worker was killed before it recorded anything. The next worker publishes
		// everything again.
		b.exec(`update outbox set published_at = null, delivered_to = '{}', next_at = now()`)
		for b.publish(publisher) {
		}
	}
	remind := func() {
		t.Helper()
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				if err := billing.RemindOfTasks(t.Context(), b.pool); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
	}
	due := time.Now().Add(100 * time.Hour).Truncate(time.Second).UTC()
	dispute := func(second int, status string) fact.Fact {
		return makeFact(fact.DisputeSeen, "dp_1", second, fact.Data{Dispute: &fact.Dispute{Status: status, Charge: "ch_1", Amount: 100, Currency: "usd", EvidenceDue: due}})
	}
	b.apply(dispute(0, "needs_response"), dispute(1, "needs_response"))
	remind()
	publish()
	for _, left := range []string{"71 hours", "70 hours", "23 hours", "22 hours", "-1 hours"} {
		b.exec(`update tasks set due_by = now() + interval '` + left + `'`)
		remind()
		publish()
	}
	b.apply(dispute(2, "under_review"))
	onboard := activities.EffectInput[activities.Task]{Effect: call("onboarding-task", "sub_1:pro"), For: activities.Task{
		Kind: activities.TaskOnboarding, Mode: "live", Account: "acme", Object: "sub_1:pro", Title: "Welcome acme to pro",
	}}
	must(b, effect.Done, (&activities.Tasks{Effects: b.effects}).OpenTask, onboard)
	publish()
	told := map[string][]string{}
	for _, r := range s.Applied() {
		var data struct {
			Task, State string
			Account     string
			DueBy       time.Time `json:"due_at"`
			HoursLeft   int       `json:"hours_remaining"`
			SourceEvent string    `json:"source_event"`
		}
		if err := json.Unmarshal([]byte(r.Body), &data); err != nil {
			t.Fatal(err)
		}
		line := r.CloudEvent["type"] + " " + data.State
		switch data.HoursLeft {
		case 72:
			line += ", three days"
		case 24:
			line += ", a day"
		}
		if line == "task.opened open" && data.Task == "dispute:live:dp_1" && !data.DueBy.Equal(due) {
			t.Errorf("due by %s, want %s", data.DueBy, due)
		}
		if data.SourceEvent != "" {
			line += " by " + data.SourceEvent
		}
		told[data.Task] = append(told[data.Task], line)
	}
	if want := []string{"task.opened open", "task.due_soon open, three days", "task.due_soon open, a day", "task.closed cancelled"}; !slices.Equal(told["dispute:live:dp_1"], want) {
		t.Errorf("published about the dispute %q, want %q", told["dispute:live:dp_1"], want)
	}
	if want := []string{"task.opened open by evt_1"}; !slices.Equal(told["onboarding:live:sub_1:pro"], want) || len(told) != 2 {
		t.Errorf("published %q, want only %q about the welcome", told, want)
	}
	if got := b.lines(`select o.effect_key from outbox o join receipts r on r.id = o.receipt_id where r.event_id = 'evt_1'`); len(got) != 1 {
		t.Errorf("%q belong to the event's receipt, want the welcome", got)
	}
}
