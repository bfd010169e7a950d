package billing_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

type question struct {
	task   billing.Task
	facts  []fact.Fact
	answer fact.Fact
}

// questions lists the tasks that scheduled actions open, each with the facts that cause it and the fact that closes
// it.
var questions = map[string]question{
	"paid, and not yet active": {
		billing.Task{Kind: billing.TaskReconcile, Object: "sub_1", Subscription: "sub_1", While: billing.WhileUnsettled},
		[]fact.Fact{paid(1, 1, "pro")}, updated(4, "active", "pro"),
	},
	"not renewed": {
		billing.Task{Kind: billing.TaskReconcile, Object: "sub_1", Subscription: "sub_1", While: billing.WhileOverdue},
		[]fact.Fact{updated(1, "active", "pro")}, updated(40*aDay, "active", "pro", with(func(s *fact.Subscription) {
			s.Items[0].PeriodStart, s.Items[0].PeriodEnd = at(40*aDay), at(years(month))
		})),
	},
	"a part of the items": {
		billing.Task{Kind: billing.TaskReconcile, Object: "sub_1", Subscription: "sub_1", While: billing.WhilePartial},
		[]fact.Fact{updated(1, "active", "pro", with(func(s *fact.Subscription) { s.Partial = true }))}, updated(4, "active", "pro"),
	},
	"an add-on without a plan": {
		billing.Task{Kind: billing.TaskReconcile, Object: "sub_2", Subscription: "sub_2", While: billing.WhileSuspended},
		[]fact.Fact{created(1, "active", "sso", of("sub_2", "acme", ""))}, created(4, "active", "starter", of("sub_3", "acme", "")),
	},
	"an add-on that gets a plan": {
		billing.Task{Kind: billing.TaskReconcile, Object: "sub_2", Subscription: "sub_2", While: billing.WhileSuspended},
		[]fact.Fact{created(1, "active", "sso", of("sub_2", "acme", ""))}, updated(4, "active", "starter", of("sub_2", "acme", "")),
	},
	"an account without access": {
		billing.Task{Kind: billing.TaskRelease, Object: "acme:v2", While: billing.WhileSuspended},
		[]fact.Fact{created(1, "active", "pro"), deleted(2, "pro")}, created(4, "active", "starter", of("sub_3", "acme", "")),
	},
}

// After the closing fact, the task is not open, in any order of the transactions. One transaction decides that a
// scheduled action opens a task, and a later transaction opens it, so the closing fact can arrive between the two.
func TestOpenTask_AnsweredBeforeOrAfter_NotOpen(t *testing.T) {
	for name, q := range questions {
		for _, order := range []string{"the task first", "the answer first", "at once"} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				pool, q := schematest.New(t), q
				q.task.Mode, q.task.Account = "live", "acme"
				all := events(append(slices.Clone(q.facts), q.answer), false)
				q.facts, q.answer = all[:len(q.facts)], all[len(q.facts)]
				deliver(t, pool, q.facts, at(10))
				switch order {
				case "the task first":
					q.open(t, pool)
					if got := taskState(t, pool, q.task.Kind); got != "open" {
						t.Fatalf("before the answer the task is %q, want it open", got)
					}
					deliver(t, pool, []fact.Fact{q.answer}, at(years(0)))
				case "the answer first":
					deliver(t, pool, []fact.Fact{q.answer}, at(years(0)))
					q.open(t, pool)
				case "at once":
					q.openWhileAnswered(t, pool)
				}
				if got := taskState(t, pool, q.task.Kind); got != "cancelled" {
					t.Errorf("the task is %q, want it cancelled", got)
				}
			})
		}
	}
}

// A task about missing items stays open after a renewal event that does not contain these items.
func TestPartialTask_RenewedLate_StaysOpen(t *testing.T) {
	t.Parallel()
	pool, q := schematest.New(t), questions["a part of the items"]
	q.task.Mode, q.task.Account = "live", "acme"
	renewed := updated(40*aDay, "active", "pro", with(func(s *fact.Subscription) {
		s.Items[0].PeriodStart, s.Items[0].PeriodEnd, s.Partial = at(40*aDay), at(years(month)), true
	}))
	all := events(append(slices.Clone(q.facts), renewed), false)
	deliver(t, pool, all[:1], at(10))
	q.open(t, pool)
	deliver(t, pool, all[1:], at(years(0)))
	if got := taskState(t, pool, q.task.Kind); got != "open" {
		t.Errorf("the task is %q, want it open", got)
	}
}

func (q question) open(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	open := billing.OpenTask(q.task)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		// On a busy machine, committing the fact may take longer than the lock timeout of a process.
		if _, err := tx.Exec(t.Context(), `set local lock_timeout = '1min'`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), open.SQL, open.Args...)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// openWhileAnswered opens the task while the closing fact is applied but not committed.
func (q question) openWhileAnswered(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	opened := make(chan struct{})
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := billing.Apply(t.Context(), tx, []fact.Fact{q.answer}, policy, "apply", at(years(0))); err != nil {
			return err
		}
		go func() {
			defer close(opened)
			q.open(t, pool)
		}()
		for blocked := 0; blocked == 0; {
			select {
			case <-opened:
				return nil
			default:
				blocked = count(t, pool, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-opened
}

func taskState(t *testing.T, pool *pgxpool.Pool, kind string) (state string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `select coalesce(max(state), '') from tasks where kind = $1`, kind).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}
