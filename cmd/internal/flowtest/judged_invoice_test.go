package flowtest

import (
	"testing"
	"time"
)

// Scenarios about invoices: attempts, payments, uncollectible invoices, and one-time purchases.
func TestJudged_Invoices(t *testing.T) {
	t.Parallel()
	active := subscription("created", 0, "active", items(item("pro", 1)))
	// isActive returns the expected state of an active subscription.
	isActive := func(and ...string) []string {
		return append([]string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1"}, and...)
	}
	pro := lines(line("pro", 2000))
	notFinalized := set("last_finalization_error", payload{"type": "invalid_request_error", "code": "customer_tax_location_invalid"})
	stage{}.judgeBoth(t, []judged{
		{
			name: "past due, and paid before that was told: no notice after a fact was known that makes it untrue; payment.failed (invoice, attempt) is a once effect",
			events: []happening{
				active, bill("paid", 13*aDay, "in_2", pro, set("attempt_count", 2)), subscription("updated", 13*aDay, "active", items(item("pro", 1)), was("status", "past_due")),
				subscription("updated", 10*aDay, "past_due", items(item("pro", 1)), was("status", "active")), attempt(1, 10*aDay, "in_2", pro),
			},
			want:    isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "told billing.payment.failed in_2 1"),
			letters: []string{},
		},
		{
			name: "reminders are cut short by a payment: steps due before it, none after; action required (invoice, attempt)",
			ago:  5 * aDay,
			events: []happening{
				active, attempt(1, 1*aDay, "in_2", pro), attempt(2, 4*aDay, "in_2", pro), bill("paid", 4*aDay+time.Hour, "in_2", pro, set("attempt_count", 3)),
			},
			want: isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2",
				"told billing.payment.failed in_2 1", "told billing.payment.failed in_2 2"),
			letters: []string{"action-required in_2:1"}, // the second attempt is within the same minute
		},
		{
			name: "the second attempt is told before the first: never an attempt older than one told; each is news",
			ago:  2 * aDay,
			events: []happening{
				active, attempt(2, 1*aDay+time.Hour, "in_2", pro), attempt(1, 1*aDay, "in_2", pro),
			},
			want:    isActive("in_2: acme open 0", "told billing.payment.failed in_2 1", "told billing.payment.failed in_2 2"),
			letters: []string{"action-required in_2:2"},
		},
		{
			name: "past due and paid, and no event says that it is active: where they disagree for longer than settle, flagged for reconcile",
			ago:  12 * aDay,
			events: []happening{
				active, subscription("updated", 10*aDay, "past_due", items(item("pro", 1)), was("status", "active")), attempt(1, 10*aDay, "in_2", pro), bill("paid", 11*aDay, "in_2", pro),
			},
			want: []string{"sub_1: acme past_due pro 1", "sub_1 grants pro 1 until 31d", "acme: active pro 1", "in_2: acme paid 2000", "booked payment in_2 2000 usd",
				"mailed receipt-email in_2", "told billing.invoice.paid in_2", "told billing.payment.failed in_2 1"},
			due: []string{"settle sub_1"},
		},
		{
			name: "what is credited and used is invoiced with the end: for no period after the end, no review",
			events: []happening{
				active, ended(10*aDay, items(item("pro", 1))),
				bill("paid", 10*aDay+time.Second, "in_2", lines(line("pro", -1333, prorated, during(10*aDay, aMonth))), set("amount_due", 0), set("amount_paid", 0), set("amount_remaining", 0)),
			},
			want: []string{"sub_1: acme canceled pro 1", "acme: suspended", "in_2: acme paid 0", "told billing.invoice.paid in_2", "told billing.subscription.ended sub_1"},
		},
		{
			name: "one that cannot be finalized, and one that was mended: alert staff; clear on later finalized",
			events: []happening{
				active, bill("created", 1*aDay, "in_2", pro), bill("finalization_failed", 1*aDay+time.Hour, "in_2", pro, notFinalized),
				bill("created", 2*aDay, "in_3", pro), bill("finalization_failed", 2*aDay+time.Hour, "in_3", pro, notFinalized), bill("finalized", 3*aDay, "in_3", pro),
			},
			want: isActive("in_2: acme draft 0", "in_3: acme open 0", "task finalization_failed in_2 open", "task finalization_failed in_3 cancelled"),
		},
		{
			name: "an invoice that is changed after it was paid, and one that was finalized late: status is the highest",
			events: []happening{
				active, bill("paid", 1*aDay, "in_2", pro), bill("updated", 2*aDay, "in_2", pro, set("status", "paid"), set("amount_paid", 2000)), bill("finalized", 1*aDay, "in_2", pro),
			},
			want: isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2"),
		},
		{
			name: "voided after a part was paid: invoice.closed, and an entry for the part; what was not received is not written off",
			events: []happening{
				active, attempt(1, 1*aDay, "in_2", pro, set("amount_paid", 300), set("amount_remaining", 1700)),
				bill("voided", 5*aDay, "in_2", pro, set("amount_paid", 300), set("amount_remaining", 1700)),
			},
			want: isActive("in_2: acme void 300", "booked payment in_2 300 usd", "told billing.invoice.closed in_2", "told billing.payment.failed in_2 1"),
		},
		{
			name: "uncollectible, then paid: paid, one payment, no write-off",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))), subscription("updated", 5*aDay, "past_due", items(item("pro", 1)), was("status", "active")),
				bill("marked_uncollectible", 8*aDay, "in_2", pro), bill("paid", 9*aDay, "in_2", pro), subscription("updated", 9*aDay, "active", items(item("pro", 1)), was("status", "past_due")),
			},
			want: isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "told billing.invoice.closed in_2"),
		},
		{
			name:    "uncollectible after a part was paid, then paid: entries are cash, and come to what was due",
			inOrder: true,
			events: []happening{
				active, bill("marked_uncollectible", 8*aDay, "in_2", pro, set("amount_paid", 300), set("amount_remaining", 1700)), bill("paid", 9*aDay, "in_2", pro),
			},
			want: isActive("in_2: acme paid 2000", "booked payment in_2 300 usd", "booked payment in_2 1700 usd", "mailed receipt-email in_2",
				"told billing.invoice.paid in_2", "told billing.invoice.closed in_2"),
		},
		{
			name:   "paid and voided: review (object), whichever came first",
			events: []happening{active, bill("paid", 1*aDay, "in_2", pro), bill("voided", 2*aDay, "in_2", pro)},
			want: isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2",
				"told billing.invoice.closed in_2", "task review in_2 open"),
		},
		{
			name: "currencies without a minor unit, and taxes on top of the price and in it: amount due, of it tax, currency",
			events: []happening{
				active, bill("paid", 1*aDay, "in_2", pro, set("currency", "jpy")),
				bill("paid", 2*aDay, "in_3", lines(line("pro", 1000)), set("amount_due", 1190), set("amount_paid", 1190), set("total", 1190),
					set("total_taxes", []any{payload{"amount": 140, "tax_behavior": "exclusive"}, payload{"amount": 50, "tax_behavior": "exclusive"}})),
				bill("paid", 3*aDay, "in_4", lines(line("pro", 1190)), set("total_taxes", []any{payload{"amount": 190, "tax_behavior": "inclusive"}})),
			},
			want: isActive("in_2: acme paid 2000", "in_3: acme paid 1190", "in_4: acme paid 1190",
				"booked payment in_2 2000 jpy", "booked payment in_3 1190 usd tax 190", "booked payment in_4 1190 usd tax 190",
				"mailed receipt-email in_2", "mailed receipt-email in_3", "mailed receipt-email in_4", "told billing.invoice.paid in_2", "told billing.invoice.paid in_3", "told billing.invoice.paid in_4"),
		},
		{
			name:   "the first invoice is paid from the credit balance, and no subscription event came: amount due 0; its lines are not 0, so no trial",
			events: []happening{bill("paid", 0, "in_1", pro, first, set("amount_due", 0), set("amount_paid", 0), set("starting_balance", -2000))},
			want:   []string{"sub_1: acme active pro 1", "sub_1 grants pro 1 until 34d", "acme: active pro 1", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
		},
		{
			name:   "two event types for one payment: once",
			events: []happening{active, bill("paid", 1*aDay, "in_2", pro), bill("payment_succeeded", 1*aDay, "in_2", pro), bill("payment_succeeded", 1*aDay, "in_2", pro, twin("b"))},
			want:   isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2"),
		},
		{
			name: "a renewal under send_invoice fails when its due date passes, and is paid late",
			events: []happening{
				active, bill("finalized", 1*aDay, "in_2", pro, set("collection_method", "send_invoice"), set("due_date", at0(8*aDay))),
				bill("overdue", 8*aDay, "in_2", pro, set("collection_method", "send_invoice"), set("due_date", at0(8*aDay))),
				bill("paid", 9*aDay, "in_2", pro, set("collection_method", "send_invoice"), set("due_date", at0(8*aDay))),
			},
			want: isActive("in_2: acme paid 2000", "booked payment in_2 2000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "told billing.payment.failed in_2 0"),
		},
		{
			name:   "deleted ends a draft: never granted, owed or told",
			events: []happening{active, bill("created", 1*aDay, "in_2", pro), bill("deleted", 1*aDay+time.Hour, "in_2", pro)},
			want:   isActive("in_2: acme deleted 0"),
		},
		{
			name: "a first payment that needs the customer, then is made: not the first invoice of a subscription",
			events: []happening{
				subscription("created", 0, "incomplete", items(item("pro", 1))), attempt(1, 0, "in_1", pro, first),
				tell("invoice.payment_action_required", 0, attempt(1, 0, "in_1", pro, first).object),
				bill("paid", time.Minute, "in_1", pro, first), subscription("updated", time.Minute, "active", items(item("pro", 1)), was("status", "incomplete")),
			},
			want:    isActive("in_1: acme paid 2000", "booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"),
			letters: []string{},
		},
		{
			name: "a debt is settled after the end: booked, processed, no review; for a period beyond the end: review paid_after_end",
			events: []happening{
				active, ended(10*aDay, items(item("pro", 1))), bill("paid", 12*aDay, "in_2", lines(line("pro", 500, during(0, 10*aDay)))),
				bill("paid", 13*aDay, "in_3", lines(line("pro", 700, during(9*aDay, 39*aDay)))),
			},
			want: []string{
				"sub_1: acme canceled pro 1", "acme: suspended", "in_2: acme paid 500", "in_3: acme paid 700", "booked payment in_2 500 usd", "booked payment in_3 700 usd",
				"mailed receipt-email in_2", "mailed receipt-email in_3", "told billing.invoice.paid in_2", "told billing.invoice.paid in_3", "told billing.subscription.ended sub_1", "task review in_3 open",
			},
		},
		{
			name: "an invoice is paid, and its subscription expires before it begins: booked, nothing is granted, review paid_after_end",
			events: []happening{
				subscription("created", 0, "incomplete", items(item("pro", 1))), bill("paid", time.Hour, "in_1", pro, first),
				bill("payment_succeeded", time.Hour, "in_1", pro, first, twin("again")),
				subscription("updated", 23*time.Hour, "incomplete_expired", items(item("pro", 1)), was("status", "incomplete"), set("ended_at", at0(23*time.Hour))),
			},
			want: []string{
				"sub_1: acme incomplete_expired pro 1", "acme: suspended", "in_1: acme paid 2000", "booked payment in_1 2000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1", "task review in_1 open",
			},
		},
		{
			name: "a first payment fails, and the subscription expires: nobody is asked",
			events: []happening{
				subscription("created", 0, "incomplete", items(item("pro", 1))), attempt(1, 0, "in_1", pro, first),
				subscription("updated", 23*time.Hour, "incomplete_expired", items(item("pro", 1)), was("status", "incomplete"), set("ended_at", at0(23*time.Hour))),
				bill("voided", 23*time.Hour, "in_1", pro, first, set("attempt_count", 1)),
			},
			want: []string{"sub_1: acme incomplete_expired pro 1", "acme: suspended", "in_1: acme void 0", "told billing.invoice.closed in_1"},
		},
		{
			name:   "lines of another subscription do not count",
			events: []happening{bill("paid", 0, "in_1", lines(line("pro", 2000), line("enterprise", 9000, ofSubscription("sub_2"))))},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1 until 34d", "acme: active pro 1", "in_1: acme paid 11000", "booked payment in_1 11000 usd",
				"mailed receipt-email in_1", "told billing.invoice.paid in_1"},
		},
		{
			name:   "a one-off invoice of a price that is mapped for a time, and one of a price that is not: what their price is mapped to, or nothing",
			ago:    3 * aDay,
			events: []happening{bill("paid", 1*aDay, "in_1", lines(line("week", 1500, soldOnce, during(1*aDay, 1*aDay))), ofNone("acme")), bill("paid", 0, "in_2", lines(line("setup", 900, soldOnce)), ofNone("acme"))},
			want: []string{"acme: active pro 1", "in_1 grants pro 1 until 8d", "in_1: acme paid 1500", "in_2: acme paid 900", "booked payment in_1 1500 usd", "booked payment in_2 900 usd",
				"mailed receipt-email in_1", "mailed receipt-email in_2", "told billing.invoice.paid in_1", "told billing.invoice.paid in_2"},
		},
		{
			name:   "a one-off invoice whose account is known only later: the customer's link; booked once",
			ago:    3 * aDay,
			events: []happening{bill("paid", 0, "in_1", lines(line("week", 1500, soldOnce, during(0, 0))), ofNone("")), customer("updated", 1*aDay, "acme"), bill("payment_succeeded", 0, "in_1", lines(line("week", 1500, soldOnce, during(0, 0))), ofNone(""))},
			want:   []string{"acme: active pro 1", "in_1 grants pro 1 until 7d", "in_1: acme paid 1500", "booked payment in_1 1500 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"},
		},
		{
			name: "a one-off invoice is refunded in full: until refunded in full; they never lower anything",
			ago:  3 * aDay,
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 1))), bill("paid", 0, "in_1", lines(line("week", 1500, soldOnce, during(0, 0))), ofNone("acme")),
				chargeOf(0, "pi_1", 1500), ties(0, "pi_1", "in_1", 1500), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 1500),
			},
			want: []string{"sub_1: acme active starter 1", "sub_1 grants starter 1", "acme: active starter 1", "in_1: acme paid 1500", "pi_1: acme in_1 1500 refunded 1500", "re_1: acme succeeded 1500",
				"booked payment in_1 1500 usd", "booked refund re_1 1500 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1", "told billing.refund.succeeded re_1"},
		},
		{
			name:   "an open invoice that belongs to no subscription gets letters, and takes no access",
			ago:    2 * aDay,
			events: []happening{active, attempt(1, 1*aDay, "in_2", lines(line("setup", 900, soldOnce)), ofNone("acme"))},
			want:   isActive("in_2: acme open 0", "told billing.payment.failed in_2 1"), letters: []string{"action-required in_2:1"},
		},
	})
}
