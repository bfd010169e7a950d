package billing

import "github.com/pawlhq/pawl/schema/ledger"

// The statements below run in the commit that records an effect as done. They keep what outside systems have taken.

// RecordWorkspace is the statement that records what an account's workspace was brought to. An older version than the
// recorded one changes nothing.
func RecordWorkspace(mode, account string, t Target, effectKey string) ledger.Statement {
	return ledger.Statement{SQL: workspaceSQL,
		Args: []any{mode, account, t.Version, t.State, t.Plan, t.Quantity, texts(t.Features), effectKey}}
}

// Task is something that a person has to do about an object; there is one of a kind for each.
type Task struct {
	Mode, Kind, Object, Account, Title, EffectKey string
	// Subscription is the one with whose end the task is cancelled, "" for none; Plan is what it welcomes on, and is
	// cancelled without, "" for any other task.
	Subscription, Plan string
}

// The kinds of tasks that later facts cancel: TaskReconcile asks to hold a subscription against the provider's,
// TaskRelease to release a workspace, TaskOnboarding to welcome an account on its plan.
const (
	TaskOnboarding = "onboarding"
	TaskReconcile  = "reconcile"
	TaskRelease    = "release"
)

// TaskReview is the kind of a task that a parked run asks for, and waits for.
const TaskReview = "review"

// The states of a task.
const (
	TaskOpen      = "open"
	TaskDone      = "done"
	TaskCancelled = "cancelled"
)

// OpenTask is the statement that opens a task; one that is open or done stays as it is. The task is cancelled from
// the beginning if its subscription has ended, or does not grant its plan.
func OpenTask(t Task) ledger.Statement {
	return ledger.Statement{SQL: openTaskSQL,
		Args: []any{t.Mode, t.Kind, t.Object, t.Account, t.Title, t.EffectKey, t.Subscription, t.Plan}}
}

// CloseTask is the statement that closes a task where it is open, as done or cancelled.
func CloseTask(t Task, state string) ledger.Statement {
	return ledger.Statement{SQL: closeTaskSQL, Args: []any{t.Mode, t.Kind, t.Object, state}}
}

// texts is never nil: Postgres takes nil for null.
func texts(list []string) []string { return append([]string{}, list...) }

// workspaceSQL records what a workspace was brought to. A worker that stalled between the sink's answer and this record
// does not write over a newer version.
const workspaceSQL = `
insert into workspaces as w (mode, account, version, state, plan, quantity, features, effect_key) values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (mode, account) do update set version = excluded.version, state = excluded.state, plan = excluded.plan,
       quantity = excluded.quantity, features = excluded.features, effect_key = excluded.effect_key, updated_at = now()
 where w.version <= excluded.version`
