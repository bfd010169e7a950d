package flowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// boughtPro returns sub_1, its first invoice and the payment.
func boughtPro(more ...happening) []happening {
	return append([]happening{
		subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first),
		chargeOf(0, "pi_1", 1000), ties(0, "pi_1", "in_1", 1000),
	}, more...)
}

// hasPro is the expected state after boughtPro while it grants access; hadPro is the state afterwards.
func hasPro(more ...string) []string { return hadPro(append(more, "sub_1 grants pro 1")...) }

func hadPro(more ...string) []string {
	access := "acme: suspended"
	for _, line := range more {
		if line == "sub_1 grants pro 1" {
			access = "acme: active pro 1"
		}
	}
	return append([]string{
		"sub_1: acme active pro 1", access, "in_1: acme paid 1000", "booked payment in_1 1000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1",
	}, more...)
}

var (
	withdrawn  = moved("txn_1", -1000, 1*aDay)
	reinstated = moved("txn_2", 1000, 8*aDay)
)

// Scenarios about money that moves without changing access.
func TestJudged_Money(t *testing.T) {
	t.Parallel()
	stage{key: true}.judge(t, []judged{
		{
			name:   "refunded in part, then the rest: set, never added; access is kept by default",
			events: boughtPro(refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300), refund("created", 2*aDay, "re_2", "succeeded", "pi_1", 700)),
			want: hasPro("pi_1: acme in_1 1000 refunded 1000", "re_1: acme succeeded 300", "re_2: acme succeeded 700", "booked refund re_1 300 usd", "booked refund re_2 700 usd",
				"told billing.refund.succeeded re_1", "told billing.refund.succeeded re_2"),
		},
		{
			name:   "a refund is pending, then succeeds, then fails: entries refund and refund_reversal, in every order",
			events: boughtPro(refund("created", 1*aDay, "re_1", "pending", "pi_1", 1000), refund("updated", 2*aDay, "re_1", "succeeded", "pi_1", 1000), refund("failed", 5*aDay, "re_1", "failed", "pi_1", 1000)),
			want:   hasPro("re_1: acme failed 1000", "booked refund re_1 1000 usd", "booked refund_reversal re_1 1000 usd", "told billing.refund.succeeded re_1", "told billing.refund.failed re_1"),
		},
		{
			name:   "a refund that never succeeded: nothing to book",
			events: boughtPro(refund("created", 1*aDay, "re_1", "pending", "pi_1", 1000), refund("failed", 2*aDay, "re_1", "failed", "pi_1", 1000)),
			want:   hasPro("re_1: acme failed 1000", "told billing.refund.failed re_1"),
		},
		{
			name:   "a refund waits for the customer, and is canceled: nothing to book",
			events: boughtPro(refund("created", 1*aDay, "re_1", "requires_action", "pi_1", 1000), refund("updated", 2*aDay, "re_1", "canceled", "pi_1", 1000)),
			want:   hasPro("re_1: acme canceled 1000", "told billing.refund.failed re_1"),
		},
		{
			name:   "a refund whose charge nothing tells of: unknown until that is known",
			events: []happening{refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300)},
			want:   []string{"re_1: succeeded 300", "pi_1: 0 refunded 300"},
		},
		{
			keyless: true,
			name:    "a refund by a charge that names its customer alone, whose link comes last: nothing tells what was paid for, and so nothing is told",
			events: []happening{
				chargeOf(0, "pi_1", 1000), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300), customer("updated", 2*aDay, "acme"),
			},
			basil: true,
			want:  []string{"pi_1: acme 1000 refunded 300", "re_1: acme succeeded 300"},
		},
		{
			keyless: true,
			name:    "the same, and the charge tells that it is of no invoice: told once",
			events: []happening{
				chargeOf(0, "pi_1", 1000), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300), customer("updated", 2*aDay, "acme"),
			},
			old:  true,
			want: []string{"pi_1: acme 1000 refunded 300", "re_1: acme succeeded 300", "told billing.refund.succeeded re_1"},
		},
		{
			name: "a dispute is lost, and its funds come back all the same: the money is its balance transactions, whatever the status",
			events: boughtPro(
				dispute("created", 1*aDay, "needs_response", []any{withdrawn}), dispute("funds_withdrawn", 1*aDay, "needs_response", []any{withdrawn}),
				dispute("closed", 5*aDay, "lost", []any{withdrawn}), dispute("funds_reinstated", 8*aDay, "lost", []any{withdrawn, reinstated}),
			),
			want: hasPro("dp_1: acme lost 1000", "booked dispute txn_1 -1000 usd", "booked dispute txn_2 1000 usd", "told billing.dispute.needs_response dp_1", "told billing.dispute.lost dp_1",
				"task dispute dp_1 cancelled"),
		},
		{
			keyless: true,
			name:    "a dispute waits for evidence: its task is open while evidence is due",
			events:  boughtPro(dispute("funds_withdrawn", 1*aDay, "needs_response", []any{withdrawn}), dispute("created", 1*aDay, "needs_response", []any{})),
			want:    hasPro("dp_1: acme needs_response 1000", "booked dispute txn_1 -1000 usd", "told billing.dispute.needs_response dp_1", "task dispute dp_1 open"),
		},
		{
			name: "a dispute is lost, then won after all: won and lost can still turn",
			events: boughtPro(
				dispute("created", 1*aDay, "needs_response", []any{withdrawn}), dispute("closed", 5*aDay, "lost", []any{withdrawn}),
				dispute("updated", 8*aDay, "won", []any{withdrawn}), dispute("funds_reinstated", 8*aDay, "won", []any{withdrawn, reinstated}),
			),
			want: hasPro("dp_1: acme won 1000", "booked dispute txn_1 -1000 usd", "booked dispute txn_2 1000 usd", "told billing.dispute.needs_response dp_1", "told billing.dispute.lost dp_1",
				"told billing.dispute.won dp_1", "task dispute dp_1 cancelled"),
		},
		{
			name:   "an inquiry that is closed: a warning moves no money",
			events: boughtPro(dispute("created", 1*aDay, "warning_needs_response", []any{}), dispute("closed", 5*aDay, "warning_closed", []any{})),
			want:   hasPro("dp_1: acme warning_closed 1000", "told billing.dispute.warning_needs_response dp_1", "told billing.dispute.warning_closed dp_1", "task inquiry dp_1 cancelled"),
		},
		{
			name: "an early fraud warning of a year, which is then refunded in full: its task closes",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 10_000, during(0, 365*aDay))), first),
				ties(0, "pi_1", "in_1", 10_000), suspicion(1 * aDay), refund("created", 2*aDay, "re_1", "succeeded", "pi_1", 10_000),
			},
			basil: true,
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 10000", "booked payment in_1 10000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1", "pi_1: acme in_1 10000 refunded 10000", "re_1: acme succeeded 10000", "booked refund re_1 10000 usd", "told billing.refund.succeeded re_1",
				"task fraud_warning issfr_1 cancelled",
			},
		},
		{
			name:   "a dispute that is prevented moves no money",
			events: boughtPro(dispute("created", 1*aDay, "prevented", []any{}), dispute("closed", 1*aDay, "prevented", []any{})),
			want:   hasPro("dp_1: acme prevented 1000", "told billing.dispute.prevented dp_1", "task dispute dp_1 cancelled"),
		},
		{
			keyless: true,
			name:    "a refund and a lost dispute of an invoice that itself names its charge, before basil; no event of the charge is sent: booked for the account",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				bill("paid", 0, "in_1", lines(line("pro", 1000)), first, set("payment_intent", "pi_1"), set("charge", "ch_pi_1"), set("paid_out_of_band", false)),
				refund("updated", 1*aDay, "re_1", "succeeded", "pi_1", 300), dispute("closed", 5*aDay, "lost", []any{withdrawn}),
			},
			old: true,
			want: hasPro("pi_1: acme in_1 0 refunded 300", "re_1: acme succeeded 300", "dp_1: acme lost 1000", "booked refund re_1 300 usd", "booked dispute txn_1 -1000 usd",
				"told billing.refund.succeeded re_1", "told billing.dispute.lost dp_1", "task dispute dp_1 cancelled"),
		},
		{
			keyless: true,
			name:    "overpaid, and the rest pays a part of the next invoice: entries are cash, of what was paid",
			events: boughtPro(
				bill("paid", 30*aDay, "in_2", lines(line("pro", 4900, during(30*aDay, 60*aDay))), set("amount_paid", 6000), set("amount_remaining", -1100), set("amount_overpaid", 1100)),
				bill("paid", 60*aDay, "in_3", lines(line("pro", 4900, during(60*aDay, 90*aDay))), set("amount_due", 3800), set("amount_paid", 3800),
					set("starting_balance", -1100), set("ending_balance", 0)),
			),
			ago: 61 * aDay,
			want: hasPro("in_2: acme paid 6000", "in_3: acme paid 3800", "booked payment in_2 6000 usd", "booked payment in_3 3800 usd",
				"mailed receipt-email in_2", "mailed receipt-email in_3", "told billing.invoice.paid in_2", "told billing.invoice.paid in_3"),
		},
		{
			keyless: true,
			name:    "paid, and then more than was due: each is booked, once",
			events: boughtPro(
				bill("paid", 1*aDay, "in_2", lines(line("pro", 4900))), bill("paid", 1*aDay, "in_2", lines(line("pro", 4900)), twin("b")),
				tell("invoice.overpaid", 2*aDay, bill("paid", 2*aDay, "in_2", lines(line("pro", 4900)), set("amount_paid", 6000), set("amount_remaining", -1100)).object),
			),
			inOrder: true,
			want:    hasPro("in_2: acme paid 6000", "booked payment in_2 4900 usd", "booked payment in_2 1100 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2"),
		},
		{
			name:   "a credit note before the payment only lowers what is due: what was not received is not written off",
			events: boughtPro(creditNote("created", 0, "issued", 200, 0, set("amount", 200))),
			want:   hasPro("cn_1: acme issued 0"),
		},
		{
			basil: true,
			name:  "a credit note after the payment, of which a refund pays back a part, and voided: credit (credit note) for what is no refund, credit_reversal",
			events: boughtPro(creditNote("created", 1*aDay, "issued", 0, 500, set("refunds", []any{payload{"refund": "re_1", "amount_refunded": 300}})),
				refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300),
				creditNote("voided", 2*aDay, "void", 0, 500, set("refunds", []any{payload{"refund": "re_1", "amount_refunded": 300}}))),
			want: hasPro("cn_1: acme void 200", "re_1: acme succeeded 300", "pi_1: acme in_1 1000 refunded 300", "booked refund re_1 300 usd", "told billing.refund.succeeded re_1",
				"booked credit cn_1 200 usd", "booked credit_reversal cn_1 200 usd"),
		},
		{
			name:   "bought once by a delayed payment: nothing while it is unpaid; order, entry payment (session), letter, once it is paid",
			ago:    4 * aDay,
			events: []happening{sells("completed", 0, "unpaid", "acme"), sells("async_payment_succeeded", 2*aDay, "paid", "acme")},
			want:   []string{"cs_1: acme complete paid 1500", "cs_1 grants pro 1 until 9d", "acme: active pro 1", "booked payment cs_1 1500 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1"},
		},
		{
			name:   "bought once, and the delayed payment fails: nothing",
			events: []happening{sells("completed", 0, "unpaid", "acme"), sells("async_payment_failed", 2*aDay, "unpaid", "acme")},
			want:   []string{"cs_1: acme complete unpaid 1500"},
		},
		{
			name:   "bought once, and refunded in full: grants until refunded in full, whatever the policy says of subscriptions",
			ago:    4 * aDay,
			events: []happening{sells("completed", 0, "paid", "acme"), chargeOf(0, "pi_1", 1500), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 1500)},
			want: []string{"cs_1: acme complete paid 1500", "pi_1: acme 1500 refunded 1500", "re_1: acme succeeded 1500", "booked payment cs_1 1500 usd", "booked refund re_1 1500 usd",
				"mailed order-email cs_1", "told billing.checkout.completed cs_1", "told billing.refund.succeeded re_1"},
		},
		{
			name:   "bought once, and its full refund fails: granted again",
			ago:    4 * aDay,
			events: []happening{sells("completed", 0, "paid", "acme"), chargeOf(0, "pi_1", 1500), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 1500), refund("failed", 2*aDay, "re_1", "failed", "pi_1", 1500)},
			want: []string{"cs_1: acme complete paid 1500", "cs_1 grants pro 1 until 7d", "acme: active pro 1", "re_1: acme failed 1500", "booked payment cs_1 1500 usd", "booked refund re_1 1500 usd",
				"booked refund_reversal re_1 1500 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1", "told billing.refund.succeeded re_1", "told billing.refund.failed re_1"},
		},
		{
			name:   "bought once by a customer whose account is known later: the customer's link; one entry, one letter",
			ago:    4 * aDay,
			events: []happening{sells("completed", 0, "paid", ""), customer("updated", 1*aDay, "acme")},
			want:   []string{"cs_1: acme complete paid 1500", "cs_1 grants pro 1 until 7d", "acme: active pro 1", "booked payment cs_1 1500 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1"},
		},
		{
			name: "bought once, and only the charge tells of its refund: the larger of the sum of its refunds and what its last snapshot says",
			ago:  4 * aDay,
			events: []happening{
				sells("completed", 0, "paid", "acme"), chargeOf(0, "pi_1", 1500),
				tell("charge.refunded", 1*aDay, chargeOf(0, "pi_1", 1500, set("amount_refunded", 1500), set("refunded", true)).object),
			},
			want:  []string{"cs_1: acme complete paid 1500", "pi_1: acme 1500 refunded 1500", "booked payment cs_1 1500 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1"},
			basil: true,
		},
		{
			name: "a charge that carries its refunds, as before 2022-11-15: each is booked, once",
			events: boughtPro(
				tell("charge.refunded", 2*aDay, chargeOf(0, "pi_1", 1000, set("amount_refunded", 1000), set("refunds", list(
					refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300, set("created", at0(1*aDay))).object,
					refund("created", 2*aDay, "re_2", "succeeded", "pi_1", 700, set("created", at0(2*aDay))).object))).object)),
			want: hasPro("pi_1: acme in_1 1000 refunded 1000", "re_1: acme succeeded 300", "re_2: acme succeeded 700", "booked refund re_1 300 usd", "booked refund re_2 700 usd",
				"told billing.refund.succeeded re_1", "told billing.refund.succeeded re_2"),
		},
		{
			name: "a session without a payment and without a price: it only says whose the customer is",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1)), nobodys),
				sells("completed", 1*aDay, "no_payment_required", "acme", set("mode", "setup"), set("amount_total", nil), set("currency", nil), set("payment_intent", nil), set("metadata", payload{})),
			},
			want: []string{"cs_1: acme complete no_payment_required 0", "sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1"},
		},
		{
			name:   "a session that was abandoned, told after it was completed: by rank, terminal absorbing",
			ago:    4 * aDay,
			events: []happening{sells("completed", 0, "paid", "acme"), sells("expired", 0, "unpaid", "acme", set("id", "cs_2"), set("status", "expired"), set("payment_intent", nil))},
			want:   []string{"cs_1: acme complete paid 1500", "cs_2: acme expired unpaid 1500", "cs_1 grants pro 1 until 7d", "acme: active pro 1", "booked payment cs_1 1500 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1"},
		},
	})
}

// Scenarios about policies other than the default: money that changes access, ends and upgrades.
func TestJudged_StrictPolicy(t *testing.T) {
	t.Parallel()
	refunds := []happening{refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300), refund("created", 2*aDay, "re_2", "succeeded", "pi_1", 700)}
	refunded := []string{"pi_1: acme in_1 1000 refunded 1000", "re_1: acme succeeded 300", "re_2: acme succeeded 700", "booked refund re_1 300 usd", "booked refund re_2 700 usd",
		"told billing.refund.succeeded re_1", "told billing.refund.succeeded re_2"}
	stage{tune: func(c *config.Config) {
		c.Policy.FullRefund, c.Policy.Dispute, c.Policy.DisputeLost, c.Policy.OnSubscriptionEnd, c.Policy.GrantPlanOn = "end", "hold", "end", "period_end", "payment"
		c.Policy.ZeroInvoices = "book"
	}}.judgeBoth(t, []judged{
		{
			name: "refunded in part: not in full", events: boughtPro(refunds[0]),
			want: hasPro("pi_1: acme in_1 1000 refunded 300", "re_1: acme succeeded 300", "booked refund re_1 300 usd", "told billing.refund.succeeded re_1"),
		},
		{name: "refunded in part, then the rest: by policy, on a full refund", events: boughtPro(refunds...), want: hadPro(refunded...),
			letters: []string{"access-ended acme:v2"}, subjects: []string{"Your access has ended"}},
		{
			name: "refunded in full, and the next invoice is paid: the newest paid invoice stands", ago: 31 * aDay,
			events: boughtPro(append(refunds, bill("paid", aMonth, "in_2", lines(line("pro", 1000, during(aMonth, 2*aMonth)))),
				chargeOf(aMonth, "pi_2", 1000), ties(aMonth, "pi_2", "in_2", 1000))...),
			untold: []int{7, 8},
			want:   hasPro(append(refunded, "in_2: acme paid 1000", "booked payment in_2 1000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2")...),
		},
		{
			name:   "a full refund fails after all: entries payment, refund, refund_reversal; access by policy",
			events: boughtPro(refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 1000), refund("failed", 3*aDay, "re_1", "failed", "pi_1", 1000)),
			want:   hasPro("re_1: acme failed 1000", "booked refund re_1 1000 usd", "booked refund_reversal re_1 1000 usd", "told billing.refund.succeeded re_1", "told billing.refund.failed re_1"),
		},
		{
			name: "an invoice that two payments have paid, of which one is refunded: not in full", inParts: true,
			keyless: true, // with an API key, pawl books each payment that Stripe lists for the invoice
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first),
				chargeOf(0, "pi_1", 400), ties(0, "pi_1", "in_1", 400), chargeOf(0, "pi_2", 600), ties(0, "pi_2", "in_1", 600), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 400),
			},
			want: hasPro("pi_1: acme in_1 400 refunded 400", "re_1: acme succeeded 400", "booked refund re_1 400 usd", "told billing.refund.succeeded re_1"),
		},
		{
			name:   "an invoice of 0, zero_invoices book: an entry, no receipt",
			events: []happening{subscription("created", 0, "trialing", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 0)), first)},
			want:   []string{"sub_1: acme trialing pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 0", "booked payment in_1 0 usd", "told billing.invoice.paid in_1"},
		},
		{
			name: "a dispute is open: by policy, hold", events: boughtPro(dispute("created", 1*aDay, "under_review", []any{withdrawn})),
			want:    hadPro("dp_1: acme under_review 1000", "booked dispute txn_1 -1000 usd", "told billing.dispute.under_review dp_1", "task dispute dp_1 cancelled"),
			letters: []string{"access-ended acme:v2"},
		},
		{
			name:   "refunded in full, and another subscription grants: nothing is taken, nothing told",
			events: append([]happening{subscription("created", 0, "active", items(item("starter", 1)), called("sub_2"))}, boughtPro(refunds...)...),
			want: append(slices.DeleteFunc(hadPro(refunded...), func(s string) bool { return s == "acme: suspended" }),
				"sub_2: acme active starter 1", "sub_2 grants starter 1", "acme: active starter 1"),
			inOrder: true, letters: []string{},
		},
		{
			name:   "a dispute is won, with its funds told in any order: release",
			events: boughtPro(dispute("created", 1*aDay, "needs_response", []any{withdrawn}), dispute("closed", 8*aDay, "won", []any{withdrawn}), dispute("funds_reinstated", 8*aDay, "won", []any{withdrawn, reinstated})),
			want:   hasPro("dp_1: acme won 1000", "booked dispute txn_1 -1000 usd", "booked dispute txn_2 1000 usd", "told billing.dispute.needs_response dp_1", "told billing.dispute.won dp_1", "task dispute dp_1 cancelled"),
		},
		{
			name:    "a dispute is lost, with its funds told in any order: end, also where the funds come back",
			events:  boughtPro(dispute("created", 1*aDay, "needs_response", []any{withdrawn}), dispute("closed", 5*aDay, "lost", []any{withdrawn}), dispute("funds_reinstated", 8*aDay, "lost", []any{withdrawn, reinstated})),
			want:    hadPro("dp_1: acme lost 1000", "booked dispute txn_1 -1000 usd", "booked dispute txn_2 1000 usd", "told billing.dispute.needs_response dp_1", "told billing.dispute.lost dp_1", "task dispute dp_1 cancelled"),
			letters: []string{"access-ended acme:v2"}, // the lost dispute changes nothing further
		},
		{
			name: "an inquiry is open: no dispute, no hold", events: boughtPro(dispute("created", 1*aDay, "warning_needs_response", []any{})),
			want: hasPro("dp_1: acme warning_needs_response 1000", "told billing.dispute.warning_needs_response dp_1", "task inquiry dp_1 open"),
		},
		{
			name: "bought once, and disputed: held", ago: 4 * aDay,
			events: []happening{sells("completed", 0, "paid", "acme"), chargeOf(0, "pi_1", 1500), dispute("created", 1*aDay, "needs_response", []any{withdrawn})},
			want: []string{"cs_1: acme complete paid 1500", "dp_1: acme needs_response 1000", "booked payment cs_1 1500 usd", "booked dispute txn_1 -1000 usd", "mailed order-email cs_1",
				"told billing.checkout.completed cs_1", "told billing.dispute.needs_response dp_1", "task dispute dp_1 open"},
			letters: []string{"access-ended acme:v2"},
		},
		{
			name:   "ended in the midst of what was paid for, end period_end: until the paid period's end",
			events: []happening{subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first), ended(10*aDay, items(item("pro", 1)))},
			want: []string{"sub_1: acme canceled pro 1", "sub_1 grants pro 1 until 30d", "acme: active pro 1", "in_1: acme paid 1000", "booked payment in_1 1000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1", "told billing.subscription.ended sub_1"},
		},
		{
			name: "an upgrade that is not paid, and more seats that are, grant_plan_on payment: what was paid for",
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 1))), bill("paid", 0, "in_1", lines(line("starter", 1000)), first),
				subscription("updated", 2*aDay, "active", items(item("starter", 4)), was("items", list(item("starter", 1)))),
				bill("paid", 2*aDay+time.Minute, "in_2", lines(line("starter", 2800, prorated, seats(4), during(2*aDay, aMonth))), set("billing_reason", "subscription_update")),
				subscription("updated", 5*aDay, "active", items(item("enterprise", 4)), was("items", list(item("starter", 4)))),
			},
			want: []string{"sub_1: acme active enterprise 4", "sub_1 grants starter 4", "acme: active starter 4", "in_1: acme paid 1000", "in_2: acme paid 2800", "booked payment in_1 1000 usd",
				"booked payment in_2 2800 usd", "mailed receipt-email in_1", "mailed receipt-email in_2", "told billing.invoice.paid in_1", "told billing.invoice.paid in_2"},
			letters: []string{"subscription-changed sub_1:v2"}, // the payment grants the seats
		},
		{
			name: "an upgrade to a plan with onboarding, grant_plan_on payment: told and welcomed on it once it is granted",
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 1))), bill("paid", 0, "in_1", lines(line("starter", 1000)), first),
				subscription("updated", 2*aDay, "active", items(item("enterprise", 1)), was("items", list(item("starter", 1)))),
				bill("paid", 3*aDay, "in_2", lines(line("enterprise", 2800, prorated, during(2*aDay, aMonth))), set("billing_reason", "subscription_update")),
			},
			want: []string{"sub_1: acme active enterprise 1", "sub_1 grants enterprise 1", "acme: active enterprise 1 +audit-log,sso", "in_1: acme paid 1000", "in_2: acme paid 2800", "booked payment in_1 1000 usd",
				"booked payment in_2 2800 usd", "mailed receipt-email in_1", "mailed receipt-email in_2", "told billing.invoice.paid in_1", "told billing.invoice.paid in_2", "task onboarding sub_1:enterprise open"},
			letters: []string{"subscription-changed sub_1:v2"},
		},
	})
}

// A refund, a dispute or a credit note waits for its invoice. The customer is linked to one account, and the
// subscription of the invoice names another account. If the invoice does not arrive within policy.subscription_wait,
// the money belongs to the customer's account.
func TestMoney_OfAnUnknownInvoice_WaitsForItsAccount(t *testing.T) {
	t.Parallel()
	comes := bill("paid", 0, "in_1", lines(line("pro", 1000)), billOf("sub_1", "umbrella"))
	before := []happening{
		customer("updated", 0, "acme"), chargeOf(0, "pi_1", 1000), ties(0, "pi_1", "in_1", 1000), refund("updated", 1*aDay, "re_1", "succeeded", "pi_1", 300),
		creditNote("created", 3*aDay, "issued", 0, 200), dispute("created", 4*aDay, "needs_response", []any{withdrawn}),
		dispute("funds_reinstated", 8*aDay, "won", []any{withdrawn, reinstated}),
	}
	for n, tt := range []struct {
		settle  time.Duration
		invoice bool
		older   bool
		account string
	}{{time.Hour, true, false, "umbrella"}, {time.Hour, true, true, "umbrella"}, {5 * time.Second, false, false, "acme"}, {5 * time.Second, false, true, "acme"}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *config.Config) { c.Policy.SubscriptionWait = tt.settle })
			x := &telling{judged: judged{events: slices.Clone(before)}, tag: fmt.Sprintf("-%s-v%d", uuid.NewString()[:8], n), begin: time.Now().Add(-20 * aDay).Truncate(time.Second), older: tt.older}
			want := []string{"credit cn_1 200 " + tt.account, "dispute txn_1 -1000 " + tt.account, "dispute txn_2 1000 " + tt.account, "refund re_1 300 " + tt.account}
			if tt.invoice {
				x.events = append(x.events, comes)
				want = slices.Insert(want, 3, "payment in_1 1000 "+tt.account)
			}
			for i := range x.events {
				if x.events[i].kind == "invoice_payment.paid" && tt.older {
					continue
				}
				r.come("it has ended", []string{r.deliver(x, i)}, receipt.Processed)
			}
			booked := func() []string {
				return r.sight([]string{`select concat_ws(' ', kind, object, amount, account) from finance_entries order by 1`})[n]
			}
			r.until("all is booked", func() bool { return len(booked()) >= len(want) })
			if got := booked(); !slices.Equal(got, want) {
				t.Errorf("booked %q, want %q", got, want)
			}
			if lines := r.rebuild(); len(lines) > 0 {
				t.Errorf("a rebuild differs: %q", lines)
			}
		})
	}
}

// A person assigns unassigned money to an account. The payment is booked once, with its refunds and disputes.
func TestAssign_UnassignedMoney_BookedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x := &telling{judged: judged{events: []happening{
		// no event has reported the charge of this refund
		refund("updated", 1*aDay, "re_1", "succeeded", "pi_1", 300),
		// a payment of a guest
		chargeOf(0, "pi_2", 1000, set("customer", nil)), refund("updated", 1*aDay, "re_2", "succeeded", "pi_2", 400),
	}}, tag: fmt.Sprintf("-%s-v0", uuid.NewString()[:8]), begin: time.Now().Add(-20 * aDay).Truncate(time.Second)}
	for n := range x.events {
		r.come("it has ended", []string{r.deliver(x, n)}, receipt.Processed)
	}
	listed := func() (ids []string) {
		list, err := billing.New(r.Pool).ListUnassigned(t.Context(), "live", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			ids = append(ids, strings.TrimSuffix(m.ID, x.tag))
		}
		return slices.Sorted(slices.Values(ids))
	}
	if got := listed(); !slices.Equal(got, []string{"pi_2", "re_1", "re_2"}) {
		t.Errorf("unassigned: %q", got)
	}
	for n, id := range []string{"re_1", "pi_2"} {
		p, err := r.operator().Preview(t.Context(), decide.Decision{Verb: money.Assign.Name, Target: x.own(id), Args: decide.Args{Account: x.own("acme")}})
		if err != nil || p.Failed() {
			t.Fatalf("preview of %s: %+v, %v", id, p, err)
		}
		if warns := strings.Contains(p.Warning, "No event of account "+x.own("acme")+" has arrived"); warns != (n == 0) {
			t.Errorf("the preview of %s warns %q; want a warning about the first assignment to a new account alone", id, p.Warning)
		}
		answer := r.says("ada", "assign", x.own(id), "the bank's statement", decide.Args{Account: x.own("acme")})
		if answer.Warning != p.Warning {
			t.Errorf("the assignment of %s warns %q, its preview %q", id, answer.Warning, p.Warning)
		}
	}
	want := []string{"payment pi_2 1000", "refund re_1 300", "refund re_2 400"}
	booked := func() []string {
		return slices.Sorted(slices.Values(r.sight([]string{`select concat_ws(' ', kind, object, amount) from finance_entries where account like 'acme%'`})[0]))
	}
	r.until("all is booked", func() bool { return len(booked()) == len(want) })
	if got := booked(); !slices.Equal(got, want) {
		t.Errorf("booked %q, want %q", got, want)
	}
	if got := listed(); len(got) != 0 {
		t.Errorf("still unassigned: %q", got)
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// The only event of a payment is parked because a step has failed. Preview and answer of the assignment name this event,
// and the money is booked after a retry.
func TestAssign_EventWaitsForAnotherDecision_IsNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		relayed := c.Destinations["relayed"]
		relayed.Sources = []string{"stripe"}
		c.Destinations["relayed"] = relayed
	})
	x := &telling{judged: judged{events: []happening{chargeOf(0, "pi_1", 1000, set("customer", nil))}}, tag: "-" + uuid.NewString()[:8], begin: time.Now().Add(-aDay)}
	r.fault(`{"service":"relayed","status":404,"next":1}`)
	id := r.deliver(x, 0)
	r.come("it is parked", []string{id}, receipt.Dead)
	d := decide.Decision{Verb: money.Assign.Name, Target: x.own("pi_1"), Actor: "ada", Reason: "the bank's statement", Args: decide.Args{Account: x.own("acme")}}
	if p, err := r.operator().Preview(t.Context(), d); err != nil || p.WaitsFor != "a decision about event "+id {
		t.Errorf("the preview is %+v, %v", p, err)
	}
	answer, err := r.operator().Decide(t.Context(), d)
	if err != nil || answer.Result.(*money.AssignResult).WaitsFor != id || !strings.HasSuffix(answer.Message, "which waits for a decision: pawl events show "+id) {
		t.Fatalf("answered %+v, %v", answer, err)
	}
	r.says("ada", event.Retry.Name, id, "it works again", decide.Args{})
	r.until("it is booked", func() bool {
		return len(r.rows(`select account from finance_entries where account = $1`, x.own("acme"))) == 1
	})
}

// An invoice is marked as paid outside of Stripe. Until version 2025-02 of Stripe's API, the invoice itself shows the
// payment outside of Stripe. Since version 2025-03-31.basil, an invoice payment without a charge or a payment intent
// shows it, if an event reports the invoice payment or the API returns it. pawl never publishes an event about a
// charge that it has not received.
func TestJudged_PaidOutside_SaidSo(t *testing.T) {
	t.Parallel()
	byHand := ties(0, "pi_1", "in_1", 2000)
	byHand.object["payment"] = payload{"type": "payment_record", "payment_record": "pr_1"}
	invoice := bill("paid", 0, "in_1", lines(line("pro", 2000)), first)
	active := subscription("created", 0, "active", items(item("pro", 1)))
	outside := bill("paid", 0, "in_1", lines(line("pro", 2000)), first, set("paid_out_of_band", true), set("payment_intent", nil), set("charge", nil))
	all := []happening{active, invoice, byHand}
	for n, tt := range []struct {
		name    string
		events  []happening
		key     bool
		older   bool
		unasked int // only Stripe's API knows the events before this index
		how     string
	}{
		{"up to 2025-02", []happening{active, outside}, false, true, 0, "out_of_band"},
		{"up to 2025-02, the invoice first", []happening{outside, active}, false, true, 0, "out_of_band"},
		{"told before", []happening{byHand, invoice, active}, false, false, 0, "out_of_band"},
		{"told after, or never, and nobody can be asked", []happening{invoice, active, byHand}, false, false, 0, "unknown"},
		{"told after, with a key", []happening{invoice, active, byHand}, true, false, 0, "out_of_band"},
		{"never told, with a key", all, true, false, 1, "out_of_band"},
		{"nobody has recorded it, with a key", []happening{invoice, active}, true, false, 0, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRigWith(t, tt.key, nil)
			x := &telling{judged: judged{events: tt.events}, tag: fmt.Sprintf("-%s-v%d", uuid.NewString()[:8], n), begin: time.Now().Add(-20 * aDay).Truncate(time.Second), older: tt.older}
			if tt.key {
				r.happened(x)
			}
			for i := range tt.events[:len(tt.events)-tt.unasked] {
				r.come("it has ended", []string{r.deliver(x, i)}, receipt.Processed)
			}
			var booked []string
			for _, e := range r.journal("finance") {
				booked = append(booked, fmt.Sprint(e.Body["kind"], " ", e.Body["amount"], " ", e.Body["method"]))
			}
			if want := []string{"payment 2000 " + tt.how}; !slices.Equal(booked, want) {
				t.Errorf("finance has %q, want %q", booked, want)
			}
		})
	}
}

// A guest buys at a Payment Link and gets a partial refund. The session contains no account and no customer. A person
// assigns the session, the payment or the refund to an account. The purchase then belongs to the account like any
// other purchase, and the review is closed.
func TestAssign_GuestAtAPaymentLink_HasThePurchase(t *testing.T) {
	t.Parallel()
	guest := []happening{
		sells("completed", 0, "paid", "", set("customer", nil)), chargeOf(0, "pi_1", 1500, set("customer", nil)),
		refund("updated", 1*aDay, "re_1", "succeeded", "pi_1", 500),
	}
	r := newRig(t, nil)
	ours := uuid.NewString()[:8]
	var all []*telling
	assigned := map[int]string{}
	for n, order := range append(permutations(3), []int{0}, []int{2, 0}) {
		x := &telling{judged: judged{events: guest}, tag: fmt.Sprintf("-%s-v%d", ours, n), begin: time.Now().Add(-4 * aDay).Truncate(time.Second), order: order, older: n%2 == 1}
		assigned[n] = []string{"cs_1", "pi_1", "re_1", "cs_1", "pi_1", "re_1", "cs_1", "re_1"}[n]
		all = append(all, x)
	}
	for n, x := range all {
		for _, i := range x.order {
			r.come("it has ended, or is parked", []string{r.deliver(x, i)}, map[bool]receipt.Status{true: receipt.NeedsReview, false: receipt.Processed}[i == 0])
		}
		list, err := billing.New(r.Pool).ListUnassigned(t.Context(), "live", 0, 10)
		if err != nil || len(list) != min(len(x.order), 2) || slices.ContainsFunc(list, func(m billing.Money) bool { return m.Session != x.own("cs_1") || m.Kind == "payment" }) {
			t.Errorf("%v: unassigned is %+v, %v; want the session with the money of its payment", x.order, list, err)
		}
		d := decide.Decision{Verb: money.Assign.Name, Target: x.own(assigned[n]), Args: decide.Args{Account: x.own("acme")}, Actor: "ada", Reason: "the customer's mail", Request: "once"}
		said := "The review of event evt_0" + x.tag + " is approved with this decision."
		if p, err := r.operator().Preview(t.Context(), d); err != nil || p.Failed() || len(p.Consequences) != 1 || p.Consequences[0].Text != said || p.WaitsFor != "" {
			t.Errorf("%v: the preview of %s is %+v, %v; want %q", x.order, assigned[n], p, err, said)
		}
		answer, err := r.operator().Decide(t.Context(), d)
		if err != nil || !strings.HasSuffix(answer.Message, ", and the review of event evt_0"+x.tag+" is approved; pawl books it within a minute") {
			t.Errorf("%v: assign %s: %+v, %v", x.order, assigned[n], answer, err)
		}
		if n == 0 { // a repeated request changes nothing
			r.come("the review is closed", []string{"evt_0" + x.tag}, receipt.Processed)
			if again, err := r.operator().Decide(t.Context(), d); err != nil || !again.Repeated {
				t.Errorf("again: %+v, %v", again, err)
			}
		}
	}
	whole := []string{"cs_1: acme complete paid 1500", "cs_1 grants pro 1 until 7d", "acme: active pro 1", "booked payment cs_1 1500 usd", "mailed order-email cs_1", "told billing.checkout.completed cs_1"}
	paidBack := []string{"pi_1: acme 1500 refunded 500", "re_1: acme succeeded 500", "booked refund re_1 500 usd", "told billing.refund.succeeded re_1"}
	r.until("all is booked", func() bool {
		return len(r.rows(`select 1 from finance_entries`)) == 2*len(all)-1 && len(r.rows(`select 1 from workspaces`)) == len(all)
	})
	seen := r.sight(judgedSQL)
	for n, x := range all {
		want := whole
		if slices.Contains(x.order, 2) {
			want = slices.Concat(whole, paidBack)
		}
		if len(x.order) == 2 { // no event contains the payment
			want = slices.Concat(whole, []string{"pi_1: acme 0 refunded 500"}, paidBack[1:])
		}
		if diff := differs(x.relative(seen[n]), append(want, "task review cs_1 done")); diff != "" {
			t.Errorf("in order %v, %s was assigned:\n%s", x.order, assigned[n], diff)
		}
	}
	if list, err := billing.New(r.Pool).ListUnassigned(t.Context(), "live", 0, 10); err != nil || len(list) > 0 {
		t.Errorf("still unassigned: %+v, %v", list, err)
	}
	if lines := r.rebuild(); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// The entries of an invoice add up to the received money and to the tax, for all combinations of partial payments,
// order and concurrency of the events.
func TestOverpaid_EveryOrder_AddsUp(t *testing.T) {
	t.Parallel()
	paid := func(sum int) happening {
		return bill("paid", 1*aDay, "in_2", lines(line("pro", 4900)), set("amount_paid", sum), set("total_taxes", []any{payload{"amount": 700}}))
	}
	as := func(kind string, at time.Duration, h happening) happening { return tell(kind, at, h.object) }
	events := []happening{
		paid(4900), as("invoice.payment_succeeded", 1*aDay, paid(4900)), as("invoice.updated", 1*aDay, paid(4900)),
		as("invoice.updated", 2*aDay, paid(5500)), as("invoice.overpaid", 2*aDay, paid(5500)), as("invoice.overpaid", 3*aDay, paid(6000)),
		as("invoice.updated", 3*aDay, paid(6000)),
	}
	r := newRig(t, nil)
	all, ours, orders := map[int][]string{}, uuid.NewString()[:8], schematest.OrLong(6, 24)
	for n := range orders {
		x := &telling{judged: judged{events: events}, tag: fmt.Sprintf("-%s-v%d", ours, n), begin: time.Now().Add(-20 * aDay).Truncate(time.Second)}
		order := rand.New(rand.NewPCG(uint64(n), 23)).Perm(len(events))
		if n == 0 {
			slices.Sort(order)
		}
		for _, i := range order {
			id := r.deliver(x, i)
			if all[n] = append(all[n], id); n < orders/3 {
				r.come("it has ended", []string{id}, receipt.Processed)
			}
		}
	}
	for _, ids := range all {
		slices.Sort(ids)
		r.come("they have ended", ids, receipt.Processed)
	}
	booked := r.sight([]string{`select concat(sum(amount), ' tax ', sum(tax), ' of ', account) from finance_entries where kind = 'payment' group by account`})
	for n, ids := range all {
		if got, want := booked[n], []string{"6000 tax 700 of acme"}; !slices.Equal(got, want) {
			t.Errorf("delivered as %v: booked %q, want %q: %v", ids, got, want, r.rows(`select concat_ws(' ', effect_key, amount) from finance_entries where object like 'in_2%-v'||$1`, fmt.Sprint(n)))
		}
	}
}
