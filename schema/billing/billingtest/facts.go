// Package billingtest makes facts for tests and applies them to a database. The facts are about customer cus_1 of
// account acme: the subscription sub_1, its invoices in_N, and the payment ch_1 with its refunds. A time is given as a
// number of seconds after [Begin].
package billingtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Durations as a number of seconds.
const (
	Hour   = 3600
	ADay   = 24 * Hour
	AMonth = 30 * ADay
)

// Day is 24 hours.
const Day = 24 * time.Hour

// Begin is second 0 of all facts.
var Begin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// Policy maps the prices of [Prices]. It also maps the connected account acct_9 to the account umbrella.
var Policy = fact.Policy{
	Prices:   Prices("starter", "pro", "enterprise"),
	Accounts: map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "umbrella"},
	Order:    []string{"starter", "pro", "enterprise"},
	Features: map[string][]string{
		"starter": {"projects"}, "pro": {"api", "projects"}, "enterprise": {"api", "audit-log", "projects", "sso"},
	},
	Grace: 21 * Day, Renewal: 4 * Day, Dunning: []time.Duration{0, 3 * Day, 7 * Day, 14 * Day},
	Settle: 10 * time.Minute, Apart: Day, Keep: 30 * Day,
}

// Prices maps a price to each plan, and prices of one-time purchases that grant the plan for some durations.
func Prices(plans ...string) map[string]fact.Price {
	all := map[string]fact.Price{"price_sso": {AddOn: []string{"sso"}},
		Once("sso", Day): {AddOn: []string{"sso"}, For: Day}}
	for _, plan := range plans {
		all["price_"+plan] = fact.Price{Plan: plan}
		for _, lasts := range []time.Duration{Day, 10 * Day, 30 * Day, 40 * Day, 60 * Day, 90 * Day} {
			all[Once(plan, lasts)] = fact.Price{Plan: plan, For: lasts}
		}
	}
	return all
}

// Mapped returns [Policy] with another entry for a price.
func Mapped(price string, means fact.Price) fact.Policy {
	p := Policy
	p.Prices = maps.Clone(Policy.Prices)
	p.Prices[price] = means
	return p.Sealed()
}

// Once returns the name of the price for a one-time purchase of a plan.
func Once(plan string, lasts time.Duration) string { return "price_" + plan + "_" + lasts.String() }

// At returns the time of a second after [Begin].
func At(second int) time.Time { return Begin.Add(time.Duration(second) * time.Second) }

// Years returns a second that lies in the future according to the real clock.
func Years(second int) int { return second + int(time.Since(Begin)/time.Second) + ADay }

// Monthly returns the nth period of a monthly subscription. n starts at 1, and period 1 begins at second 0.
func Monthly(n int) (start, end time.Time) {
	return Begin.Add(time.Duration(n-1) * 30 * Day), Begin.Add(time.Duration(n) * 30 * Day)
}

// Change changes one property of a fact.
type Change func(*fact.Fact)

// Changed returns a copy of a fact with changes.
func Changed(f fact.Fact, changes ...Change) fact.Fact {
	for _, c := range changes {
		c(&f)
	}
	return f
}

// Make returns a fact of cus_1. Its event is empty until [Events] sets it.
func Make(kind fact.Kind, object string, second int, rank fact.Rank, data fact.Data, changes ...Change) fact.Fact {
	return Changed(fact.Fact{
		Subject: fact.Subject{Provider: "stripe", Mode: "live", Customer: "cus_1", OccurredAt: At(second)},
		Kind:    kind, Object: object, Rank: rank, Origin: fact.FromEvent, Data: data,
	}, changes...)
}

// Seen returns a fact that shows sub_1 with one seat of a plan in its first period. If plan is "", the price is not
// mapped.
func Seen(second int, rank fact.Rank, status, plan string, changes ...Change) fact.Fact {
	return Make(fact.SubscriptionSeen, "sub_1", second, rank, fact.Data{Subscription: Snapshot(status, plan)},
		changes...)
}

// Snapshot returns the subscription in [Seen].
func Snapshot(status, plan string) *fact.Subscription {
	start, end := Monthly(1)
	return &fact.Subscription{
		Status: status, Account: "acme", Start: start,
		Items: []fact.Item{{ID: "si_1", Price: "price_" + plan, Quantity: 1, PeriodStart: start, PeriodEnd: end}},
	}
}

// Created returns a fact that shows the new subscription sub_1.
func Created(second int, status, plan string, changes ...Change) fact.Fact {
	return Seen(second, fact.RankCreated, status, plan, changes...)
}

// Updated returns a fact that shows a change of sub_1.
func Updated(second int, status, plan string, changes ...Change) fact.Fact {
	return Seen(second, fact.RankChange, status, plan, changes...)
}

// Deleted returns a fact that shows the end of sub_1.
func Deleted(second int, plan string, changes ...Change) fact.Fact {
	ended := func(f *fact.Fact) { f.Subscription.EndedAt = At(second) }
	return Seen(second, fact.RankEnd, "canceled", plan, append([]Change{ended}, changes...)...)
}

// With returns a change of the subscription in a fact.
func With(c func(*fact.Subscription)) Change {
	return func(f *fact.Fact) { c(f.Subscription) }
}

// About sets the object of a fact, the account of its subscription or invoice, and the customer unless it is empty.
func About(object, account, customer string) Change {
	return func(f *fact.Fact) {
		f.Object, f.Customer = object, cmp.Or(customer, f.Customer)
		switch {
		case f.Subscription != nil:
			f.Subscription.Account = account
		case f.Invoice != nil:
			f.Invoice.Account = account
		}
	}
}

// Origin sets the origin of a fact.
func Origin(o fact.Origin) Change { return func(f *fact.Fact) { f.Origin = o } }

// Connected moves a fact to the connected account acct_9.
func Connected(f *fact.Fact) { f.ProviderAccount = "acct_9" }

// WithoutCustomer removes the customer. Refunds, disputes and links between a payment and its invoice contain no
// customer.
func WithoutCustomer(f *fact.Fact) { f.Customer = "" }

// Paid returns a fact that shows the paid invoice in_N of sub_1 for its nth period.
func Paid(n, second int, plan string, changes ...Change) fact.Fact {
	return Invoice(n, second, "paid", plan, changes...)
}

// Invoice returns a fact that shows the invoice in_N of sub_1 for its nth period, with an amount of 1000 minor units.
func Invoice(n, second int, status, plan string, changes ...Change) fact.Fact {
	start, end := Monthly(n)
	in := &fact.Invoice{
		Status: status, Due: 1000, Currency: "usd", Reason: "subscription_cycle", Subscription: "sub_1",
		Account: "acme", Lines: []fact.Line{{Subscription: "sub_1", Price: "price_" + plan, Quantity: 1, Amount: 1000,
			PeriodStart: start, PeriodEnd: end}},
	}
	if status == "paid" {
		in.Paid = 1000
	}
	return Make(fact.InvoiceSeen, fmt.Sprintf("in_%d", n), second, fact.RankChange, fact.Data{Invoice: in}, changes...)
}

// Failed returns a fact that shows a failed attempt to collect in_N.
func Failed(n, second, attempt int, plan string, changes ...Change) fact.Fact {
	failed := func(f *fact.Fact) { f.Invoice.Failed, f.Invoice.Attempts = true, attempt }
	return Invoice(n, second, "open", plan, append(changes, failed)...)
}

// OneOff removes the subscription from an invoice. The price of the invoice then grants its plan for a duration, or
// nothing if the duration is 0.
func OneOff(grants time.Duration) Change {
	return func(f *fact.Fact) {
		f.Invoice.Subscription, f.Invoice.Reason = "", "manual"
		for i := range f.Invoice.Lines {
			f.Invoice.Lines[i].Subscription = ""
			if grants > 0 {
				f.Invoice.Lines[i].Price += "_" + grants.String()
			}
		}
	}
}

// Decided returns the fact of a person's decision about an object and a price.
func Decided(kind fact.Kind, object string, second int, plan string, quantity int64) fact.Fact {
	return Make(kind, object, second, fact.RankChange, fact.Data{Decision: &fact.Decision{By: "sink",
		Prices: []fact.Bought{{Price: "price_" + plan, Quantity: quantity}}}}, Origin(fact.FromOperator))
}

// Charge returns a fact that shows the charge ch_1 of in_1, with an amount of 100 minor units.
func Charge(second int, refunded int64) fact.Fact {
	return Make(fact.PaymentSeen, "ch_1", second, fact.RankChange, fact.Data{Payment: &fact.Payment{
		Status: "succeeded", Charge: "ch_1", Invoice: "in_1", Amount: 100, Currency: "usd", Refunded: &refunded,
	}})
}

// Tie returns a fact that links ch_1 to an invoice. Since Stripe's API version 2025-03-31.basil, a charge does not
// contain its invoice.
func Tie(second int, invoice string) fact.Fact {
	return Make(fact.PaymentSeen, "ch_1", second, fact.RankEnd, fact.Data{Payment: &fact.Payment{
		Status: "succeeded", Invoice: invoice, Amount: 1000, Currency: "usd"}}, WithoutCustomer)
}

// Refund returns a fact that shows a refund of ch_1.
func Refund(id string, second int, status string, amount int64) fact.Fact {
	return Make(fact.RefundSeen, id, second, fact.RankChange, fact.Data{Refund: &fact.Refund{
		Status: status, Charge: "ch_1", Amount: amount, Currency: "usd"}})
}

// Refunded is like [Refund], but without a customer.
func Refunded(id string, second int, status string, amount int64) fact.Fact {
	return Changed(Refund(id, second, status, amount), WithoutCustomer)
}

// Dispute returns a fact that shows a dispute of ch_1.
func Dispute(second int, rank fact.Rank, status string, movements ...fact.Movement) fact.Fact {
	return Make(fact.DisputeSeen, "dp_1", second, rank, fact.Data{Dispute: &fact.Dispute{
		Status: status, Charge: "ch_1", Amount: 100, Currency: "usd", Movements: movements}})
}

// Disputed is like [Dispute], but without a customer.
func Disputed(second int, rank fact.Rank, status string, movements ...fact.Movement) fact.Fact {
	return Changed(Dispute(second, rank, status, movements...), WithoutCustomer)
}

// Credited returns a fact that shows a credit note on in_1.
func Credited(second int, status string) fact.Fact {
	return Make(fact.CreditSeen, "cn_1", second, fact.RankChange, fact.Data{Credit: &fact.Credit{
		Status: status, Invoice: "in_1", Amount: 300, Currency: "usd"}})
}

// Warned returns a fact that shows an early fraud warning about ch_1.
func Warned(second int, actionable bool) fact.Fact {
	return Make(fact.WarningSeen, "issfr_1", second, fact.RankChange, fact.Data{Warning: &fact.Warning{
		Charge: "ch_1", Type: "misc", Actionable: actionable}}, WithoutCustomer)
}

// Sale returns a fact that shows a checkout session: one month of plan pro, sold once and paid with ch_1.
func Sale(second int, status, payment string, changes ...Change) fact.Fact {
	return Make(fact.CheckoutSeen, "cs_1", second, fact.RankEnd, fact.Data{Checkout: &fact.Checkout{
		Mode: "payment", Status: status, PaymentStatus: payment, PaymentIntent: "ch_1", Account: "acme", Amount: 1000,
		Currency: "usd", Lines: []fact.Line{{Price: Once("pro", 30*Day), Quantity: 1, Amount: 1000}},
	}}, changes...)
}

// By sets the session, the account and the payment of a sale.
func By(session, account string) Change {
	return func(f *fact.Fact) {
		f.Object, f.Checkout.Account, f.Checkout.PaymentIntent = session, account, "ch_"+session
	}
}

// Events gives each fact its own event and receipt. If backwards is true, later facts get lower event IDs.
func Events(facts []fact.Fact, backwards bool) []fact.Fact {
	named := slices.Clone(facts)
	for i := range named {
		n := i + 1
		if backwards {
			n = len(named) - i
		}
		if named[i].EventID == "" {
			named[i].EventID = fmt.Sprintf("evt_%d", n)
		}
		named[i].ReceiptID = fmt.Sprintf("00000000-0000-7000-8000-%012d", n)
	}
	return named
}
