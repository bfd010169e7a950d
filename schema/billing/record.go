package billing

import (
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
)

// The statements below run in the transaction that records an effect as done. They store the state that an external
// system has accepted.

// RecordWorkspace returns the statement that stores the target that a workspace has accepted. The statement does
// nothing if a newer version is stored.
func RecordWorkspace(mode, account string, t fold.Target, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: workspaceSQL,
		Args: []any{mode, account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features), effectKey}}
}

// Task is a task for a person about an object. There is at most one task of a kind per object.
type Task struct {
	Mode, Kind, Object, Account, Title, EffectKey string
	// Subscription is set if the end of this subscription cancels the task. Plan is the plan that an onboarding task is
	// about. The task is cancelled when the subscription no longer grants this plan. Plan is empty for other tasks.
	Subscription, Plan string
	// While is the state that the task is about, or empty. When the state ends, the task is cancelled.
	While While
}

// While is a state of the task's subscription or account. It is stored because the state is read in one transaction and
// the task is opened in a later one. An event can end the state in between.
type While string

const (
	// WhileUnsettled means that no snapshot of the subscription is newer than its payment.
	WhileUnsettled While = "unsettled"
	// WhileOverdue means that no event reports the renewal of the subscription.
	WhileOverdue While = "overdue"
	// WhilePartial means that no fact shows all items of the subscription.
	WhilePartial While = "partial"
	// WhileSuspended means that the account has no plan.
	WhileSuspended While = "suspended"
)

// The kinds of tasks that later facts can cancel. TaskReconcile asks to compare a subscription with the provider,
// TaskRelease to release a workspace, and TaskOnboarding to welcome an account on its plan.
const (
	TaskOnboarding = "onboarding"
	TaskReconcile  = "reconcile"
	TaskRelease    = "release"
)

// TaskReview is the task of a parked run that waits for a decision.
const TaskReview = "review"

// OpenTask returns the statement that opens a task. The statement does not change a task that is open or done. If the
// subscription has ended, does not grant the plan, or if the state While has ended, the task is stored as cancelled.
func OpenTask(t Task) ledger.Statement {
	return ledger.Statement{SQL: openTaskSQL,
		Args: []any{t.Mode, t.Kind, t.Object, t.Account, t.Title, t.EffectKey, t.Subscription, t.Plan, t.While}}
}

// CloseTask returns the statement that closes an open task as done or cancelled.
func CloseTask(t Task, state string) ledger.Statement {
	return ledger.Statement{SQL: closeTaskSQL, Args: []any{t.Mode, t.Kind, t.Object, state}}
}

// texts returns the list, or an empty list for nil, because Postgres reads nil as null.
func texts(list []string) []string { return append([]string{}, list...) }

// workspaceSQL stores the target that a workspace has accepted. A worker may stall between the response of the sink and
// this statement; a newer version that was stored meanwhile is not overwritten.
const workspaceSQL = `
insert into workspaces as w (mode, account, version, state, plan, quantity, features, effect_key) values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (mode, account) do update set version = excluded.version, state = excluded.state, plan = excluded.plan,
       quantity = excluded.quantity, features = excluded.features, effect_key = excluded.effect_key, updated_at = now()
 where w.version <= excluded.version`
