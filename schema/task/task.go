// Package task writes the tasks of flows in the configuration. The tasks of billing are written by package billing.
package task

import (
	"time"

	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/outbox"
)

// Kind is the kind of the tasks that flows open.
const Kind = "flow"

// Task is a task for a person.
type Task struct {
	Mode string
	// Object identifies the task within its mode.
	Object  string
	Account string
	Title   string
	// DueBy is the deadline, or the zero time.
	DueBy     time.Time
	EffectKey string
}

const openSQL = `
with changed as (insert into tasks as t (mode, kind, object, account, state, title, due_by, effect_key)
values ($1, '` + Kind + `', $2, $3, 'open', $4, $5, $6)
    on conflict (mode, kind, object) do update set state = 'open', title = excluded.title, due_by = excluded.due_by,
       account = excluded.account, effect_key = excluded.effect_key, taken_by = '', reminded = 0, created_at = now(), updated_at = now()
 where t.state = 'cancelled'` + outbox.TasksOpened

// Open returns the statement that opens a task. The statement does not change a task that is open or done.
func Open(t Task) ledger.Statement {
	var due *time.Time
	if !t.DueBy.IsZero() {
		due = &t.DueBy
	}
	return ledger.Statement{SQL: openSQL, Args: []any{t.Mode, t.Object, t.Account, t.Title, due, t.EffectKey}}
}

const cancelSQL = `
with changed as (update tasks as t set state = 'cancelled', updated_at = now()
 where mode = $1 and kind = '` + Kind + `' and object = $2 and state = 'open'` + outbox.TasksClosed

// Cancel returns the statement that cancels an open task. The statement does not change a task that is done.
func Cancel(mode, object string) ledger.Statement {
	return ledger.Statement{SQL: cancelSQL, Args: []any{mode, object}}
}
