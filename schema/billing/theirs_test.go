package billing_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/schematest"
)

// withTheirs returns the policy with an additional price that belongs to another product.
func withTheirs() fact.Policy {
	p := policy
	p.Prices = maps.Clone(p.Prices)
	p.Prices["price_theirs"] = fact.Price{NotOurs: true}
	return p.Sealed()
}

// The first ten items of a subscription belong to another product, and the event contains only these items. An
// invoice of the plan shows that the subscription also sells a mapped plan. Its payment and refund are booked in
// every order of the events.
func TestApply_CutItemsOfAnotherProduct_PlanIsPaid_Booked(t *testing.T) {
	t.Parallel()
	pool, p := schematest.New(t), withTheirs()
	ordersOfRows(events([]fact.Fact{deleted(90, "theirs", with(cut)), paid(1, 10, "pro"), charge(10, 40), refund("re_1", 20, "succeeded", 40)}, false), func(delivered []fact.Fact) {
		paid, refunded := "", ""
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for n, f := range delivered {
				change, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, p, fmt.Sprintf("apply:%d", n), at(1000))
				if err != nil {
					return err
				}
				if i := change.After.Invoice; i != nil && i.IsPaid() && !change.NotOurs() {
					paid = i.Account
				}
				for _, r := range change.After.Refunds {
					if !r.Unbilled && r.Purchase == "in_1" {
						refunded = r.Account
					}
				}
			}
			var s fold.Subscription
			if err := tx.QueryRow(t.Context(), `select state from subscriptions`).Scan(&s); err != nil {
				return err
			}
			if s.NotOurs || s.Account != "acme" || paid != "acme" || refunded != "acme" {
				t.Errorf("after %s: the subscription is %q's, the payment is booked for %q, the refund for %q", told(delivered), s.Account, paid, refunded)
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
	})
}

// If the list of items is incomplete, a subscription of another product still belongs to that product, for any
// invoices and any order.
func TestFoldSubscription_CutItemsOfAnotherProduct_NoPlanPaid_NotOurs(t *testing.T) {
	t.Parallel()
	p := withTheirs()
	whole := updated(20, "active", "theirs")
	for name, facts := range map[string][]fact.Fact{
		"no invoice":                 {updated(10, "active", "theirs", with(cut)), deleted(90, "theirs", with(cut))},
		"an invoice of theirs":       {updated(10, "active", "theirs", with(cut)), paid(1, 10, "theirs")},
		"a whole list, and a plan's": {updated(10, "active", "theirs", with(cut)), whole, paid(1, 10, "pro")},
	} {
		orders(events(facts, false), func(delivered []fact.Fact) {
			if s := foldAll(delivered, p, at(1000)).subscriptions["sub_1"]; !s.NotOurs {
				t.Errorf("%s: after %s the subscription is ours", name, told(delivered))
			}
		})
	}
}
