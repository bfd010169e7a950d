package flowtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Scenarios about cash: each movement of money books one entry with its amount, for the account of the customer.
func TestJudged_Cash(t *testing.T) {
	t.Parallel()
	active := subscription("created", 0, "active", items(item("pro", 1)))
	hundred := lines(line("pro", 10000))
	part := func(edits ...edit) happening {
		return bill("updated", 2*aDay, "in_2", hundred, append([]edit{set("amount_paid", 4000), set("amount_remaining", 6000), was("amount_paid", 0), was("amount_remaining", 10000)}, edits...)...)
	}
	taxed := set("total_taxes", []any{payload{"amount": 190, "tax_behavior": "inclusive"}})
	stage{key: true}.judge(t, []judged{
		{
			name: "a part of an open invoice is paid, and refunded later", basil: true, storm: true,
			events: []happening{
				active, bill("finalized", 1*aDay, "in_2", hundred), chargeOf(2*aDay, "pi_2", 4000), ties(2*aDay, "pi_2", "in_2", 4000), part(),
				refund("created", 10*aDay, "re_2", "succeeded", "pi_2", 4000),
			},
			want: isOnPro("in_2: acme open 4000", "pi_2: acme in_2 4000 refunded 4000", "re_2: acme succeeded 4000", "booked payment in_2 4000 usd",
				"booked refund re_2 4000 usd", "told billing.refund.succeeded re_2"),
			sums: []string{"acme usd 0 tax 0"},
		},
		{
			name: "a part of an open invoice is paid, and the refund asks Stripe for the invoice first", basil: true, inOrder: true,
			events: []happening{
				active, bill("finalized", 1*aDay, "in_2", hundred), chargeOf(2*aDay, "pi_2", 4000),
				refund("created", 10*aDay, "re_2", "succeeded", "pi_2", 4000), ties(2*aDay, "pi_2", "in_2", 4000), part(),
			},
			want: isOnPro("in_2: acme open 4000", "pi_2: acme in_2 4000 refunded 4000", "re_2: acme succeeded 4000", "booked payment in_2 4000 usd",
				"booked refund re_2 4000 usd", "told billing.refund.succeeded re_2"),
			sums: []string{"acme usd 0 tax 0"},
		},
		{
			name: "a part of an open invoice is paid, as the invoice alone reports", storm: true,
			events: []happening{active, bill("finalized", 1*aDay, "in_2", hundred), part()},
			want:   isOnPro("in_2: acme open 4000", "booked payment in_2 4000 usd"),
		},
		{
			name: "three payments of one invoice: each is booked once", basil: true, storm: true, inParts: true,
			events: []happening{
				active, bill("finalized", 1*aDay, "in_2", hundred), ties(2*aDay, "pi_2", "in_2", 4000), ties(3*aDay, "pi_3", "in_2", 3500), ties(4*aDay, "pi_4", "in_2", 2500),
				bill("paid", 4*aDay, "in_2", hundred),
			},
			want: isOnPro("in_2: acme paid 10000", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "booked payment in_2 4000 usd", "booked payment in_2 3500 usd",
				"booked payment in_2 2500 usd"),
			sums: []string{"acme usd 10000 tax 0"},
		},
		{
			name: "invoice.updated is the only event that reports a renewal as paid", storm: true,
			events: []happening{active, bill("created", 1*aDay, "in_2", hundred), bill("updated", 1*aDay+time.Hour, "in_2", hundred, set("status", "paid"), set("amount_paid", 10000),
				set("amount_remaining", 0), was("status", "open"))},
			want: isOnPro("in_2: acme paid 10000", "booked payment in_2 10000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2"),
		},
		{
			name: "three refunds of an invoice with inclusive tax: their tax adds up", storm: true,
			events: []happening{
				active, bill("paid", 1*aDay, "in_2", lines(line("pro", 1190)), taxed), chargeOf(1*aDay, "pi_2", 1190), ties(1*aDay, "pi_2", "in_2", 1190),
				refund("created", 2*aDay, "re_1", "succeeded", "pi_2", 333), refund("created", 3*aDay, "re_2", "succeeded", "pi_2", 333),
				refund("created", 4*aDay, "re_3", "succeeded", "pi_2", 524),
			},
			sums: []string{"acme usd 0 tax 0"},
		},
		{
			name: "a second subscription, its invoice and a session of a customer whose first subscription names the account", storm: true, ago: 4 * aDay,
			events: []happening{
				active, subscription("created", 1*aDay, "active", items(item("pro", 2)), called("sub_2"), nobodys),
				bill("paid", 1*aDay, "in_2", lines(line("pro", 4000, seats(2), ofSubscription("sub_2"))), first, billOf("sub_2", "")), sells("completed", 2*aDay, "paid", ""),
			},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "sub_2: acme active pro 2", "sub_2 grants pro 2", "cs_1 grants pro 1 until 9d", "acme: active pro 4",
				"in_2: acme paid 4000", "cs_1: acme complete paid 1500", "booked payment in_2 4000 usd", "booked payment cs_1 1500 usd", "mailed receipt-email in_2",
				"mailed order-email cs_1", "told billing.invoice.paid in_2", "told billing.checkout.completed cs_1"},
		},
		{
			name: "a customer with an open invoice is deleted: no letter afterwards", storm: true, ago: 12 * aDay,
			events: []happening{
				customer("created", 0, "acme"), active, attempt(1, 5*aDay-time.Hour, "in_2", hundred), customer("deleted", 5*aDay, "acme"), ended(5*aDay, items(item("pro", 1))),
			},
			want:    []string{"sub_1: acme canceled pro 1", "acme: suspended", "in_2: acme open 0", "told billing.payment.failed in_2 1", "told billing.subscription.ended sub_1"},
			letters: []string{"action-required in_2:1"},
		},
	})
}

// With an API key, each payment of an invoice has an entry with its own settlement in every order of delivery, even
// if the first event reports the sum of several payments.
func TestJudged_Cash_InParts_WithKey(t *testing.T) {
	t.Parallel()
	active := subscription("created", 0, "active", items(item("pro", 1)))
	hundred := lines(line("pro", 10000))
	open := func(at time.Duration, sum int) happening {
		return bill("updated", at, "in_2", hundred, set("amount_paid", sum), set("amount_remaining", 10000-sum))
	}
	end := isOnPro("in_2: acme paid 10000", "mailed receipt-email in_2", "told billing.invoice.paid in_2")
	stage{key: true}.judge(t, []judged{
		{
			name: "two payments of one invoice", basil: true, storm: true,
			events: []happening{
				active, bill("finalized", 1*aDay, "in_2", hundred), chargeOf(2*aDay, "pi_2", 4000), ties(2*aDay, "pi_2", "in_2", 4000), open(2*aDay, 4000),
				chargeOf(3*aDay, "pi_3", 6000), ties(3*aDay, "pi_3", "in_2", 6000), bill("paid", 3*aDay, "in_2", hundred),
			},
			want: append(end[:len(end):len(end)], "booked payment in_2 4000 usd", "booked payment in_2 6000 usd"), sums: []string{"acme usd 10000 tax 0"},
		},
		{
			name: "three payments of one invoice, two of them equal, of which one is refunded", basil: true, storm: true,
			events: []happening{
				active, chargeOf(2*aDay, "pi_2", 3000), ties(2*aDay, "pi_2", "in_2", 3000), open(2*aDay, 3000), chargeOf(3*aDay, "pi_3", 3000),
				ties(3*aDay, "pi_3", "in_2", 3000), open(3*aDay, 6000), chargeOf(4*aDay, "pi_4", 4000), ties(4*aDay, "pi_4", "in_2", 4000), bill("paid", 4*aDay, "in_2", hundred),
				refund("created", 5*aDay, "re_2", "succeeded", "pi_3", 3000), refundedCharge(5*aDay, "pi_3", 3000, 3000),
			},
			want: append(end[:len(end):len(end)], "booked payment in_2 3000 usd", "booked payment in_2 3000 usd", "booked payment in_2 4000 usd", "booked refund re_2 3000 usd",
				"pi_3: acme in_2 3000 refunded 3000", "re_2: acme succeeded 3000", "told billing.refund.succeeded re_2"), sums: []string{"acme usd 7000 tax 0"},
		},
		{
			name: "only events of the invoice arrive, and Stripe shows its payments", basil: true, storm: true, untold: []int{1, 2, 3, 4},
			events: []happening{
				active, chargeOf(2*aDay, "pi_2", 4000), ties(2*aDay, "pi_2", "in_2", 4000), chargeOf(3*aDay, "pi_3", 6000), ties(3*aDay, "pi_3", "in_2", 6000),
				bill("finalized", 1*aDay, "in_2", hundred), bill("paid", 3*aDay, "in_2", hundred),
			},
			want: append(end[:len(end):len(end)], "booked payment in_2 4000 usd", "booked payment in_2 6000 usd"), sums: []string{"acme usd 10000 tax 0"},
		},
	})
}

// A payment without an invoice or a session belongs to the account of its customer. The payment is booked with its
// refund and its dispute after policy.subscription_wait, if its charge shows that it paid no invoice.
func TestJudged_Cash_OfNeither(t *testing.T) {
	t.Parallel()
	paid := tell("payment_intent.succeeded", 1*aDay, payload{"id": "pi_1", "object": "payment_intent", "amount": 700, "amount_received": 700, "currency": "usd",
		"customer": "cus_1", "latest_charge": "ch_pi_1", "status": "succeeded", "metadata": payload{}})
	linked := []happening{
		customer("updated", 0, "acme"), chargeOf(0, "pi_1", 1000), refund("updated", 1*aDay, "re_1", "succeeded", "pi_1", 300),
		dispute("created", 2*aDay, "needs_response", []any{withdrawn}),
	}
	known := []string{"pi_1: acme 1000 refunded 300", "re_1: acme succeeded 300", "dp_1: acme needs_response 1000", "task dispute dp_1 open"}
	stage{then: settlePasses}.judge(t, []judged{
		{
			name: "paid through the API by a customer whose subscription names the account, and refunded in part", old: true, storm: true,
			events: []happening{subscription("created", 0, "active", items(item("pro", 1))), chargeOf(1*aDay, "pi_1", 700), paid, refund("created", 2*aDay, "re_1", "succeeded", "pi_1", 200)},
			want:   isOnPro("pi_1: acme 700 refunded 200", "re_1: acme succeeded 200", "booked payment pi_1 700 usd", "booked refund re_1 200 usd", "told billing.refund.succeeded re_1"),
			sums:   []string{"acme usd 500 tax 0"},
		},
		{
			name: "the same, refunded in full, which only its charge reports", old: true, storm: true,
			events: []happening{subscription("created", 0, "active", items(item("pro", 1))), chargeOf(1*aDay, "pi_1", 700), paid, refundedCharge(2*aDay, "pi_1", 700, 700)},
			want:   isOnPro("pi_1: acme 700 refunded 700", "ch_pi_1:1: acme succeeded 700", "booked payment pi_1 700 usd", "booked refund ch_pi_1:1 700 usd", "told billing.refund.succeeded ch_pi_1:1"),
			sums:   []string{"acme usd 0 tax 0"},
		},
		{
			name: "paid by a linked customer, refunded in part and disputed", old: true, storm: true, events: linked,
			want: append(known[:4:4], "booked payment pi_1 1000 usd", "booked refund re_1 300 usd", "booked dispute txn_1 -1000 usd", "told billing.refund.succeeded re_1", "told billing.dispute.needs_response dp_1"),
			sums: []string{"acme usd -300 tax 0"},
		},
		{
			name: "the same, and nothing reports what it paid for: a person assigns it", basil: true, storm: true, events: linked,
			want: known, sums: []string{}, due: []string{},
		},
	})
}

// refundedCharge returns a charge with the refunded total.
func refundedCharge(at time.Duration, payment string, amount, sum int) happening {
	return tell("charge.refunded", at, chargeOf(at, payment, amount, set("amount_refunded", sum), set("refunded", sum == amount)).object)
}

// isOnPro returns the expected state of an active subscription with one seat of pro.
func isOnPro(and ...string) []string {
	return append([]string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1"}, and...)
}

// The workspace API refuses a purchase. pawl compensates the purchase, and the refund of the purchase brings the cash
// to 0.
func TestJudged_Cash_CompensatedAndRefunded_Zero(t *testing.T) {
	t.Parallel()
	refuses := func(r *rig) { r.fault(`{"service":"workspaces","status":402,"plan":"pro","next":1000}`) }
	stage{prepare: refuses}.judgeBoth(t, []judged{
		{
			name: "a purchase is refused, taken back and refunded", storm: true, ago: 4 * aDay, sums: []string{"acme usd 0 tax 0"},
			events: []happening{sells("completed", 0, "paid", "acme"), chargeOf(0, "pi_1", 1500), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 1500)},
		},
		{
			name: "a first invoice is refused, taken back and refunded", storm: true, sums: []string{"acme usd 0 tax 0"},
			events: boughtPro(refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 1000)),
		},
	})
}

// Lists that an event truncates. With an API key, pawl fetches the remaining items.
func TestJudged_CutLists(t *testing.T) {
	t.Parallel()
	stage{key: true, tune: soldForDays}.judge(t, []judged{
		{
			name: "a subscription of twelve items: all count", storm: true, cut: firstItems,
			events: []happening{
				subscription("created", 0, "active", manyItems()), subscription("updated", aDay, "active", manyItems(), set("cancel_at", at0(25*aDay)), was("cancel_at", nil)),
			},
			want: []string{"sub_1: acme active pro 3", "sub_1 grants pro 3 audit-log,sso until 25d", "acme: active pro 3 +audit-log,sso"},
		},
		{
			name: "a Payment Link with a quantity of three: three seats", storm: true, ago: 4 * aDay, cut: func(h *happening) { delete(h.object, "line_items") },
			events: []happening{
				sells("completed", 0, "unpaid", "acme", set("metadata", payload{}), ofThree), sells("async_payment_succeeded", aDay, "paid", "acme", set("metadata", payload{}), ofThree),
			},
			want: []string{"cs_1: acme complete paid 1500", "cs_1 grants pro 3 until 3651d", "acme: active pro 3", "booked payment cs_1 1500 usd", "mailed order-email cs_1",
				"told billing.checkout.completed cs_1"},
		},
		{
			name: "a Payment Link with a quantity of three, captured later: three seats", ago: 4 * aDay, cut: func(h *happening) { delete(h.object, "line_items") },
			events: []happening{
				sells("completed", 0, "unpaid", "acme", set("metadata", payload{}), ofThree),
				tell("payment_intent.succeeded", aDay, payload{"id": "pi_1", "object": "payment_intent", "amount": 1500, "amount_received": 1500, "currency": "usd",
					"customer": "cus_1", "status": "succeeded", "capture_method": "manual", "latest_charge": "ch_1"}),
			},
			want: []string{"cs_1: acme complete paid 1500", "cs_1 grants pro 3 until 3651d", "acme: active pro 3", "booked payment cs_1 1500 usd", "mailed order-email cs_1",
				"told billing.checkout.completed cs_1"},
		},
	})
}

// manyItems returns twelve items of a subscription: first three seats of pro, last the audit log.
func manyItems() []any {
	all := items(item("pro", 3))
	for n := range 10 {
		all = append(all, item("sso", 1, func(i payload) { i["id"] = fmt.Sprintf("si_sso%d", n) }))
	}
	return append(all, item("audit", 1, func(i payload) { i["id"] = "si_zaudit" }))
}

// firstItems keeps only the first ten items in an event.
func firstItems(h *happening) {
	all := h.object["items"].(payload)
	h.object["items"] = payload{"object": "list", "data": all["data"].([]any)[:10], "has_more": true}
}

// soldForDays maps the prices of the scenarios to plans.
func soldForDays(c *config.Config) {
	c.Plans.Prices["price_sso"] = config.Price{Adds: []string{"sso"}}
	c.Plans.Prices["price_week"] = config.Price{Plan: "pro", For: 10 * 365 * aDay}
}

// ofThree sets the quantity of a session to three units of price_week.
var ofThree = set("line_items", list(payload{
	"id": "li_1", "object": "item", "quantity": 3, "amount_total": 1500, "currency": "usd", "price": payload{"id": "price_week", "object": "price", "product": "prod_week"},
}))
