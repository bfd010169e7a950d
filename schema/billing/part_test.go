package billing_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/schematest"
)

// inParts returns the facts of in_1 with two payments: ch_1 at second 20 and ch_2 at second 40.
func inParts(first int64) []fact.Fact {
	second := changed(partOf(40, 1000-first), func(f *fact.Fact) { f.Object, f.Payment.Charge = "ch_2", "ch_2" })
	return events([]fact.Fact{
		invoice(1, 1, "open", "pro"), partOf(20, first), invoice(1, 21, "open", "pro", paidSoFar(first)), second, paid(1, 41, "pro"),
	}, true)
}

// thinly changes the facts to facts of thin events: each object is fetched with a request that began one second
// before the object changed.
func thinly(facts []fact.Fact) []fact.Fact {
	for n := range facts {
		if p := facts[n].Payment; p != nil {
			facts[n].Payment = new(*p)
			facts[n].Payment.PaidAt = facts[n].OccurredAt
		}
		facts[n].Origin, facts[n].Rank, facts[n].OccurredAt = fact.FromFetch, fact.RankFetched, facts[n].OccurredAt.Add(-time.Second)
	}
	return facts
}

// With an API key, every payment of an invoice is one part with its own amount and time, in every order of delivery.
// If only the invoice reports a sum, pawl looks up its payments at Stripe. Stripe returns both payments.
func TestApply_PartsOfAnInvoice_WithKey_OnePerPayment(t *testing.T) {
	t.Parallel()
	for _, first := range []int64{400, 500, 600} {
		onePartPerPayment(t, first, inParts(first))
	}
}

// The object that a thin event names can contain a payment of the second after the request began.
func TestApply_PartsOfAnInvoice_ThinEvents_OnePerPayment(t *testing.T) {
	t.Parallel()
	for _, first := range []int64{400, 500, 600} {
		facts := inParts(first)
		// both changes happen in the same second
		facts[2].OccurredAt, facts[4].OccurredAt = facts[1].OccurredAt, facts[3].OccurredAt
		onePartPerPayment(t, first, thinly(facts))
	}
}

// onePartPerPayment applies the facts of [inParts] with an API key. Stripe returns the payments that were made by the
// time of the newest fact. If they do not add up to the invoice, the facts are applied once more without a lookup.
func onePartPerPayment(t *testing.T, first int64, facts []fact.Fact) {
	t.Helper()
	pool, want := schematest.New(t), fmt.Sprintf("ch_1 %d@20, ch_2 %d@40", first, 1000-first)
	ordersOfRows(facts, func(delivered []fact.Fact) {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			var now time.Time
			for n, f := range delivered {
				apply := func(key string, f fact.Fact, asks bool) (fold.Change, error) {
					p := policy
					p.Asks = asks
					return billing.Apply(t.Context(), tx, []fact.Fact{f}, p, fmt.Sprintf("apply:%d:%s", n, key), at(1000))
				}
				now = fold.Latest(now, f.OccurredAt)
				change, err := apply("", f, true)
				for _, shown := range []int{1, 3} {
					if err == nil && change.AsksPayment() && !facts[shown].OccurredAt.After(now) {
						answer := facts[shown]
						answer.EventID, answer.Origin, answer.OccurredAt = "fetched:"+f.EventID, fact.FromFetch, at(900)
						answer.Payment = new(*answer.Payment)
						answer.Payment.PaidAt = cmp.Or(answer.Payment.PaidAt, facts[shown].OccurredAt)
						var by fold.Change
						by, err = apply(fmt.Sprint(shown), answer, true)
						change = change.Decided(by)
					}
				}
				if i := change.After.Invoice; err == nil && i != nil && i.Unexplained > 0 {
					_, err = apply("untold", f, false)
				}
				if err != nil {
					return err
				}
			}
			if got := strings.Join(partsOf(t, tx), ", "); got != want {
				t.Errorf("after %s\n got %s\nwant %s", told(delivered), got, want)
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
	})
}

// Without an API key, the parts add up to the invoice in every order, each payment has at most one part with its own
// amount, and a sum that the invoice reported first is one part.
func TestApply_PartsOfAnInvoice_WithoutKey_AddUp(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for _, first := range []int64{400, 500, 600} {
		facts := inParts(first)
		ordersOfRows(facts, func(delivered []fact.Fact) {
			paidBy := map[string]fact.Fact{"ch_1": facts[1], "ch_2": facts[3], "?": {}}
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				for n, f := range delivered {
					if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
						return err
					}
				}
				sum := int64(0)
				for _, part := range partsOf(t, tx) {
					var by string
					var amount, second int64
					if _, err := fmt.Sscanf(part, "%s %d@%d", &by, &amount, &second); err != nil {
						t.Fatal(err)
					}
					sum += amount
					if of := paidBy[by]; by != "?" && (of.Payment == nil || of.Payment.Amount != amount || second < int64(of.OccurredAt.Sub(begin).Seconds())) {
						t.Errorf("after %s: %s is not its payment", told(delivered), part)
					}
					delete(paidBy, by)
				}
				if sum != 1000 {
					t.Errorf("after %s: %q do not add up to 1000", told(delivered), partsOf(t, tx))
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
		})
	}
}

// partsOf lists the parts of the only invoice by their payments.
func partsOf(t *testing.T, tx pgx.Tx) (parts []string) {
	t.Helper()
	var i fold.Invoice
	if err := tx.QueryRow(t.Context(), `select state from invoices`).Scan(&i); err != nil {
		t.Fatal(err)
	}
	before := int64(0)
	for n, sum := range i.PaidSums {
		by := i.PartPaidBy(n).Payment
		if by == "" {
			by = "?"
		}
		parts = append(parts, fmt.Sprintf("%s %d@%.0f", by, sum-before, i.PaidTime(n).Sub(at(0)).Seconds()))
		before = sum
	}
	slices.Sort(parts)
	return parts
}
