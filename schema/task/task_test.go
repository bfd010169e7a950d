package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/task"
)

// A task is opened once, keeps a person's answer, and each change is published.
func TestTask_OpenAndCancel(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	one := task.Task{Mode: "live", Object: "ship-order:wrap:1", Account: "acme", Title: "Gift wrap #1", EffectKey: "k",
		DueBy: time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)}
	undated := task.Task{Mode: "live", Object: "ship-order:call:1", Title: "Call", EffectKey: "k2"}
	run := func(statements ...ledger.Statement) {
		t.Helper()
		for _, s := range statements {
			if _, err := db.Exec(t.Context(), s.SQL, s.Args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(want string) {
		t.Helper()
		if got := state(t, db); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	run(task.Open(one), task.Open(one), task.Open(undated))
	want("ship-order:call:1 open none, ship-order:wrap:1 open 2026-11-02; task.opened task.opened")
	run(task.Cancel("live", one.Object), task.Cancel("live", one.Object), task.Cancel("test", undated.Object))
	want("ship-order:call:1 open none, ship-order:wrap:1 cancelled 2026-11-02; task.opened task.opened task.closed")
	run(task.Open(one))
	want("ship-order:call:1 open none, ship-order:wrap:1 open 2026-11-02; task.opened task.opened task.closed task.opened")
	if _, err := db.Exec(t.Context(), `update tasks set state = 'done'`); err != nil {
		t.Fatal(err)
	}
	run(task.Open(one), task.Cancel("live", one.Object))
	want("ship-order:call:1 done none, ship-order:wrap:1 done 2026-11-02; task.opened task.opened task.closed task.opened")
}

func state(t *testing.T, db *pgxpool.Pool) string {
	t.Helper()
	var tasks, events string
	if err := db.QueryRow(t.Context(), `select
		(select string_agg(concat_ws(' ', object, state, coalesce(to_char(due_by at time zone 'utc', 'YYYY-MM-DD'), 'none')), ', ' order by object) from tasks where kind = 'flow'),
		(select string_agg(type, ' ' order by id) from outbox)`).Scan(&tasks, &events); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s; %s", tasks, events)
}
