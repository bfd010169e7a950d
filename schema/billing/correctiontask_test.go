package billing_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// In every order of the facts, the task about a withheld order is open while the order is withheld and its money is
// not paid back. The task contains the money that is not paid back.
func TestApply_Withheld_TaskWhileItsMoneyIsNotPaidBack(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	day := 24 * time.Hour
	begun, bought, tied := created(0, "active", "pro"), paid(1, 5, "pro"), changed(charge(6, 0), full1000)
	refused := decided(fact.Withheld, "sub_1", 5, "pro", 1)
	back := func(amount int64) []fact.Fact {
		return []fact.Fact{changed(charge(20, amount), full1000), refunded("re_1", 20, "succeeded", amount)}
	}
	upgrade := []fact.Fact{begun, updated(10, "active", "enterprise", from("active", "pro")), decided(fact.Withheld, "sub_1", 10, "enterprise", 1)}
	once := func(id string) fact.Fact {
		f := decided(fact.Withheld, id, 8, "pro_24h0m0s", 1)
		f.Decision.Invoice = id
		return f
	}
	soldOnce := paid(1, 5, "pro", oneOff(day))
	session := []fact.Fact{sale(20, "complete", "paid"), changed(decided(fact.Withheld, "cs_1", 25, "pro_720h0m0s", 1), func(f *fact.Fact) { f.Decision.Checkout = "cs_1" })}
	for _, c := range []struct {
		name  string
		facts []fact.Fact
		want  string
	}{
		{"no money yet", []fact.Fact{begun, refused}, "correction sub_1 acme open 0"},
		{"paid", []fact.Fact{begun, bought, refused}, "correction sub_1 acme open 1000 usd"},
		{"paid, and it has ended", []fact.Fact{begun, bought, refused, deleted(50, "pro")}, "correction sub_1 acme open 1000 usd"},
		{"never paid, and it has ended", []fact.Fact{begun, refused, deleted(50, "pro")}, "correction sub_1 acme cancelled 0"},
		{"refunded in part", append(back(400), begun, bought, refused), "correction sub_1 acme open 600 usd"},
		{"refunded in full", append(back(1000), begun, bought, refused), "correction sub_1 acme cancelled 0"},
		{"refunded in full, and the refund failed", append(back(1000), bought, refused, refunded("re_1", 30, "failed", 1000)), "correction sub_1 acme open 1000 usd"},
		{"its dispute is lost", []fact.Fact{begun, bought, tied, refused, changed(dispute(40, fact.RankChange, "lost"), func(f *fact.Fact) { f.Dispute.Amount = 1000 })}, "correction sub_1 acme cancelled 0"},
		{"granted again", []fact.Fact{begun, bought, refused, decided(fact.Reopened, "sub_1", 6, "", 0)}, ""},
		{"another order is granted", []fact.Fact{begun, bought, refused, updated(10, "active", "enterprise")}, ""},
		{"a refused upgrade", append(upgrade, bought, paid(2, 10, "enterprise", inPeriodOf(1))), "correction sub_1 acme open 1000 usd"},
		{"a refused upgrade, not paid", append(upgrade, bought), "correction sub_1 acme open 0"},
		{"a one-off purchase", []fact.Fact{soldOnce, once("in_1")}, "correction in_1 acme open 1000 usd"},
		{"a one-off purchase, refunded", append(back(1000), soldOnce, once("in_1")), "correction in_1 acme cancelled 0"},
		{"a checkout session", session, "correction cs_1 acme open 1000 usd"},
		{"a checkout session, refunded", append(session, changed(charge(21, 1000), full1000, func(f *fact.Fact) { f.Payment.Invoice = "" }), refunded("re_1", 30, "succeeded", 1000)), "correction cs_1 acme cancelled 0"},
	} {
		ordersOfRows(events(c.facts, true), func(delivered []fact.Fact) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				for n, f := range delivered {
					if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprint("apply:", n), at(1000)); err != nil {
						return err
					}
				}
				got := texts(t, tx, `select concat_ws(' ', kind, object, nullif(account, ''), state, amount, nullif(currency, '')) from tasks where kind = 'correction'`)
				if never := c.want == "" && (len(got) == 0 || strings.Contains(got[0], "cancelled")); !never && !slices.Equal(got, []string{c.want}) {
					t.Errorf("%s, after %s: tasks %q, want %q", c.name, told(delivered), got, c.want)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
		})
	}
}

func full1000(f *fact.Fact) { f.Payment.Amount = 1000 }

// A person has closed the task, and the order is granted again. A second refusal opens the task again.
func TestApply_RefusedAgain_TaskIsOpenAgain(t *testing.T) {
	passing(t, func(c *clock) {
		state := func() []string { return texts(c.T, c.tx, `select state from tasks where kind = 'correction'`) }
		c.told(0, created(0, "active", "pro"))
		c.told(5, decided(fact.Withheld, "sub_1", 5, "pro", 1))
		c.want("refused", state(), "open")
		if _, err := c.tx.Exec(c.Context(), `update tasks set state = 'done' where kind = 'correction'`); err != nil {
			c.Fatal(err)
		}
		c.told(6, paid(1, 6, "pro"))
		c.want("done, and paid", state(), "done")
		c.told(10, decided(fact.Reopened, "sub_1", 10, "", 0))
		c.want("granted again", state(), "done")
		c.told(20, decided(fact.Withheld, "sub_1", 20, "pro", 1))
		c.want("refused again", state(), "open")
	})
}
