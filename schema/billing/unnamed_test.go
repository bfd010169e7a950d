package billing_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
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

// Two accounts with IDs that differ only by upper and lower case usually belong to one customer, so a task opens.
func TestApply_AccountsAlike_Noted(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(10, created(1, "active", "pro"), created(2, "active", "pro", of("sub_2", "umbrella", "cus_2")))
		c.want("two names", tasksOf(c, billing.TaskAlike))
		c.told(10, created(3, "active", "pro", of("sub_3", "ACME", "cus_3")), updated(4, "active", "starter", of("sub_3", "ACME", "cus_3")))
		c.want("one in two cases", tasksOf(c, billing.TaskAlike), "ACME open")
	})
}

// An event with a time in the future counts as the newest event until its time has come. One task per day, to compare
// the clocks, opens.
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

// A customer without a named account becomes its own account as soon as a grant or a sale is stored under its
// customer ID. A payment that was fetched for a refund has this effect only after it is booked. Until then, other
// events of the customer wait for a named account.
func TestUnnamed_CustomerWithItsOwnObjects_IsNamed(t *testing.T) {
	t.Parallel()
	fetched := changed(captured(20, 900), func(f *fact.Fact) { f.Payment.NoInvoice = true })
	session := by("cs_1", "")
	for name, c := range map[string]struct {
		known []fact.Fact
		waits bool
	}{
		"nothing":        {waits: true},
		"its payment":    {known: []fact.Fact{refund("re_1", 30, "succeeded", 45), fetched}, waits: true},
		"a subscription": {known: []fact.Fact{created(1, "active", "pro", of("sub_1", "", "cus_1"))}},
		"a session":      {known: []fact.Fact{sale(10, "complete", "unpaid", session)}},
		"an invoice":     {known: []fact.Fact{paid(1, 10, "pro", of("in_1", "", "cus_1"))}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := schematest.New(t)
			deliver(t, pool, events(c.known, false), at(1000))
			customer, err := billing.New(pool).Unnamed(t.Context(), []fact.Fact{sale(40, "complete", "paid", by("cs_2", ""))})
			if err != nil || (customer == "cus_1") != c.waits {
				t.Errorf("the session waits for a name of customer %q, %v; want %v", customer, err, c.waits)
			}
		})
	}
}
