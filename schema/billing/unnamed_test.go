package billing_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
)

func tasksOf(c *clock, kind string) []string {
	c.Helper()
	found, err := c.tx.Query(c.Context(), `select object || ' ' || state from tasks where kind = $1 order by object`, kind)
	if err != nil {
		c.Fatal(err)
	}
	list, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		c.Fatal(err)
	}
	return list
}

// Two accounts that differ by case alone are one customer as a rule: a person is asked, once.
func TestApply_AccountsAlike_Noted(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(10, created(1, "active", "pro"), created(2, "active", "pro", of("sub_2", "umbrella", "cus_2")))
		c.want("two names", tasksOf(c, billing.TaskAlike))
		c.told(10, created(3, "active", "pro", of("sub_3", "ACME", "cus_3")), updated(4, "active", "starter", of("sub_3", "ACME", "cus_3")))
		c.want("one in two cases", tasksOf(c, billing.TaskAlike), "ACME open")
	})
}

// An event from the future counts as the newest until its time has come: a person is asked to compare the clocks, once a
// day.
func TestApply_AheadOfOurClock_Noted(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(10, created(1, "active", "pro"))
		c.want("in the past", tasksOf(c, billing.TaskAhead))
		c.told(10, updated(years(0), "active", "starter"), updated(years(60), "active", "pro"))
		if got := tasksOf(c, billing.TaskAhead); len(got) != 1 {
			t.Errorf("a day ahead: %q, want one task", got)
		}
	})
}
