package billing

import (
	"fmt"
	"slices"
)

// The kinds of tasks that follow from facts alone: they are open for as long as the facts say so.
const (
	// TaskDispute is to hand in evidence, TaskInquiry to answer before there is a dispute, TaskWarning to refund what a
	// card's issuer suspects.
	TaskDispute = "dispute"
	TaskInquiry = "inquiry"
	TaskWarning = "fraud_warning"
	// TaskPlan is to map a price to a plan: a subscription has none that is known.
	TaskPlan = "unknown_price"
	// TaskStuck is to mend what keeps the provider from finalizing an invoice: until then nobody collects it.
	TaskStuck = "finalization_failed"
)

// settledTask is what a task that follows from facts shall be: open or cancelled. What a person has done stays done.
type settledTask struct {
	Kind, Object, Account, State, Title string
}

// planTask returns the task about a subscription's price, false where none of its facts ever showed one that no mapping
// knows. It is open while the newest does: until then the plan that was known before stays.
func planTask(s Subscription) (settledTask, bool) {
	t := settledTask{TaskPlan, s.ID, s.Account, TaskCancelled, "Map the price of subscription " + s.ID + " to a plan, in plans.prices"}
	if s.UnknownPrice != "" && !s.Ended() {
		t.State, t.Title = TaskOpen, t.Title+": "+s.UnknownPrice
	}
	return t, s.EverUnknown
}

// stuckTask returns the task about an invoice that the provider cannot finalize, false where it never tried in vain. It
// is open until a fact shows the invoice as finalized or deleted, or its draft as mended. It names no account: it is
// that of the invoice, which may move.
func stuckTask(i Invoice) (settledTask, bool) {
	t := settledTask{TaskStuck, i.ID, "", TaskCancelled, "Mend what keeps Stripe from finalizing invoice " + i.ID}
	if i.Stuck != "" {
		t.State, t.Title = TaskOpen, t.Title+": "+i.Stuck
	}
	return t, i.EverStuck
}

// tasksOf returns the tasks about disputes and warnings.
func tasksOf(disputes []Dispute, warnings []Warning) (tasks []settledTask) {
	task := func(kind, object, account string, open bool, title string) {
		t := settledTask{kind, object, account, TaskCancelled, title}
		if open {
			t.State = TaskOpen
		}
		tasks = append(tasks, t)
	}
	for _, d := range disputes {
		due := ""
		if !d.EvidenceDue.IsZero() {
			due = " until " + d.EvidenceDue.UTC().Format("2006-01-02 15:04 MST")
		}
		if slices.ContainsFunc(d.Statuses, isInquiry) {
			task(TaskInquiry, d.ID, d.Account, d.AwaitsEvidence() && d.Warning(), "Answer inquiry "+d.ID+due)
		}
		if slices.ContainsFunc(d.Statuses, func(s string) bool { return !isInquiry(s) }) {
			task(TaskDispute, d.ID, d.Account, d.AwaitsEvidence() && !d.Warning(), "Hand in evidence for dispute "+d.ID+due)
		}
	}
	for _, w := range warnings {
		task(TaskWarning, w.ID, w.Account, w.Actionable, fmt.Sprintf("Charge %s is suspected as fraud: refund it, or wait for the dispute", w.Charge))
	}
	return tasks
}

// openTaskSQL opens the one task of its kind about an object. What a person has done stays done; one that was cancelled
// is opened again. A task of a subscription asks whether that has ended, and locks it: whoever ends it meanwhile comes
// after, and finds the task; see endTasksSQL.
const openTaskSQL = `
with held as materialized (select ended from subscriptions where mode = $1 and id = $7 and id <> '' for share)
insert into tasks as t (mode, kind, object, account, state, title, effect_key, subscription)
values ($1, $2, $3, $4, case when (select ended from held) then 'cancelled' else 'open' end, $5, $6, $7)
    on conflict (mode, kind, object) do update set state = excluded.state, title = excluded.title, effect_key = excluded.effect_key, updated_at = now()
 where t.state = 'cancelled'`

// endTasksSQL cancels what need not be done any more for a subscription that has ended.
const endTasksSQL = `update tasks set state = 'cancelled', updated_at = now() where mode = $1 and subscription = $2 and subscription <> '' and state = 'open'`

const closeTaskSQL = `
update tasks set state = $4, updated_at = now() where mode = $1 and kind = $2 and object = $3 and state = (select 'open')`

// settleTaskSQL makes a task what the facts say, open or cancelled. What a person has done stays done.
const settleTaskSQL = `
insert into tasks as t (mode, kind, object, account, state, title, effect_key) values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (mode, kind, object) do update set account = excluded.account, title = excluded.title, effect_key = excluded.effect_key, updated_at = now(),
       state = case when t.state = 'done' then t.state else excluded.state end`
