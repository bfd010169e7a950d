package flowtest

import (
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Scenarios about the money behind access: refunds and disputes that revoke access, and payments that grant it.
func TestJudged_PaidAccess(t *testing.T) {
	t.Parallel()
	starter, proForTheRest := lines(line("starter", 1000)), line("pro", 1333, prorated, during(10*aDay, aMonth))
	upgraded := []happening{
		subscription("created", 0, "active", items(item("starter", 1))), bill("paid", 0, "in_1", starter, first),
		subscription("updated", 10*aDay, "active", items(item("pro", 1)), was("items", list(item("starter", 1)))),
	}
	upgrade := func(event string, edits ...edit) happening {
		return bill(event, 10*aDay, "in_2", lines(proForTheRest), append([]edit{set("billing_reason", "subscription_update")}, edits...)...)
	}
	discounted := func(h *happening) {
		h.object["status"], h.object["amount_due"], h.object["amount_paid"], h.object["amount_remaining"], h.object["total"] = "paid", 0, 0, 0, 0
	}
	hasStarter := []string{"in_1: acme paid 1000", "booked payment in_1 1000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"}
	has := func(plan string, more ...string) []string {
		return append(append([]string{"sub_1: acme active pro 1", "sub_1 grants " + plan + " 1", "acme: active " + plan + " 1"}, hasStarter...), more...)
	}
	stage{tune: func(c *config.Config) {
		c.Policy.FullRefund, c.Policy.Dispute, c.Policy.GrantPlanOn = "end", "hold", "payment"
		c.Plans.Prices["price_week"] = config.Price{Plan: "pro", For: 7 * aDay}
	}}.judgeBoth(t, []judged{
		{
			name: "an upgrade is paid, and refunded in full: the smaller plan, whose month is paid, stays, and each change is told",
			events: append(upgraded[:3:3], upgrade("paid"), chargeOf(10*aDay, "pi_2", 1333), ties(10*aDay, "pi_2", "in_2", 1333),
				refund("created", 11*aDay, "re_2", "succeeded", "pi_2", 1333), chargeOf(0, "pi_1", 1000), ties(0, "pi_1", "in_1", 1000)), untold: []int{7, 8},
			want: has("starter", "in_2: acme paid 1333", "booked payment in_2 1333 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "pi_2: acme in_2 1333 refunded 1333",
				"re_2: acme succeeded 1333", "booked refund re_2 1333 usd", "told billing.refund.succeeded re_2"),
			letters: []string{"subscription-changed sub_1:v2", "subscription-changed sub_1:v3"},
		},
		{
			name: "a dispute of a month that is over: the paid month stays", ago: 41 * aDay, storm: true,
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first), chargeOf(0, "pi_1", 1000), ties(0, "pi_1", "in_1", 1000),
				bill("paid", aMonth, "in_2", lines(line("pro", 1000, during(aMonth, 2*aMonth)))), dispute("created", 40*aDay, "under_review", []any{moved("txn_1", -1000, 40*aDay)}),
				chargeOf(aMonth, "pi_2", 1000), ties(aMonth, "pi_2", "in_2", 1000),
			},
			untold: []int{6, 7},
			want: has("pro", "in_2: acme paid 1000", "booked payment in_2 1000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "dp_1: acme under_review 1000",
				"booked dispute txn_1 -1000 usd", "told billing.dispute.under_review dp_1", "task dispute dp_1 cancelled"),
			letters: []string{},
		},
		{
			name: "an upgrade that a coupon pays in full: granted and told once, by the first event that shows it as paid", storm: true,
			events:  append(upgraded[:3:3], upgrade("finalized", discounted), upgrade("paid", discounted)),
			want:    has("pro", "in_2: acme paid 0", "told billing.invoice.paid in_2"),
			letters: []string{"subscription-changed sub_1:v2"},
		},
		{
			name: "an upgrade that the renewal pays: granted and told once", ago: 32 * aDay, storm: true,
			events:  append(upgraded[:3:3], bill("paid", aMonth, "in_2", lines(line("pro", 2000, during(aMonth, 2*aMonth))))),
			want:    has("pro", "in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2"),
			letters: []string{"subscription-changed sub_1:v2"},
		},
		{
			name:   "an upgrade that the customer's balance pays: granted and told once",
			storm:  true,
			events: append(upgraded[:3:3], upgrade("paid", discounted, set("total", 1333), set("starting_balance", -1333), set("ending_balance", 0))),
			want:   has("pro", "in_2: acme paid 0", "booked payment in_2 0 usd", "told billing.invoice.paid in_2"), letters: []string{"subscription-changed sub_1:v2"},
		},
		{
			name: "an upgrade whose invoice is voided: never granted", storm: true, never: "enterprise",
			events: append(upgraded[:2:2], subscription("updated", 10*aDay, "active", items(item("enterprise", 1)), was("items", list(item("starter", 1)))),
				bill("voided", 11*aDay, "in_2", lines(line("enterprise", 1333, prorated, during(10*aDay, aMonth))), set("billing_reason", "subscription_update"))),
			want:    append([]string{"sub_1: acme active enterprise 1", "sub_1 grants starter 1", "acme: active starter 1", "in_2: acme void 0", "told billing.invoice.closed in_2"}, hasStarter...),
			letters: []string{},
		},
		{
			name: "a trial of starter becomes a trial of pro: pro is tried", storm: true,
			events: []happening{
				subscription("created", 0, "trialing", items(item("starter", 1)), set("trial_end", at0(28*aDay))), bill("paid", 0, "in_1", lines(line("starter", 0)), first),
				subscription("updated", 3*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(28*aDay)), was("items", list(item("starter", 1)))),
			},
			want: []string{"sub_1: acme trialing pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
		},
		{
			name: "the only item is metered: one seat", storm: true,
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 0, metered))), subscription("updated", aDay, "active", items(item("pro", 0, metered)), set("cancel_at", at0(25*aDay)), was("cancel_at", nil)),
			},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1 until 25d", "acme: active pro 1"},
		},
		{
			name: "an upgrade that waits for its payment as a pending update: told once", storm: true,
			events: append(upgraded[:2:2], upgrade("paid"),
				subscription("pending_update_applied", 10*aDay, "active", items(item("pro", 1))),
				subscription("updated", 10*aDay, "active", items(item("pro", 1)), was("items", list(item("starter", 1))))),
			want:    has("pro", "in_2: acme paid 1333", "booked payment in_2 1333 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2"),
			letters: []string{"subscription-changed sub_1:v2"},
		},
		{
			name: "a pending update whose payment does not come expires: nothing changes", storm: true, never: "pro",
			events: append(upgraded[:2:2], upgrade("voided"), subscription("pending_update_expired", 11*aDay, "active", items(item("starter", 1)))),
			want:   append([]string{"sub_1: acme active starter 1", "sub_1 grants starter 1", "acme: active starter 1", "in_2: acme void 0", "told billing.invoice.closed in_2"}, hasStarter...), letters: []string{},
		},
		{
			name: "a one-off invoice and a session of a customer whose subscription names the account", ago: 4 * aDay, storm: true,
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 1))), bill("paid", 1*aDay, "in_1", lines(line("fees", 500, soldOnce)), ofNone("")),
				sells("completed", 2*aDay, "paid", ""),
			},
			want: []string{"sub_1: acme active starter 1", "sub_1 grants starter 1", "cs_1 grants pro 1 until 9d", "acme: active pro 1", "in_1: acme paid 500", "cs_1: acme complete paid 1500",
				"booked payment in_1 500 usd", "booked payment cs_1 1500 usd", "mailed receipt-email in_1", "mailed order-email cs_1", "told billing.invoice.paid in_1", "told billing.checkout.completed cs_1"},
		},
		{
			name: "a week is bought, and again on day 4: access until day 11", ago: 9 * aDay, storm: true,
			events: []happening{sells("completed", 0, "paid", "acme"), sells("completed", 4*aDay, "paid", "acme", called("cs_2"), set("payment_intent", "pi_2"))},
			want: []string{"cs_1: acme complete paid 1500", "cs_2: acme complete paid 1500", "cs_1 grants pro 1 until 7d", "cs_2 grants pro 1 until 11d", "acme: active pro 1",
				"booked payment cs_1 1500 usd", "booked payment cs_2 1500 usd", "mailed order-email cs_1", "mailed order-email cs_2", "told billing.checkout.completed cs_1", "told billing.checkout.completed cs_2"},
		},
		{
			name:    "a one-off invoice is never paid, and no event shows that its due date has passed: the newest reminder",
			events:  []happening{bill("finalized", 0, "in_1", lines(line("fees", 500, soldOnce)), ofNone("acme"), set("due_date", at0(5*aDay)), set("collection_method", "send_invoice"))},
			want:    []string{"in_1: acme open 0"},
			letters: []string{"dunning in_1:4"},
		},
	})
}

// Scenarios with policy.on_subscription_end: period_end, which extends access until the end of the paid period.
func TestJudged_PaidUntilTheEnd(t *testing.T) {
	t.Parallel()
	month := []happening{subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first)}
	paid := []string{"in_1: acme paid 1000", "booked payment in_1 1000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1", "told billing.subscription.ended sub_1", "sub_1: acme canceled pro 1"}
	stage{key: true, tune: func(c *config.Config) { c.Policy.OnSubscriptionEnd = "period_end" }}.judge(t, []judged{
		{
			name: "cancelled on day 2 with a full refund: nothing is paid for",
			events: append(month[:2:2], ended(2*aDay, items(item("pro", 1))), chargeOf(0, "pi_1", 1000), ties(0, "pi_1", "in_1", 1000),
				refund("created", 2*aDay, "re_1", "succeeded", "pi_1", 1000)),
			want: append(paid[:len(paid):len(paid)], "acme: suspended", "pi_1: acme in_1 1000 refunded 1000", "re_1: acme succeeded 1000", "booked refund re_1 1000 usd", "told billing.refund.succeeded re_1"),
			sums: []string{"acme usd 0 tax 0"},
		},
		{
			name: "a trial is cancelled on day 3: nothing is paid for", storm: true,
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(28*aDay))), bill("paid", 0, "in_1", lines(line("pro", 0)), first),
				ended(3*aDay, items(item("pro", 1)), set("trial_end", at0(28*aDay))),
			},
			want: []string{"sub_1: acme canceled pro 1", "acme: suspended", "in_1: acme paid 0", "told billing.invoice.paid in_1", "told billing.subscription.ended sub_1"},
		},
		{
			name: "a yearly subscription replaces a monthly one, which ends at once: one seat", storm: true,
			events: append(month[:2:2], subscription("created", 10*aDay, "active", items(item("pro_yearly", 1, during(10*aDay, 375*aDay))), called("sub_2")),
				ended(10*aDay, items(item("pro", 1)))),
			want: append(paid[:len(paid):len(paid)], "sub_1 grants pro 1 until 30d", "sub_2: acme active pro 1", "sub_2 grants pro 1", "acme: active pro 1"),
		},
	})
}

// metered makes an item billed by usage.
func metered(i payload) {
	i["price"].(payload)["recurring"] = payload{"interval": "month", "usage_type": "metered"}
	delete(i, "quantity")
}
