package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

func basil(second int, refunded int64) fact.Fact {
	f := charge(second, refunded)
	f.Payment.Invoice = ""
	return f
}

// ofNone returns a charge that reports that it has no invoice.
func ofNone(second int) fact.Fact {
	f := basil(second, 0)
	f.Payment.NoInvoice = true
	return f
}

// authorised returns the charge of a payment before its capture, and captured returns the same charge after the
// capture.
func authorised(second int) fact.Fact {
	f := basil(second, 0)
	f.Payment.Status, f.Payment.Amount = "requires_capture", 0
	return f
}

func captured(second int, amount int64) fact.Fact {
	f := basil(second, 0)
	f.Payment.Amount = amount
	return f
}

// partOf returns a partial payment of in_1.
func partOf(second int, amount int64) fact.Fact {
	f := tie(second, "in_1")
	f.Payment.Amount = amount
	return f
}

// paidSoFar sets the paid amount of an invoice.
func paidSoFar(amount int64) change {
	return func(f *fact.Fact) { f.Invoice.Paid, f.Invoice.Remaining = amount, f.Invoice.Due-amount }
}

func taxed(f *fact.Fact) { f.Invoice.Tax = 160 }

func full(p *fact.Policy)  { p.EndOnFullRefund = true }
func holds(p *fact.Policy) { p.HoldOnDispute = true }
func lost(p *fact.Policy)  { p.EndOnLostDispute = true }

const (
	keeps     = "acme: active pro 1"
	suspended = "acme: suspended"
	paidOnce  = "in_1: acme paid 1000"
	active    = "sub_1: acme active pro"
	believed  = "ch_1: acme in_1 sub_1 succeeded 100 refunded 0"
)

var (
	withdrawn  = fact.Movement{ID: "txn_1", Amount: -1000, Currency: "usd"}
	reinstated = fact.Movement{ID: "txn_2", Amount: 1000, Currency: "usd"}
)

// These are the cases of the billing model. rows is the final state and news the published events, in every order of
// delivery.
var moneyCases = []struct {
	name   string
	facts  []fact.Fact
	policy func(*fact.Policy)
	want   []string
	news   string
	// toldTo is the account of the published refunds and disputes; "" means any.
	toldTo string
}{
	{name: "14 refunded in full, and the refund failed",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), refunded("re_1", 10, "succeeded", 1000), refunded("re_1", 20, "failed", 1000)}, policy: full,
		want: []string{active, paidOnce, believed, "re_1: acme in_1 sub_1 failed 1000", keeps}, news: "billing.refund.failed billing.refund.succeeded"},
	{name: "14 refunded in full, and the refund failed, as the charge tells",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(10, 1000), refunded("re_1", 10, "succeeded", 1000), refunded("re_1", 20, "failed", 1000)}, policy: full,
		want: []string{active, paidOnce, believed, "re_1: acme in_1 sub_1 failed 1000", keeps}, news: "billing.refund.failed billing.refund.succeeded"},
	{name: "14 refunded in full, access is kept",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), refunded("re_1", 10, "succeeded", 1000)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 1000", "re_1: acme in_1 sub_1 succeeded 1000", keeps}, news: "billing.refund.succeeded"},
	{name: "14 refunded in full, access ends", policy: full,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0), charge(10, 1000), refunded("re_1", 10, "succeeded", 1000)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 1000", "re_1: acme in_1 sub_1 succeeded 1000", suspended}, news: "billing.refund.succeeded"},
	{name: "a payment through the API, of a customer whose subscription names the account",
		facts: []fact.Fact{created(0, "active", "pro"), ofNone(5)},
		want:  []string{active, "ch_1: acme succeeded 100 refunded 0", keeps}},
	{name: "an add-on's own invoice is refunded in full, the plan stays", policy: full,
		facts: []fact.Fact{created(0, "active", "pro"), paid(2, 1, "pro", inPeriodOf(1)), paid(1, 5, "sso"), charge(10, 1000)},
		want:  []string{active, paidOnce, "in_2: acme paid 1000", "ch_1: acme in_1 sub_1 succeeded 100 refunded 1000", keeps}},
	{name: "a set-up fee's own invoice is refunded in full, the plan stays", policy: full,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 5, "setup"), charge(10, 1000)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 1000", keeps}},
	{name: "refunded in part, access is kept", policy: full,
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), refunded("re_1", 10, "succeeded", 999)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 999", "re_1: acme in_1 sub_1 succeeded 999", keeps}, news: "billing.refund.succeeded"},
	{name: "refunded in full, and the next invoice is paid", policy: full,
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 1000), paid(2, 20, "pro")},
		want:  []string{active, paidOnce, "in_2: acme paid 1000", "ch_1: acme in_1 sub_1 succeeded 100 refunded 1000", keeps}},
	{name: "15 what the charge says in sum, and its refunds each",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(20, 30), refunded("re_1", 10, "succeeded", 10), refunded("re_2", 20, "succeeded", 20)},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 30", "re_1: acme in_1 sub_1 succeeded 10",
			"re_2: acme in_1 sub_1 succeeded 20", keeps}, news: "billing.refund.succeeded billing.refund.succeeded"},
	{name: "of an invoice with tax, two parts are refunded",
		facts: []fact.Fact{paid(1, 1, "pro", taxed), charge(20, 1000), refunded("re_1", 10, "succeeded", 300), refunded("re_2", 20, "succeeded", 700)},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 1000", "re_1: acme in_1 sub_1 succeeded 300 tax 48",
			"re_2: acme in_1 sub_1 succeeded 700 tax 112", keeps}, news: "billing.refund.succeeded billing.refund.succeeded"},
	{name: "bought once with tax, and refunded in part",
		facts: []fact.Fact{sale(20, "complete", "paid", func(f *fact.Fact) { f.Checkout.Tax = 160 }), basil(20, 0), refunded("re_1", 30, "succeeded", 600)},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme succeeded 100 refunded 600", "re_1: acme succeeded 600 tax 96", keeps},
		news:  "billing.checkout.completed billing.refund.succeeded"},
	{name: "two sums of one second",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(20, 30), charge(20, 10)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 100 refunded 30", keeps}},
	{name: "a charge that names no invoice is tied to it",
		facts: []fact.Fact{paid(1, 1, "pro"), basil(1, 0), tie(1, "in_1"), refunded("re_1", 10, "succeeded", 100)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 100", "re_1: acme in_1 sub_1 succeeded 100", keeps},
		news:  "billing.refund.succeeded"},
	{name: "nothing is known but the refund",
		facts: []fact.Fact{paid(1, 1, "pro"), refunded("re_1", 10, "succeeded", 100)},
		want:  []string{active, paidOnce, "ch_1: ? 0 refunded 100", "re_1: ? succeeded 100", keeps}},
	{name: "the invoice of the charge is not known",
		facts: []fact.Fact{charge(1, 0), refunded("re_1", 10, "pending", 100), refunded("re_1", 11, "failed", 100)},
		want:  []string{"ch_1: ? in_1 succeeded 100 refunded 0", "re_1: ? in_1 failed 100"}},
	{name: "the charge of no invoice is its customer's",
		facts: []fact.Fact{ofNone(1), linked("cus_1", 2, "acme"), refunded("re_1", 10, "pending", 100), refunded("re_1", 11, "failed", 100)},
		want:  []string{"ch_1: acme succeeded 100 refunded 0", "re_1: acme failed 100"}, news: "billing.refund.failed"},
	{name: "the charge does not tell whether it is of an invoice: nothing is told to the account of its customer, which can have others",
		facts: []fact.Fact{basil(1, 0), linked("cus_1", 2, "acme"), refunded("re_1", 10, "succeeded", 100)},
		want:  []string{"ch_1: acme succeeded 100 refunded 100", "re_1: acme succeeded 100"}},
	{name: "the subscription alone names the account: its refund is told to that, whichever comes first",
		facts: []fact.Fact{paid(1, 1, "pro"), basil(1, 0), refunded("re_1", 10, "succeeded", 40), disputed(20, fact.RankCreated, "needs_response"), tie(2, "in_1")},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 40", "re_1: acme in_1 sub_1 succeeded 40", "dp_1: acme in_1 sub_1 needs_response 100", "task dispute dp_1: acme open", keeps},
		news:  "billing.dispute.needs_response billing.refund.succeeded", toldTo: "acme"},
	{name: "16 lost, and created",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), disputed(20, fact.RankEnd, "lost", withdrawn), disputed(10, fact.RankCreated, "needs_response")},
		want:  []string{active, paidOnce, believed, "dp_1: acme in_1 sub_1 lost 100 txn_1", "task dispute dp_1: acme cancelled", keeps},
		news:  "billing.dispute.lost billing.dispute.needs_response"},
	{name: "open, and held",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), disputed(10, fact.RankCreated, "needs_response")}, policy: holds,
		want: []string{active, paidOnce, believed, "dp_1: acme in_1 sub_1 needs_response 100", "task dispute dp_1: acme open", suspended}, news: "billing.dispute.needs_response"},
	{name: "held, and released when it is won",
		facts:  []fact.Fact{paid(1, 1, "pro"), charge(1, 0), disputed(10, fact.RankCreated, "needs_response", withdrawn), disputed(20, fact.RankEnd, "won", withdrawn, reinstated)},
		policy: func(p *fact.Policy) { holds(p); lost(p) },
		want:   []string{active, paidOnce, believed, "dp_1: acme in_1 sub_1 won 100 txn_1,txn_2", "task dispute dp_1: acme cancelled", keeps},
		news:   "billing.dispute.needs_response billing.dispute.won"},
	{name: "lost, and access ends",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), disputed(20, fact.RankEnd, "lost", withdrawn)}, policy: lost,
		want: []string{active, paidOnce, believed, "dp_1: acme in_1 sub_1 lost 100 txn_1", "task dispute dp_1: acme cancelled", suspended}, news: "billing.dispute.lost"},
	{name: "lost, and a person releases it",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), charge(1, 0), disputed(20, fact.RankEnd, "lost", withdrawn), decided(fact.Released, "sub_1", 30, "", 0)}, policy: lost,
		want: []string{active, paidOnce, believed, "dp_1: acme in_1 sub_1 lost 100 txn_1", "task dispute dp_1: acme cancelled", keeps}, news: "billing.dispute.lost"},
	{name: "an inquiry, answered, and disputed after all",
		facts: []fact.Fact{charge(1, 0), disputed(10, fact.RankCreated, "warning_needs_response"), disputed(20, fact.RankChange, "warning_under_review"),
			disputed(30, fact.RankChange, "needs_response", withdrawn)}, policy: holds,
		want: []string{"ch_1: ? in_1 succeeded 100 refunded 0", "dp_1: ? in_1 needs_response 100 txn_1", "task dispute dp_1: open", "task inquiry dp_1: cancelled"}},
	{name: "an early fraud warning, and nothing can be done any more",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), warned(5, true), warned(9, false)},
		want:  []string{active, paidOnce, believed, "task fraud_warning issfr_1: acme cancelled", keeps}},
	{name: "an early fraud warning",
		facts: []fact.Fact{paid(1, 1, "pro"), tie(1, "in_1"), warned(5, true)},
		want:  []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 0", "task fraud_warning issfr_1: acme open", keeps}},
	{name: "an early fraud warning, and the payment is refunded in full",
		facts: []fact.Fact{paid(1, 1, "pro"), tie(1, "in_1"), warned(5, true), refunded("re_1", 9, "succeeded", 1000)},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 1000", "re_1: acme in_1 sub_1 succeeded 1000",
			"task fraud_warning issfr_1: acme cancelled", keeps}, news: "billing.refund.succeeded"},
	{name: "an early fraud warning, and no event reports the charge that is refunded in full",
		facts: []fact.Fact{paid(1, 1, "pro"), changed(tie(1, "in_1"), func(f *fact.Fact) { f.Payment.Amount = 0 }), warned(5, true), refunded("re_1", 9, "succeeded", 1000)},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 0 refunded 1000", "re_1: acme in_1 sub_1 succeeded 1000",
			"task fraud_warning issfr_1: acme cancelled", keeps}, news: "billing.refund.succeeded"},
	{name: "an early fraud warning, and a part is refunded",
		facts: []fact.Fact{paid(1, 1, "pro"), tie(1, "in_1"), warned(5, true), refunded("re_1", 9, "succeeded", 400)},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 400", "re_1: acme in_1 sub_1 succeeded 400",
			"task fraud_warning issfr_1: acme open", keeps}, news: "billing.refund.succeeded"},
	{name: "an early fraud warning, and the full refund fails",
		facts: []fact.Fact{paid(1, 1, "pro"), tie(1, "in_1"), warned(5, true), refunded("re_1", 9, "succeeded", 1000), refunded("re_1", 12, "failed", 1000)},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 0", "re_1: acme in_1 sub_1 failed 1000",
			"task fraud_warning issfr_1: acme open", keeps}, news: "billing.refund.failed billing.refund.succeeded"},
	{name: "an early fraud warning, and the payment is disputed",
		facts: []fact.Fact{paid(1, 1, "pro"), tie(1, "in_1"), warned(5, true), disputed(9, fact.RankCreated, "needs_response")},
		want: []string{active, paidOnce, "ch_1: acme in_1 sub_1 succeeded 1000 refunded 0", "dp_1: acme in_1 sub_1 needs_response 100",
			"task dispute dp_1: acme open", "task fraud_warning issfr_1: acme cancelled", keeps}, news: "billing.dispute.needs_response"},
	{name: "18 the task about a dispute moves, too",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), disputed(10, fact.RankCreated, "needs_response"), updated(50, "active", "pro", of("sub_1", "umbrella", ""))},
		want: []string{"sub_1: umbrella active pro", "in_1: umbrella paid 1000", "ch_1: umbrella in_1 sub_1 succeeded 100 refunded 0",
			"dp_1: umbrella in_1 sub_1 needs_response 100", "task dispute dp_1: umbrella open", "umbrella: active pro 1"}, news: "billing.dispute.needs_response"},
	{name: "a credit note, voided",
		facts: []fact.Fact{paid(1, 1, "pro"), credited(10, "issued"), credited(20, "void")},
		want:  []string{active, paidOnce, "cn_1: acme in_1 void 300", keeps}},
	{name: "18 all of it moves with the subscription",
		facts: []fact.Fact{paid(1, 1, "pro"), charge(1, 0), refunded("re_1", 10, "succeeded", 100), credited(11, "issued"), updated(50, "active", "pro", of("sub_1", "umbrella", ""))},
		want: []string{"sub_1: umbrella active pro", "in_1: umbrella paid 1000", "ch_1: umbrella in_1 sub_1 succeeded 100 refunded 100",
			"re_1: umbrella in_1 sub_1 succeeded 100", "cn_1: umbrella in_1 issued 300", "umbrella: active pro 1"}, news: "billing.refund.succeeded"},
	{name: "17 all of it moves with the customer",
		facts: []fact.Fact{paid(1, 1, "pro", oneOff(30*day), of("in_1", "", "")), charge(1, 0), refunded("re_1", 10, "succeeded", 100), linked("cus_1", 20, "acme")},
		want:  []string{paidOnce, "ch_1: acme in_1 succeeded 100 refunded 100", "re_1: acme in_1 succeeded 100", keeps}, news: "billing.refund.succeeded"},
	{name: "bought once",
		facts: []fact.Fact{sale(1, "complete", "unpaid"), sale(20, "complete", "paid"), basil(20, 0)},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme succeeded 100 refunded 0", keeps}, news: "billing.checkout.completed"},
	{name: "bought once, by who names no account",
		facts: []fact.Fact{sale(20, "complete", "paid", func(f *fact.Fact) { f.Checkout.Account = "" }), basil(20, 0), linked("cus_1", 30, "acme")},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme succeeded 100 refunded 0", keeps}, news: "billing.checkout.completed"},
	{name: "bought once, by nobody who is known",
		facts: []fact.Fact{sale(20, "complete", "paid", nobody, func(f *fact.Fact) { f.Checkout.Account = "" }), refunded("re_1", 30, "succeeded", 10)},
		want:  []string{"cs_1: ? complete paid 1000", "ch_1: ? 0 refunded 10", "re_1: ? succeeded 10"}},
	{name: "bought once, and not paid in the end",
		facts: []fact.Fact{sale(1, "complete", "unpaid"), sale(20, "complete", "unpaid")},
		want:  []string{"cs_1: acme complete unpaid 1000", "ch_1: acme 0 refunded 0"}},
	{name: "bought once, and captured later",
		facts: []fact.Fact{sale(1, "complete", "unpaid"), authorised(1), captured(20, 1000), refunded("re_1", 30, "succeeded", 10)},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme succeeded 1000 refunded 10", "re_1: acme succeeded 10", keeps}, news: "billing.checkout.completed billing.refund.succeeded"},
	{name: "bought once, and captured in part",
		facts: []fact.Fact{sale(1, "complete", "unpaid"), authorised(1), captured(20, 600)},
		want:  []string{"cs_1: acme complete paid 600", "ch_1: acme succeeded 600 refunded 0", keeps}, news: "billing.checkout.completed"},
	{name: "bought once, and never captured",
		facts: []fact.Fact{sale(1, "complete", "unpaid"), authorised(1), authorised(40)},
		want:  []string{"cs_1: acme complete unpaid 1000", "ch_1: acme requires_capture 0 refunded 0"}},
	{name: "a part of an open invoice is paid, and refunded",
		facts: []fact.Fact{created(0, "active", "pro"), invoice(1, 1, "open", "pro"), partOf(20, 400), invoice(1, 20, "open", "pro", paidSoFar(400)), refunded("re_1", 30, "succeeded", 400)},
		want:  []string{active, "in_1: acme open 400", "ch_1: acme in_1 sub_1 succeeded 400 refunded 400", "re_1: acme in_1 sub_1 succeeded 400", keeps}, news: "billing.refund.succeeded"},
	{name: "a part of an open invoice is paid, as its payment alone reports",
		facts: []fact.Fact{created(0, "active", "pro"), invoice(1, 1, "open", "pro"), partOf(20, 400)},
		want:  []string{active, "in_1: acme open 400", "ch_1: acme in_1 sub_1 succeeded 400 refunded 0", keeps}},
	{name: "bought once, with an invoice",
		facts: []fact.Fact{sale(20, "complete", "paid", func(f *fact.Fact) { f.Checkout.Invoice = "in_1" }), paid(1, 20, "pro", oneOff(30*day)), refunded("re_1", 30, "succeeded", 1000)},
		want:  []string{paidOnce, "cs_1: acme complete paid 1000", "ch_1: acme in_1 0 refunded 1000", "re_1: acme in_1 succeeded 1000", suspended}, news: "billing.refund.succeeded"},
	{name: "bought once, and refunded in full",
		facts: []fact.Fact{sale(20, "complete", "paid"), basil(20, 0), refunded("re_1", 30, "succeeded", 600), refunded("re_2", 40, "succeeded", 400)},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme succeeded 100 refunded 1000", "re_1: acme succeeded 600", "re_2: acme succeeded 400", suspended},
		news:  "billing.checkout.completed billing.refund.succeeded billing.refund.succeeded"},
	{name: "bought once, and disputed", policy: holds,
		facts: []fact.Fact{sale(20, "complete", "paid"), basil(20, 0), disputed(30, fact.RankCreated, "under_review", withdrawn)},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme succeeded 100 refunded 0", "dp_1: acme under_review 100 txn_1", "task dispute dp_1: acme cancelled", suspended},
		news:  "billing.checkout.completed billing.dispute.under_review"},
	{name: "of two sessions the first links the customer, and so what names no account",
		facts: []fact.Fact{
			sale(10, "complete", "unpaid", by("cs_1", "umbrella")), sale(20, "complete", "paid", by("cs_1", "umbrella")),
			sale(15, "complete", "paid", by("cs_2", "acme"), func(f *fact.Fact) { f.Checkout.Lines = nil }), created(16, "active", "starter", of("sub_1", "", "")),
		},
		want: []string{"sub_1: umbrella active starter", "cs_1: umbrella complete paid 1000", "cs_2: acme complete paid 1000",
			"ch_cs_1: umbrella 0 refunded 0", "ch_cs_2: acme 0 refunded 0", "umbrella: active pro 1", suspended},
		news: "billing.checkout.completed billing.checkout.completed"},
	{name: "bought once, and withheld",
		facts: []fact.Fact{sale(20, "complete", "paid"), changed(decided(fact.Withheld, "cs_1", 25, "pro_720h0m0s", 1), func(f *fact.Fact) { f.Decision.Checkout = "cs_1" })},
		want:  []string{"cs_1: acme complete paid 1000", "ch_1: acme 0 refunded 0", suspended, "task correction cs_1: acme open"}, news: "billing.checkout.completed"},
}

func TestApply_Money_EveryOrder_SameRows(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for _, c := range moneyCases {
		t.Run(c.name, func(t *testing.T) {
			p := policy
			if c.policy != nil {
				c.policy(&p)
			}
			want := slices.Sorted(slices.Values(c.want))
			ordersOfRows(events(c.facts, true), func(delivered []fact.Fact) {
				got, news, to := appliedMoney(t, pool, delivered, p)
				if !slices.Equal(got, want) {
					t.Fatalf("after %s\n got %q\nwant %q", told(delivered), got, want)
				}
				if news != c.news || c.toldTo != "" && to != c.toldTo {
					t.Fatalf("after %s published %q to %q, want %q to %q", told(delivered), news, to, c.news, c.toldTo)
				}
			})
		})
	}
}

// The stored rows equal the rows that are computed from the facts, even if the facts of each object are applied one
// at a time.
func TestCheck_Money_NoDifference(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for _, c := range moneyCases {
		t.Run(c.name, func(t *testing.T) {
			facts := events(c.facts, true)
			slices.Reverse(facts)
			if _, err := pool.Exec(t.Context(), `truncate facts, accounts, subscriptions, invoices, objects, grants, due, tasks, outbox`); err != nil {
				t.Fatal(err)
			}
			deliver(t, pool, facts, at(1000))
			if lines := check(t, pool, billing.Scope{}, at(1000)); len(lines) > 0 {
				t.Errorf("%s\nwhat happened was %s", strings.Join(lines, "\n"), told(facts))
			}
		})
	}
}

// Each partial payment of an open invoice is booked once, with its own time.
func TestApply_PartsOfAnInvoice_SumsAndTimes(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	second := changed(partOf(40, 600), func(f *fact.Fact) { f.Object, f.Payment.Charge = "ch_2", "ch_2" })
	facts := []fact.Fact{
		invoice(1, 1, "open", "pro"), partOf(20, 400), invoice(1, 20, "open", "pro", paidSoFar(400)), second, paid(1, 40, "pro"),
	}
	for name, tt := range map[string]struct {
		order []int
		want  string
	}{
		"in order":                    {[]int{0, 1, 2, 3, 4}, "400@20 1000@40"},
		"the second part comes first": {[]int{0, 3, 1, 2, 4}, "600@40 1000@20"},
		"payments alone":              {[]int{0, 1, 3}, "400@20 1000@40"},
		"snapshots alone":             {[]int{0, 2, 4}, "400@20 1000@40"},
		"payments before the invoice": {[]int{1, 3, 0}, "400@20 1000@40"},
		"paid first":                  {[]int{4, 3, 2, 1, 0}, "1000@40"},
	} {
		var delivered []fact.Fact
		all := events(facts, true)
		for _, n := range tt.order {
			delivered = append(delivered, all[n])
		}
		if got := paidSums(t, pool, delivered); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// paidSums lists the booked sums of the invoice with their times.
func paidSums(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact) string {
	t.Helper()
	var sums []string
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n, f := range facts {
			if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
				return err
			}
		}
		var i fold.Invoice
		if err := tx.QueryRow(t.Context(), `select state from invoices`).Scan(&i); err != nil {
			return err
		}
		for n, sum := range i.PaidSums {
			sums = append(sums, fmt.Sprintf("%d@%.0f", sum, i.PaidTime(n).Sub(at(0)).Seconds()))
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	return strings.Join(sums, " ")
}

// The entry of an invoice has the date of the payment, even if another event is the first to show that the payment
// succeeded.
func TestApply_Payment_EveryOrder_SameTime(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	refundedLater := changed(charge(500, 1000), func(f *fact.Fact) { f.Payment.Amount, f.Payment.CreatedAt = 1000, at(20) })
	laterNews := changed(paid(1, 600, "pro"), func(f *fact.Fact) { f.Invoice.PaidAt = at(20) })
	for name, facts := range map[string][]fact.Fact{
		"a refund of its charge":   {invoice(1, 1, "open", "pro"), refundedLater, paid(1, 20, "pro")},
		"a change of the invoice":  {invoice(1, 1, "open", "pro"), laterNews},
		"its charge, and a refund": {invoice(1, 1, "open", "pro"), refundedLater, changed(charge(20, 0), func(f *fact.Fact) { f.Payment.Amount, f.Payment.PaidAt = 1000, at(20) })},
	} {
		t.Run(name, func(t *testing.T) {
			ordersOfRows(events(facts, true), func(delivered []fact.Fact) {
				if got := paidSums(t, pool, delivered); got != "1000@20" {
					t.Errorf("after %s: %s, want 1000@20", told(delivered), got)
				}
			})
		})
	}
}

// The taxes of partial refunds add up to the tax of the purchase, in every order of delivery.
func TestApply_PartialRefunds_TaxAddsUp(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	facts := events([]fact.Fact{
		paid(1, 1, "pro", taxed), tie(1, "in_1"), refunded("re_1", 10, "succeeded", 333), refunded("re_2", 20, "succeeded", 333),
		refunded("re_3", 30, "succeeded", 334),
	}, true)
	ordersOfRows(facts, func(delivered []fact.Fact) {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for n, f := range delivered {
				if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
					return err
				}
			}
			if got := texts(t, tx, `select sum((state ->> 'Tax')::bigint)::text from objects where kind = 'refund'`); got[0] != "160" {
				t.Errorf("after %s: the taxes add up to %s, want 160", told(delivered), got[0])
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
	})
}

func appliedMoney(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact, p fact.Policy) (lines []string, news, to string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n, f := range facts {
			if _, err := billing.Apply(t.Context(), tx, append([]fact.Fact{f}, fact.LinksOf(f)...), p, fmt.Sprintf("apply:%d", n), at(1000)); err != nil {
				return fmt.Errorf("after %s: %w", told(facts[:n+1]), err)
			}
		}
		lines = moneyRows(t, tx)
		news = strings.Join(texts(t, tx, `select type from outbox where type like 'billing.refund.%' or type like 'billing.dispute.%' or type like 'billing.checkout.%' order by type`), " ")
		to = strings.Join(texts(t, tx, `select distinct account from outbox where type like 'billing.refund.%' or type like 'billing.dispute.%' order by 1`), " ")
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	return lines, news, to
}

func moneyRows(t *testing.T, tx ledger.Tx) []string {
	t.Helper()
	const owner = `coalesce(nullif(account, ''), '?'), nullif(invoice, ''), nullif(subscription, '')`
	lines := slices.Concat(
		texts(t, tx, `select concat_ws(' ', id || ':', account, status, plan) from subscriptions`),
		texts(t, tx, `select concat_ws(' ', id || ':', account, status, amount) from invoices`),
		texts(t, tx, `select concat_ws(' ', id || ':', `+owner+`, nullif(status, ''), amount, 'refunded', refunded) from payments`),
		texts(t, tx, `select concat_ws(' ', id || ':', `+owner+`, status, amount, 'tax ' || (state ->> 'Tax')) from refunds`),
		texts(t, tx, `select concat_ws(' ', id || ':', `+owner+`, status, amount,
			(select string_agg(m ->> 'ID', ',') from jsonb_array_elements(state -> 'Movements') as m)) from disputes`),
		texts(t, tx, `select concat_ws(' ', id || ':', account, invoice, status, amount) from credit_notes`),
		texts(t, tx, `select concat_ws(' ', id || ':', coalesce(nullif(account, ''), '?'), status, payment_status, amount) from checkouts`),
		texts(t, tx, `select concat_ws(' ', 'task', kind, object || ':', nullif(account, ''), state) from tasks where `+asksNow),
		texts(t, tx, `select concat_ws(' ', id || ':', coalesce(nullif(target_state, ''), 'suspended'), nullif(target_plan, ''), case when target_plan <> '' then target_quantity end)
			from accounts a where exists (select from subscriptions s where s.account = a.id) or exists (select from invoices i where i.account = a.id)
			   or exists (select from checkouts c where c.account = a.id and payment_status = 'paid')`),
	)
	slices.Sort(lines)
	return lines
}

// Objects that belong to one payment arrive at many workers concurrently, and refer to the payment in different ways:
// a refund has no customer, and an invoice payment has no charge. No deadlock occurs, all waiting facts are applied,
// and each event is published once.
func TestApply_Money_ManyWorkers_NothingForgotten(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pool := schematest.New(t)
	const purchases = 12
	var facts []fact.Fact
	for n := range purchases {
		of := func(f fact.Fact) {
			rename := func(id *string) {
				if *id != "" {
					*id += fmt.Sprint("_", n)
				}
			}
			rename(&f.Object)
			switch {
			case f.Invoice != nil:
				rename(&f.Invoice.Subscription)
				for i := range f.Invoice.Lines {
					rename(&f.Invoice.Lines[i].Subscription)
				}
			case f.Payment != nil:
				rename(&f.Payment.Invoice)
				rename(&f.Payment.Charge)
			case f.Refund != nil:
				rename(&f.Refund.Charge)
			case f.Dispute != nil:
				rename(&f.Dispute.Charge)
			case f.Credit != nil:
				rename(&f.Credit.Invoice)
			}
			facts = append(facts, f)
		}
		for _, f := range []fact.Fact{
			paid(1, 1, "pro"), basil(1, 0), tie(1, "in_1"), refunded("re_1", 10, "succeeded", 100), refunded("re_1", 20, "failed", 100),
			disputed(30, fact.RankEnd, "lost"), credited(40, "issued"), updated(50, "active", "pro", changeAccount),
		} {
			of(f)
		}
	}
	facts = events(facts, true)
	random := rand.New(rand.NewPCG(3, 3))
	random.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
	queue := make(chan fact.Fact)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for f := range queue {
				if err := applyPatiently(ctx, pool, f); err != nil {
					t.Errorf("apply %s of %s: %v", f.EventID, f.Object, err)
				}
			}
		})
	}
	for _, f := range facts {
		queue <- f
	}
	close(queue)
	workers.Wait()
	for sql, want := range map[string]int{
		`select id from payments where account = 'umbrella' and subscription <> ''`:                   purchases,
		`select id from refunds where account = 'umbrella' and status = 'failed'`:                     purchases,
		`select id from disputes where account = 'umbrella' and status = 'lost'`:                      purchases,
		`select id from credit_notes where account = 'umbrella'`:                                      purchases,
		`select object from tasks where account = 'umbrella' and state = 'cancelled'`:                 purchases,
		`select type from outbox where type in ('billing.refund.succeeded', 'billing.refund.failed')`: 2 * purchases,
		`select type from outbox where type like 'billing.dispute.%'`:                                 purchases,
	} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if got := texts(t, tx, sql); len(got) != want {
				t.Errorf("%s gives %d rows, want %d", sql, len(got), want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// changeAccount moves a subscription to another account.
func changeAccount(f *fact.Fact) { f.Subscription.Account = "umbrella" }

// The cost of computing a payment depends on the payment and not on the number of payments of the account.
func TestApply_Money_OldAccount_ReadsNoMoreRows(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	read := func(renewals int) (rows int) {
		facts := []fact.Fact{paid(1, 1, "pro"), charge(1, 0)}
		for n := range renewals {
			facts = append(facts, paid(n+2, n+2, "pro"), changed(charge(n+2, 0), func(f *fact.Fact) {
				f.Object, f.Payment.Charge, f.Payment.Invoice = fmt.Sprint("ch_", n+2), fmt.Sprint("ch_", n+2), fmt.Sprint("in_", n+2)
			}), changed(refunded(fmt.Sprint("re_", n+2), n+2, "succeeded", 1), func(f *fact.Fact) { f.Refund.Charge = fmt.Sprint("ch_", n+2) }))
		}
		facts = events(append(facts, refunded("re_1", 5000, "succeeded", 10)), false)
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			for _, f := range facts {
				change, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, "apply", at(6000))
				if err != nil {
					return err
				}
				rows = change.Rows
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
		return rows
	}
	young, old := read(0), read(40)
	t.Logf("a refund reads %d rows, of an account with 40 renewals %d", young, old)
	if young > 10 || old > young+24 { // the newest invoices of the subscription
		t.Errorf("a refund reads %d rows, of an account with 40 renewals %d", young, old)
	}
}

// If no event assigns a refund to an account, the refund is listed after a while, until an event assigns it. A refund
// that never succeeded is not listed, because it moved no money.
func TestStore_Unassigned(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	store := billing.New(pool)
	want := func(when string, want billing.Unassigned, longer time.Duration) {
		t.Helper()
		if got, err := store.Unassigned(t.Context(), longer); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", when, got, err, want)
		}
	}
	facts := events([]fact.Fact{
		refunded("re_1", 10, "succeeded", 100), refunded("re_2", 10, "pending", 100), disputed(20, fact.RankCreated, "needs_response", withdrawn),
		changed(credited(30, "issued"), nobody), paid(1, 1, "pro"), tie(1, "in_1"),
	}, false)
	deliver(t, pool, facts[:4], at(100))
	want("at once", billing.Unassigned{}, time.Hour)
	want("after a while", billing.Unassigned{Refunds: 1, Disputes: 1, Credits: 1}, 0)
	deliver(t, pool, facts[4:], at(100))
	want("when it is known", billing.Unassigned{}, 0)
	deliver(t, pool, events([]fact.Fact{changed(basil(40, 0), func(f *fact.Fact) { f.Object, f.Payment.Charge = "ch_2", "ch_2" })}, false), at(100))
	want("a payment, of which nothing tells whether it paid an invoice", billing.Unassigned{Payments: 1}, 0)
	list, err := store.ListUnassigned(t.Context(), "", 0, 10)
	if err != nil || len(list) != 1 || list[0].ID != "ch_2" || list[0].Account != "acme" || list[0].Customer != "cus_1" || list[0].Reason() != "no event shows whether it has paid an invoice" {
		t.Fatalf("listed %+v, %v", list, err)
	}
	deliver(t, pool, events([]fact.Fact{changed(charge(60, 300), func(f *fact.Fact) { f.Object, f.Payment.Charge = "ch_3", "ch_3" })}, false), at(100))
	if list, err := store.ListUnassigned(t.Context(), "live", 0, 10); err != nil || len(list) != 2 || list[1].ID != "ch_3" || list[1].Unexplained != 300 {
		t.Fatalf("listed %+v, %v; want the refund that only its charge reports", list, err)
	}
	deliver(t, pool, events([]fact.Fact{changed(refunded("re_3", 60, "succeeded", 300), func(f *fact.Fact) { f.Refund.Charge = "ch_3" })}, false), at(100))
	assignment, err := store.Assign(t.Context(), list[0], "umbrella", "operator-1", at(50))
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, pool, []fact.Fact{assignment}, at(100))
	want("once it is assigned", billing.Unassigned{}, 0)
	if m, err := store.Money(t.Context(), "live", "ch_2"); err != nil || len(m) != 1 || m[0].Account != "umbrella" || m[0].Unassigned {
		t.Errorf("assigned: %+v, %v", m, err)
	}
}
