package flowtest

import (
	"testing"
	"time"
)

// Scenarios about the account of an object, about modes and connected accounts, and about missing or late deliveries.
func TestJudged_Accounts(t *testing.T) {
	t.Parallel()
	pro := lines(line("pro", 2000))
	week := func(id string, edits ...edit) happening {
		return bill("paid", 0, id, lines(line("week", 1500, soldOnce, during(0, 0))), append([]edit{ofNone("")}, edits...)...)
	}
	stage{}.judgeBoth(t, []judged{
		{
			name: "a session names another account than its subscription does: its own metadata.account, before the session; the session links the customer, and what is the customer's moves",
			ago:  4 * aDay,
			events: []happening{
				week("in_9"), subscription("created", 1*aDay, "active", items(item("starter", 1)), called("sub_2"), nobodys),
				subscription("created", 1*aDay, "active", items(item("enterprise", 1))), signsUp(1*aDay, "umbrella"),
			},
			want: []string{
				"sub_1: acme active enterprise 1", "sub_1 grants enterprise 1", "acme: active enterprise 1 +audit-log,sso", "cs_1: umbrella complete paid 1500",
				"sub_2: umbrella active starter 1", "sub_2 grants starter 1", "in_9: umbrella paid 1500", "in_9 grants pro 1 until 7d", "umbrella: active pro 1",
				"booked payment in_9 1500 usd", "mailed receipt-email in_9", "told billing.invoice.paid in_9",
			},
		},
		{
			name: "the same of what was bought once at a checkout, and by the invoice's account: else that of its newest invoice",
			ago:  4 * aDay,
			events: []happening{
				sells("completed", 0, "paid", "", called("cs_9")), bill("paid", 1*aDay, "in_1", pro, first, billOf("sub_1", "hooli")),
				subscription("created", 1*aDay, "active", items(item("pro", 1)), nobodys), signsUp(1*aDay, "umbrella"),
			},
			want: []string{
				"sub_1: hooli active pro 1", "sub_1 grants pro 1", "hooli: active pro 1", "in_1: hooli paid 2000", "cs_1: umbrella complete paid 1500",
				"cs_9: umbrella complete paid 1500", "cs_9 grants pro 1 until 7d", "umbrella: active pro 1", "booked payment in_1 2000 usd", "booked payment cs_9 1500 usd",
				"mailed receipt-email in_1", "mailed order-email cs_9", "told billing.invoice.paid in_1", "told billing.checkout.completed cs_9",
			},
		},
		{
			name: "a session links its subscription; the customer only if it has no link",
			ago:  4 * aDay,
			events: []happening{
				customer("created", 0, "acme"), week("in_9"), subscription("created", 1*aDay, "active", items(item("pro", 1)), nobodys), signsUp(1*aDay, "umbrella"),
			},
			want: []string{
				"sub_1: umbrella active pro 1", "sub_1 grants pro 1", "umbrella: active pro 1", "cs_1: umbrella complete paid 1500", "in_9: acme paid 1500",
				"in_9 grants pro 1 until 7d", "acme: active pro 1", "booked payment in_9 1500 usd", "mailed receipt-email in_9", "told billing.invoice.paid in_9",
			},
		},
		{
			name: "a customer moves from one account to another: the last link; its subscription and what it bought once go with it, what names an account stays",
			ago:  4 * aDay,
			events: []happening{
				customer("created", 0, "acme"), subscription("created", 0, "active", items(item("pro", 1)), nobodys), week("in_9"),
				subscription("created", 0, "active", items(item("starter", 2)), called("sub_2")), customer("updated", 1*aDay, "umbrella"),
			},
			want: []string{
				"sub_1: umbrella active pro 1", "sub_1 grants pro 1", "in_9: umbrella paid 1500", "in_9 grants pro 1 until 7d", "umbrella: active pro 2",
				"sub_2: acme active starter 2", "sub_2 grants starter 2", "acme: active starter 2", "booked payment in_9 1500 usd", "mailed receipt-email in_9", "told billing.invoice.paid in_9",
			},
		},
		{
			name: "a subscription moves by its metadata, and takes its money along; something else grants where it was",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", pro, first), subscription("created", 0, "active", items(item("starter", 1)), called("sub_2")),
				chargeOf(0, "pi_1", 2000), ties(0, "pi_1", "in_1", 2000), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 500),
				subscription("updated", 2*aDay, "active", items(item("pro", 1)), set("metadata", payload{"account": "umbrella"}), was("metadata", payload{"account": "acme"})),
			},
			want: []string{
				"sub_1: umbrella active pro 1", "sub_1 grants pro 1", "umbrella: active pro 1", "in_1: umbrella paid 2000", "pi_1: umbrella in_1 2000 refunded 500", "re_1: umbrella succeeded 500",
				"sub_2: acme active starter 1", "sub_2 grants starter 1", "acme: active starter 1", "booked payment in_1 2000 usd", "booked refund re_1 500 usd",
				"mailed receipt-email in_1", "told billing.invoice.paid in_1", "told billing.refund.succeeded re_1",
			},
		},
		{
			name: "two customers of one account: quantity summed over the subscriptions that grant the highest plan",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 2))), subscription("created", 0, "trialing", items(item("pro", 3)), called("sub_2"), set("customer", "cus_2")),
				subscription("created", 0, "active", items(item("starter", 9)), called("sub_3"), set("customer", "cus_2")),
			},
			want: []string{
				"sub_1: acme active pro 2", "sub_2: acme trialing pro 3", "sub_3: acme active starter 9", "sub_1 grants pro 2", "sub_2 grants pro 3", "sub_3 grants starter 9", "acme: active pro 5",
			},
		},
		{
			basil: true,
			name:  "nothing names an account: else the customer (customer or customer_account)",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1)), nobodys, set("customer", nil), set("customer_account", "cus_7")),
				bill("paid", 0, "in_1", pro, first, billOf("sub_1", ""), set("customer", nil), set("customer_account", "cus_7")),
			},
			want: []string{"sub_1: cus_7 active pro 1", "sub_1 grants pro 1", "cus_7: active pro 1", "in_1: cus_7 paid 2000", "booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"},
		},
		{
			name: "live and test mode with the same names: two worlds",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))), subscription("created", 0, "active", items(item("enterprise", 1)), inTestMode),
				ended(1*aDay, items(item("enterprise", 1)), inTestMode),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "test sub_1: acme canceled enterprise 1", "test acme: suspended", "told billing.subscription.ended sub_1",
			},
		},
		{
			name: "events of a connected account count only where the source maps it; what it names does not",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1)), connected("acct_9")), bill("paid", 0, "in_1", pro, first, connected("acct_9")),
				bill("paid", 0, "in_2", pro, first, connected("acct_evil")), subscription("created", 0, "active", items(item("enterprise", 1)), called("sub_2"), connected("acct_evil")),
			},
			want: []string{
				"sub_1: globex active pro 1", "sub_1 grants pro 1", "globex: active pro 1", "in_1: globex paid 2000", "booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1",
				"ignored account_not_mapped", "task unknown_account acct_evil open",
			},
		},
		{
			name: "a story is told again under other event IDs, long after it ended: equal after the same facts, once effects",
			events: []happening{
				subscription("created", 0, "incomplete", items(item("pro", 1))), bill("paid", time.Second, "in_1", pro, first),
				subscription("updated", time.Second, "active", items(item("pro", 1)), was("status", "incomplete")), ended(9*aDay, items(item("pro", 1))),
				bill("paid", time.Second, "in_1", pro, first, twin("late2")), subscription("updated", time.Second, "active", items(item("pro", 1)), was("status", "incomplete"), twin("late3")),
				subscription("created", 0, "incomplete", items(item("pro", 1)), twin("late1")),
			},
			want: []string{
				"sub_1: acme canceled pro 1", "acme: suspended", "in_1: acme paid 2000", "booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1", "told billing.subscription.ended sub_1",
			},
			letters: []string{"subscription-ended sub_1"},
		},
		{
			name: "of a story only its middle is told: past due, grace after the first fact of the present run",
			ago:  40 * aDay,
			events: []happening{
				subscription("updated", 10*aDay, "past_due", items(item("pro", 1, during(10*aDay, 40*aDay))), was("status", "active")), attempt(1, 10*aDay, "in_2", pro),
				attempt(3, 20*aDay, "in_2", pro),
			},
			want: []string{
				"sub_1: acme past_due pro 1", "sub_1 grants pro 1 until 31d", "acme: suspended", "in_2: acme open 0", "told billing.payment.failed in_2 1", "told billing.payment.failed in_2 3",
			},
		},
	})
}
