package billing

import (
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// The statements below run in the transaction that records an effect as done. They store what external systems have
// accepted.

// RecordWorkspace is the statement that records the accepted target of a workspace. It ignores an older version than
// the recorded one.
func RecordWorkspace(mode, account string, t fold.Target, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: workspaceSQL,
		Args: []any{mode, account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features), effectKey}}
}

// Task is a task for a person about an object. There is at most one task of a kind per object.
type Task struct {
	Mode, Kind, Object, Account, Title, EffectKey string
	// Subscription is the subscription whose end cancels the task, or empty. Plan is the plan of an onboarding task,
	// which is cancelled without this plan; it is empty for other tasks.
	Subscription, Plan string
	// While is the state that the task depends on, or empty. The task is cancelled when the state ends.
	While While
}

// While is a state of the subscription or the account of a task. The clock reads the state in one transaction and opens
// the task in a later one, and an event can change the state in between.
type While string

const (
	// WhileUnsettled means that no snapshot of the subscription has followed its payment.
	WhileUnsettled While = "unsettled"
	// WhileOverdue means that no event reports the renewal of the subscription.
	WhileOverdue While = "overdue"
	// WhilePartial means that no fact shows all items of the subscription.
	WhilePartial While = "partial"
	// WhileSuspended means that the account has no plan.
	WhileSuspended While = "suspended"
)

// The kinds of tasks that later facts cancel: TaskReconcile to compare a subscription with the provider, TaskRelease to
// release a workspace, TaskOnboarding to welcome an account on its plan.
const (
	TaskOnboarding = "onboarding"
	TaskReconcile  = "reconcile"
	TaskRelease    = "release"
)

// TaskReview is the task of a parked run that waits for a decision.
const TaskReview = "review"

// OpenTask is the statement that opens a task. It does not change an open or done task. The task is cancelled at once
// if its subscription has ended or does not grant its plan, or if its While has ended.
func OpenTask(t Task) ledger.Statement {
	return ledger.Statement{SQL: openTaskSQL,
		Args: []any{t.Mode, t.Kind, t.Object, t.Account, t.Title, t.EffectKey, t.Subscription, t.Plan, t.While}}
}

// CloseTask is the statement that closes an open task as done or cancelled.
func CloseTask(t Task, state string) ledger.Statement {
	return ledger.Statement{SQL: closeTaskSQL, Args: []any{t.Mode, t.Kind, t.Object, state}}
}

// texts never returns nil, because Postgres reads nil as null.
func texts(list []string) []string { return append([]string{}, list...) }

// workspaceSQL records the accepted target of a workspace. A worker that stalled between the answer of the sink and
// this record does not overwrite a newer version.
const workspaceSQL = `
insert into workspaces as w (mode, account, version, state, plan, quantity, features, effect_key) values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (mode, account) do update set version = excluded.version, state = excluded.state, plan = excluded.plan,
       quantity = excluded.quantity, features = excluded.features, effect_key = excluded.effect_key, updated_at = now()
 where w.version <= excluded.version`
