package billing_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// An access case consists of the facts of one account and of the account's final access, in every order of delivery.
type accessCase struct {
	name   string
	facts  []fact.Fact
	policy func(*fact.Policy)
	// now is the second at which the access is read; 0 means 1000.
	now  int
	want string
	// never is a plan that the account must not have after any fact; "" means no such plan.
	never string
	// due lists the scheduled actions. nil means any.
	due []string
}

// chargeOf assigns a charge, a refund or a dispute to the payment ch_N of invoice in_N.
func chargeOf(n int) change {
	return func(f *fact.Fact) {
		id := fmt.Sprint("ch_", n)
		switch {
		case f.Payment != nil:
			f.Object, f.Payment.Charge, f.Payment.Invoice = id, id, fmt.Sprint("in_", n)
		case f.Refund != nil:
			f.Object, f.Refund.Charge = fmt.Sprint("re_", n), id
		case f.Dispute != nil:
			f.Dispute.Charge = id
		}
	}
}

// upgrade returns the invoice in_N of a change to a plan on day 10 of the first period.
func upgrade(n, second int, status, plan string, changes ...change) fact.Fact {
	f := invoice(n, second, status, plan, append([]change{inPeriodOf(1), reason("subscription_update")}, changes...)...)
	f.Invoice.Lines[0].PeriodStart, f.Invoice.Lines[0].Proration = at(10*aDay), true
	return f
}

// free sets all amounts of an invoice to 0, including the amount of its line.
func free(f *fact.Fact) { f.Invoice.Due, f.Invoice.Paid, f.Invoice.Lines[0].Amount = 0, 0, 0 }

// discounted sets the due and the paid amount of an invoice to 0, as a coupon or the customer's balance can do. The
// lines keep their amounts.
func discounted(f *fact.Fact) { f.Invoice.Due, f.Invoice.Paid = 0, 0 }

func onPayment(p *fact.Policy) { p.GrantOnPayment = true }
func periodEnd(p *fact.Policy) { p.EndAtPeriodEnd = true }

func periods(months int) func(*fact.Subscription) {
	return func(s *fact.Subscription) {
		s.Items[0].PeriodEnd = s.Items[0].PeriodStart.Add(time.Duration(months) * 30 * day)
	}
}

// cut marks a snapshot as incomplete: it contains only the first items.
func cut(s *fact.Subscription) { s.Partial = true }

func metered(s *fact.Subscription) { s.Items[0].Metered, s.Items[0].Quantity = true, 0 }

var accessCases = []accessCase{
	{name: "an upgrade is refunded in full: the smaller plan, whose month is paid, stays", policy: full,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro", from("active", "starter")),
			upgrade(2, 10*aDay, "paid", "pro"), changed(charge(11*aDay, 1000), chargeOf(2))},
		now: 12 * aDay, want: "acme: active starter 1 projects"},
	{name: "more seats are refunded in full: the earlier seats stay", policy: full,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), updated(10*aDay, "active", "pro", with(seats(5))),
			upgrade(2, 10*aDay, "paid", "pro", func(f *fact.Fact) { f.Invoice.Lines[0].Quantity = 5 }), changed(charge(11*aDay, 1000), chargeOf(2))},
		now: 12 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "an upgrade and its month are refunded in full", policy: full,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro"), upgrade(2, 10*aDay, "paid", "pro"),
			changed(charge(11*aDay, 1000), chargeOf(2)), changed(charge(12*aDay, 1000), chargeOf(1))},
		now: 13 * aDay, want: "acme: suspended"},
	{name: "a renewal is refunded in full: the month before it is over", policy: full,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), paid(2, 30*aDay, "pro"), changed(charge(31*aDay, 1000), chargeOf(2))},
		now:   32 * aDay, want: "acme: suspended"},
	{name: "an upgrade is refunded in full, and the plan is renewed", policy: full,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro"), upgrade(2, 10*aDay, "paid", "pro"),
			changed(charge(11*aDay, 1000), chargeOf(2)), paid(3, 31*aDay, "pro", inPeriodOf(2))},
		now: 32 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "a year that replaced a month is refunded in full: the month goes on to its end", policy: full,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), updated(10*aDay, "active", "pro", with(periods(12))),
			upgrade(2, 10*aDay, "paid", "pro", func(f *fact.Fact) { f.Invoice.Lines[0].PeriodEnd = at(360 * aDay) }), changed(charge(11*aDay, 1000), chargeOf(2))},
		now: 12 * aDay, want: "acme: active pro 1 api,projects", due: []string{"end sub_1 at 720h0m0s"}},
	{name: "a month that is over is disputed: the paid month stays", policy: holds,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0), paid(2, 30*aDay, "pro"), disputed(40*aDay, fact.RankCreated, "needs_response")},
		now:   41 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "a month that is over is lost: the paid month stays", policy: lost,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0), paid(2, 30*aDay, "pro"), disputed(40*aDay, fact.RankEnd, "lost")},
		now:   41 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "the paid month is disputed", policy: holds,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), paid(2, 30*aDay, "pro"), changed(charge(30*aDay, 0), chargeOf(2)),
			changed(disputed(40*aDay, fact.RankCreated, "needs_response"), chargeOf(2))},
		now: 41 * aDay, want: "acme: suspended"},
	{name: "the paid month is disputed, and a person releases it", policy: holds,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0), disputed(20, fact.RankCreated, "needs_response"),
			decided(fact.Released, "sub_1", 30, "", 0)},
		want: "acme: active pro 1 api,projects"},
	{name: "an upgrade is disputed: the smaller plan, whose month is paid, stays", policy: holds,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), upgrade(2, 10*aDay, "paid", "pro"), updated(10*aDay, "active", "pro"),
			changed(charge(10*aDay, 0), chargeOf(2)), changed(disputed(11*aDay, fact.RankCreated, "needs_response"), chargeOf(2))},
		now: 12 * aDay, want: "acme: active starter 1 projects"},
	{name: "canceled on day 2 and refunded in full: nothing is paid for", policy: periodEnd,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), deleted(2*aDay, "pro"), charge(2*aDay, 1000)},
		now:   3 * aDay, want: "acme: suspended"},
	{name: "canceled on day 2 and refunded in part: the period is paid for", policy: periodEnd,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), deleted(2*aDay, "pro"), charge(2*aDay, 400)},
		now:   3 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "canceled, and the upgrade is refunded in full: the smaller plan stays to the end", policy: periodEnd,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro"), upgrade(2, 10*aDay, "paid", "pro"),
			deleted(11*aDay, "pro"), changed(charge(11*aDay, 1000), chargeOf(2))},
		now: 12 * aDay, want: "acme: active starter 1 projects"},
	{name: "a trial is canceled on day 3: nothing is paid for", policy: periodEnd,
		facts: []fact.Fact{created(0, "trialing", "pro"), paid(1, 1, "pro", free, reason("subscription_create")), deleted(3*aDay, "pro")},
		now:   4 * aDay, want: "acme: suspended"},
	{name: "canceled in a period that a coupon has paid", policy: periodEnd,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro", discounted), deleted(3*aDay, "pro")},
		now:   4 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "an upgrade is voided, granted with the payment", policy: onPayment, never: "enterprise",
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "enterprise", from("active", "starter")),
			upgrade(2, 10*aDay, "void", "enterprise")},
		now: 12 * aDay, want: "acme: active starter 1 projects"},
	{name: "an upgrade that a coupon pays, granted with the payment", policy: onPayment,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro", from("active", "starter")), upgrade(2, 10*aDay, "paid", "pro", discounted)},
		now:   12 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "an upgrade that the renewal pays, granted with the payment", policy: onPayment,
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro", from("active", "starter")), paid(2, 30*aDay, "pro")},
		now:   31 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "an upgrade is refunded in full, granted with the payment", policy: func(p *fact.Policy) { onPayment(p); full(p) },
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(10*aDay, "active", "pro", from("active", "starter")), upgrade(2, 10*aDay, "paid", "pro"),
			changed(charge(11*aDay, 1000), chargeOf(2))},
		now: 12 * aDay, want: "acme: active starter 1 projects"},
	{name: "a trial becomes a trial of a higher plan, granted with the payment", policy: onPayment,
		facts: []fact.Fact{created(0, "trialing", "starter"), paid(1, 1, "starter", free, reason("subscription_create")), updated(3*aDay, "trialing", "pro", from("trialing", "starter"))},
		now:   4 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "the tried plan goes on after the trial, and its invoice is to be paid", policy: onPayment,
		facts: []fact.Fact{created(0, "trialing", "starter"), paid(1, 1, "starter", free, reason("subscription_create")), updated(3*aDay, "trialing", "pro", from("trialing", "starter")),
			updated(14*aDay, "active", "pro", from("trialing", "pro"))},
		now: 15 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "upgraded as the trial ends, and not paid", policy: onPayment, never: "enterprise",
		facts: []fact.Fact{created(0, "trialing", "starter"), paid(1, 1, "starter", free, reason("subscription_create")), updated(14*aDay, "active", "enterprise", from("trialing", "starter"))},
		now:   15 * aDay, want: "acme: active starter 1 projects"},
	{name: "a plan that is billed by use is changed, granted with the payment", policy: onPayment,
		facts: []fact.Fact{created(0, "active", "starter", with(metered)), updated(3*aDay, "active", "pro", with(metered))},
		now:   4 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "a checkout without a reference, of a customer whose subscription names the account",
		facts: []fact.Fact{created(0, "active", "starter"), sale(20, "complete", "paid", func(f *fact.Fact) { f.Checkout.Account = "" }), ofNone(20)},
		want:  "acme: active pro 1 api,projects"},
	{name: "the first items of many: the known part is granted",
		facts: []fact.Fact{created(0, "active", "pro", with(cut))}, want: "acme: active pro 1 api,projects"},
	{name: "the first items of many: a suspension needs none",
		facts: []fact.Fact{created(0, "active", "pro", with(cut)), updated(9, "unpaid", "pro", with(cut))}, want: suspended},
	{name: "the first items of many: an end needs none",
		facts: []fact.Fact{created(0, "active", "pro", with(cut)), deleted(9, "pro", with(cut))}, want: suspended},
	{name: "the first items of many: a complete snapshot has the others",
		facts: []fact.Fact{created(0, "active", "pro", with(besideSSO)), updated(9, "active", "pro", with(seats(3)), with(cut))}, want: "acme: active pro 3 api,projects,sso"},
	{name: "the first items of many: the plan is not among them",
		facts: []fact.Fact{created(0, "active", "pro", with(cut)), updated(9, "active", "sso", with(cut), with(func(s *fact.Subscription) {
			s.Items[0].ID = "si_2"
		}))}, want: "acme: active pro 1 api,projects,sso"},
	{name: "the first items of many: fetched with the event",
		facts: []fact.Fact{created(0, "active", "pro", with(cut)), seen(3, fact.RankFetched, "active", "pro", with(besideSSO), origin(fact.FromFetch))}, want: "acme: active pro 1 api,projects,sso"},
	{name: "the only item is metered: one seat",
		facts: []fact.Fact{created(0, "active", "pro", with(metered))}, want: "acme: active pro 1 api,projects"},
	{name: "a metered item beside seats adds none",
		facts: []fact.Fact{created(0, "active", "pro", with(seats(3)), with(func(s *fact.Subscription) {
			s.Items = append(s.Items, fact.Item{ID: "si_2", Price: "price_pro", Metered: true})
		}))}, want: "acme: active pro 3 api,projects"},
	{name: "a yearly subscription replaces a monthly one, whose period is paid: one seat", policy: periodEnd,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), created(10*aDay, "active", "pro", of("sub_2", "acme", "")), deleted(10*aDay, "pro")},
		now:   11 * aDay, want: "acme: active pro 1 api,projects"},
	{name: "the replaced subscription had more seats: they stay to its end", policy: periodEnd,
		facts: []fact.Fact{created(0, "active", "pro", with(seats(5))), paid(1, 1, "pro"), created(10*aDay, "active", "pro", of("sub_2", "acme", ""), with(seats(3))),
			deleted(10*aDay, "pro", with(seats(5)))},
		now: 11 * aDay, want: "acme: active pro 5 api,projects"},
}

func TestAccess_EveryOrder_WhatIsPaidFor(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for _, c := range accessCases {
		t.Run(c.name, func(t *testing.T) {
			p, now := policy, 1000
			if c.policy != nil {
				c.policy(&p)
			}
			if c.now != 0 {
				now = c.now
			}
			ordersOfRows(events(c.facts, false), func(delivered []fact.Fact) {
				access, plans, due := c.play(t, pool, delivered, p, now)
				if access == "acme:" { // the account never had a plan
					access = suspended
				}
				if access != c.want {
					t.Fatalf("after %s\n got %q\nwant %q", told(delivered), access, c.want)
				}
				if c.never != "" && slices.Contains(plans, c.never) {
					t.Fatalf("after %s\nhad %q", told(delivered), plans)
				}
				if c.due != nil && !slices.Equal(ofFacts(due), c.due) {
					t.Fatalf("after %s\ndue %q\nwant %q", told(delivered), due, c.due)
				}
			})
		})
	}
}

// play applies the facts one by one, and returns the final access of acme, the plans after each fact, and the
// scheduled actions.
func (c accessCase) play(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact, p fact.Policy, now int) (access string, plans, due []string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n, f := range facts {
			change, err := billing.Apply(t.Context(), tx, append(fact.LinksOf(f), f), p, fmt.Sprint("apply:", n), at(now))
			if err != nil {
				return fmt.Errorf("after %s: %w", told(facts[:n+1]), err)
			}
			for _, a := range append(change.Others, change.After.Access) {
				if a.Account == "acme" {
					access, plans = describeAccess(a), append(plans, a.Target.Plan)
				}
			}
		}
		due = dueRows(t, tx)
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	return access, plans, due
}
