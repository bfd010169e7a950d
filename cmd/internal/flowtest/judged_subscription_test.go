package flowtest

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Scenarios about subscriptions: plans, seats, trials, pauses and ends.
func TestJudged_Subscriptions(t *testing.T) {
	t.Parallel()
	judge(t, []judged{
		{
			name: "an upgrade, and its proration paid in one second: the last snapshot; proration credits do not count",
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 1))),
				bill("paid", 0, "in_1", lines(line("starter", 1000)), first),
				subscription("updated", 10*aDay, "active", items(item("pro", 1)), was("items", list(item("starter", 1)))),
				bill("paid", 10*aDay, "in_2", lines(
					line("starter", -667, prorated, during(10*aDay, aMonth)), line("pro", 2000, prorated, during(10*aDay, aMonth)),
				), set("billing_reason", "subscription_update")),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 1000", "in_2: acme paid 1333",
				"booked payment in_1 1000 usd", "booked payment in_2 1333 usd", "mailed receipt-email in_1", "mailed receipt-email in_2",
				"told billing.invoice.paid in_1", "told billing.invoice.paid in_2",
			},
			letters: []string{"subscription-changed sub_1:v2"},
		},
		{
			name: "the same, of which only invoices are told: no snapshot, the lines of the newest standing paid invoice (latest period start)",
			events: []happening{
				bill("paid", 0, "in_1", lines(line("starter", 1000)), first),
				bill("paid", 10*aDay, "in_2", lines(
					line("starter", -667, prorated, during(10*aDay, aMonth)), line("pro", 2000, prorated, during(10*aDay, aMonth)),
				), set("billing_reason", "subscription_update")),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1 until 34d", "acme: active pro 1", "in_1: acme paid 1000", "in_2: acme paid 1333",
				"booked payment in_1 1000 usd", "booked payment in_2 1333 usd", "mailed receipt-email in_1", "mailed receipt-email in_2",
				"told billing.invoice.paid in_1", "told billing.invoice.paid in_2",
			},
		},
		{
			name: "a downgrade that was planned for the period's end, before and after it: the last snapshot",
			ago:  31 * aDay,
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				bill("paid", 0, "in_1", lines(line("pro", 2000)), first),
				subscription("updated", 5*aDay, "active", items(item("pro", 1)), set("schedule", "sub_sched_1"), was("schedule", nil)),
				subscription("updated", aMonth, "active", items(item("starter", 1, during(aMonth, 2*aMonth))), was("items", list(item("pro", 1)))),
				bill("paid", aMonth+time.Hour, "in_2", lines(line("starter", 1000, during(aMonth, 2*aMonth)))),
			},
			want: []string{
				"sub_1: acme active starter 1", "sub_1 grants starter 1", "acme: active starter 1", "in_1: acme paid 2000", "in_2: acme paid 1000",
				"booked payment in_1 2000 usd", "booked payment in_2 1000 usd", "mailed receipt-email in_1", "mailed receipt-email in_2",
				"told billing.invoice.paid in_1", "told billing.invoice.paid in_2",
			},
		},
		{
			name: "seats up and down within a second: the chain; the state that is reached once more often than it is left",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				subscription("updated", 50*time.Second, "active", items(item("pro", 5)), was("items", list(item("pro", 1)))),
				subscription("updated", 50*time.Second, "active", items(item("pro", 9)), was("items", list(item("pro", 5)))),
				subscription("updated", 50*time.Second, "active", items(item("pro", 3)), was("items", list(item("pro", 9)))),
			},
			want: []string{"sub_1: acme active pro 3", "sub_1 grants pro 3", "acme: active pro 3"},
		},
		{
			name: "a trial without a card is paused at its end: paused does not grant; an invoice of 0 is told, and not booked",
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay))),
				bill("paid", 0, "in_1", lines(line("pro", 0)), first),
				subscription("trial_will_end", 11*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay))),
				subscription("updated", 14*aDay, "paused", items(item("pro", 1)), set("trial_end", at0(14*aDay)), was("status", "trialing")),
				subscription("paused", 14*aDay, "paused", items(item("pro", 1)), set("trial_end", at0(14*aDay))),
			},
			want: []string{"sub_1: acme paused pro 1", "acme: suspended", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
		},
		{
			name: "a paused trial is resumed and paid: granted again",
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(5*aDay))),
				subscription("paused", 5*aDay, "paused", items(item("pro", 1))),
				subscription("resumed", 6*aDay, "active", items(item("pro", 1))),
				subscription("updated", 6*aDay, "active", items(item("pro", 1)), was("status", "paused")),
				bill("paid", 6*aDay, "in_2", lines(line("pro", 2000, during(6*aDay, 36*aDay)))),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_2: acme paid 2000", "booked payment in_2 2000 usd",
				"mailed receipt-email in_2", "told billing.invoice.paid in_2",
			},
		},
		{
			name: "a trial is prolonged, and its first notice comes late: n (subscription, trial end), of the trial's newest end",
			ago:  18*aDay + time.Hour,
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay))),
				bill("paid", 0, "in_1", lines(line("pro", 0)), first),
				subscription("updated", 12*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(21*aDay)), was("trial_end", at0(14*aDay))),
				subscription("trial_will_end", 11*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay))),
				subscription("trial_will_end", 18*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(21*aDay))),
			},
			want:    []string{"sub_1: acme trialing pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
			letters: []string{"trial-ending sub_1 21d"},
		},
		{
			name: "an on-demand pause ends in past_due: granted until grace after the first fact of the present run of past_due",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				subscription("updated", 1*aDay, "past_due", items(item("pro", 1)), was("status", "active")),
				subscription("updated", 2*aDay, "paused", items(item("pro", 1)), was("status", "past_due")),
				subscription("updated", 10*aDay, "past_due", items(item("pro", 1)), was("status", "paused")),
				subscription("updated", 11*aDay, "past_due", items(item("pro", 2)), was("items", list(item("pro", 1)))),
			},
			want: []string{"sub_1: acme past_due pro 2", "sub_1 grants pro 2 until 31d", "acme: active pro 2"},
		},
		{
			name: "unpaid does not grant; paid at last, it is active again",
			ago:  40 * aDay,
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1, during(0, 60*aDay)))),
				subscription("updated", 10*aDay, "past_due", items(item("pro", 1, during(0, 60*aDay))), was("status", "active")),
				subscription("updated", 24*aDay, "unpaid", items(item("pro", 1, during(0, 60*aDay))), was("status", "past_due")),
				bill("paid", 30*aDay, "in_2", lines(line("pro", 2000, during(10*aDay, 60*aDay)))),
				subscription("updated", 30*aDay, "active", items(item("pro", 1, during(0, 60*aDay))), was("status", "unpaid")),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_2: acme paid 2000", "booked payment in_2 2000 usd",
				"mailed receipt-email in_2", "told billing.invoice.paid in_2",
			},
		},
		{
			name: "a planned end is moved: until cancel_at; the portal sets only that",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				subscription("updated", 1*aDay, "active", items(item("pro", 1)), set("cancel_at", at0(10*aDay)), was("cancel_at", nil)),
				subscription("updated", 2*aDay, "active", items(item("pro", 1)), set("cancel_at", at0(25*aDay)), was("cancel_at", at0(10*aDay))),
			},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1 until 25d", "acme: active pro 1"},
		},
		{
			name: "an add-on, a metered price, and none of a plan: the others add features; metered ones and quantity 0 add no seats",
			events: []happening{
				subscription("created", 0, "active", items(
					item("pro", 2), item("audit", 7),
					item("use", 0, metered),
				)),
			},
			want: []string{"sub_1: acme active pro 2", "sub_1 grants pro 2 audit-log", "acme: active pro 2 +audit-log"},
		},
		{
			name: "an add-on is invoiced alone, and no subscription event came: the plan stays that of the subscription's lines, add-ons on top",
			events: []happening{
				bill("paid", 0, "in_1", lines(line("pro", 2000)), first),
				bill("paid", 5*aDay, "in_2", lines(line("audit", 300, prorated, during(5*aDay, aMonth))), set("billing_reason", "subscription_update")),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1 audit-log until 34d", "acme: active pro 1 +audit-log", "in_1: acme paid 2000", "in_2: acme paid 300",
				"booked payment in_1 2000 usd", "booked payment in_2 300 usd", "mailed receipt-email in_1", "mailed receipt-email in_2",
				"told billing.invoice.paid in_1", "told billing.invoice.paid in_2",
			},
		},
		{
			name: "two subscriptions of different plans, and the higher one ends: the highest granted plan; no letter, since something else grants",
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 3))),
				bill("paid", 0, "in_1", lines(line("starter", 3000, seats(3))), first),
				subscription("created", 1*aDay, "active", items(item("enterprise", 1)), called("sub_2")),
				ended(9*aDay, items(item("enterprise", 1)), called("sub_2")),
			},
			want: []string{
				"sub_1: acme active starter 3", "sub_2: acme canceled enterprise 1", "sub_1 grants starter 3", "acme: active starter 3", "told billing.subscription.ended sub_2",
				"in_1: acme paid 3000", "booked payment in_1 3000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1",
			},
			letters: []string{},
		},
		{
			name: "from a monthly price to a yearly one: the plan is the same, and so is access",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				bill("paid", 0, "in_1", lines(line("pro", 2000)), first),
				subscription("updated", 10*aDay, "active", items(item("pro_yearly", 1, during(10*aDay, 375*aDay))), was("items", list(item("pro", 1)))),
				bill("paid", 10*aDay, "in_2", lines(
					line("pro", -1333, prorated, during(10*aDay, aMonth)), line("pro_yearly", 20000, during(10*aDay, 375*aDay)),
				), set("billing_reason", "subscription_update")),
			},
			want: []string{
				"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 2000", "in_2: acme paid 18667",
				"booked payment in_1 2000 usd", "booked payment in_2 18667 usd", "mailed receipt-email in_1", "mailed receipt-email in_2",
				"told billing.invoice.paid in_1", "told billing.invoice.paid in_2",
			},
		},
		{
			name: "a paused collection keeps access; what it voids was never owed",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				subscription("updated", 1*aDay, "active", items(item("pro", 1)), set("pause_collection", payload{"behavior": "void", "resumes_at": nil}), was("pause_collection", nil)),
				bill("voided", 2*aDay, "in_2", lines(line("pro", 2000))),
			},
			want:    []string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_2: acme void 0", "told billing.invoice.closed in_2"},
			letters: []string{},
		},
		{
			name: "ended, with an update in the same second and one after it: terminal is absorbing; coming back is a new subscription",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				ended(5*aDay, items(item("pro", 1))),
				subscription("updated", 5*aDay, "active", items(item("enterprise", 1)), was("items", list(item("pro", 1)))),
				subscription("created", 8*aDay, "active", items(item("starter", 1)), called("sub_2")),
			},
			want: []string{
				"sub_1: acme canceled pro 1", "sub_2: acme active starter 1", "sub_2 grants starter 1", "acme: active starter 1", "told billing.subscription.ended sub_1",
			},
		},
		{
			name: "a planned end has passed, and no event says so: granted to cancel_at, then suspended; by the clock end only planned ends",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				subscription("updated", 1*aDay, "active", items(item("pro", 1)), set("cancel_at", at0(10*aDay)), was("cancel_at", nil)),
			},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1 until 10d", "acme: suspended"},
		},
		{
			name: "a planned end was called off, and that is told after it had passed: the last snapshot",
			events: []happening{
				subscription("created", 0, "active", items(item("pro", 1))),
				subscription("updated", 1*aDay, "active", items(item("pro", 1)), set("cancel_at", at0(10*aDay)), was("cancel_at", nil)),
				subscription("updated", 9*aDay, "active", items(item("pro", 1)), was("cancel_at", at0(10*aDay))),
			},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1"},
		},
		{
			name: "a trial that ends its subscription: n (subscription, trial end), if still trialing and not ending",
			ago:  11*aDay + time.Hour,
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay))), bill("paid", 0, "in_1", lines(line("pro", 0)), first),
				subscription("updated", 1*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay)), set("cancel_at", at0(14*aDay)), was("cancel_at", nil)),
				subscription("trial_will_end", 11*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay)), set("cancel_at", at0(14*aDay))),
			},
			want:    []string{"sub_1: acme trialing pro 1", "sub_1 grants pro 1 until 14d", "acme: active pro 1", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
			letters: []string{"subscription-changed sub_1:v2"},
		},
		{
			name: "the first paid invoice of an onboarding plan: a task (subscription, plan), closed with the subscription's end, in every order",
			events: []happening{
				subscription("created", 0, "active", items(item("enterprise", 1))), bill("paid", 0, "in_1", lines(line("enterprise", 9000)), first),
				ended(5*aDay, items(item("enterprise", 1))),
			},
			want: []string{
				"sub_1: acme canceled enterprise 1", "acme: suspended", "in_1: acme paid 9000", "booked payment in_1 9000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1", "told billing.subscription.ended sub_1", "task onboarding sub_1:enterprise cancelled",
			},
		},
		{
			name: "an onboarding plan is left for a lower one: nobody need be welcomed on it",
			events: []happening{
				subscription("created", 0, "active", items(item("enterprise", 1))), bill("paid", 0, "in_1", lines(line("enterprise", 9000)), first),
				subscription("updated", 5*aDay, "active", items(item("starter", 1)), was("items", list(item("enterprise", 1)))),
			},
			want: []string{
				"sub_1: acme active starter 1", "sub_1 grants starter 1", "acme: active starter 1", "in_1: acme paid 9000", "booked payment in_1 9000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1", "task onboarding sub_1:enterprise cancelled",
			},
		},
		{
			name: "an onboarding plan is left, and taken again: it is open again",
			events: []happening{
				subscription("created", 0, "active", items(item("enterprise", 1))), bill("paid", 0, "in_1", lines(line("enterprise", 9000)), first),
				subscription("updated", 5*aDay, "active", items(item("starter", 1)), was("items", list(item("enterprise", 1)))),
				subscription("updated", 6*aDay, "active", items(item("enterprise", 1)), was("items", list(item("starter", 1)))),
			},
			want: []string{
				"sub_1: acme active enterprise 1", "sub_1 grants enterprise 1", "acme: active enterprise 1 +audit-log,sso", "in_1: acme paid 9000", "booked payment in_1 9000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1", "task onboarding sub_1:enterprise open",
			},
		},
		{
			name: "a platform fee and ten seats: the fee counts no seats",
			events: []happening{
				subscription("created", 0, "active", items(item("fee", 1), item("pro", 10))),
				bill("paid", 0, "in_1", lines(line("fee", 5000), line("pro", 10000, seats(10))), first),
			},
			want: []string{
				"sub_1: acme active pro 10", "sub_1 grants pro 10", "acme: active pro 10", "in_1: acme paid 15000", "booked payment in_1 15000 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1",
			},
		},
		{
			name: "a price that no mapping knows leaves the plan of the newest snapshot that had a known one, and opens a task",
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 1))),
				subscription("updated", 1*aDay, "active", items(item("pro", 2)), was("items", list(item("starter", 1)))),
				subscription("updated", 2*aDay, "active", items(item("secret", 3)), was("items", list(item("pro", 2)))),
			},
			want: []string{"sub_1: acme active pro 2", "sub_1 grants pro 2", "acme: active pro 2", "task unknown_price acme:price_secret open"},
		},
		{
			name: "two items of plans: the highest; the others add features",
			events: []happening{
				subscription("created", 0, "active", items(item("starter", 4), item("pro", 2), item("audit", 1))),
			},
			want: []string{"sub_1: acme active pro 2", "sub_1 grants pro 2 audit-log,projects", "acme: active pro 2 +audit-log"},
		},
		{
			name: "only its end is told: ended; it never granted, as far as is known, so nobody is told",
			events: []happening{
				ended(5*aDay, items(item("pro", 1))),
			},
			want:    []string{"sub_1: acme canceled pro 1", "acme: suspended"},
			letters: []string{},
		},
		{
			name: "one change that two events tell, and another one of its second: two such states, undecided; the state that grants more",
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1))),
				subscription("updated", 50*time.Second, "active", items(item("pro", 1)), was("status", "trialing")),
				subscription("updated", 50*time.Second, "active", items(item("pro", 1)), was("status", "trialing"), twin("b")),
				subscription("updated", 50*time.Second, "active", items(item("pro", 1)), set("cancel_at", at0(25*aDay)), was("cancel_at", nil)),
			},
			want: []string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1"},
		},
	}, nil)
}

// The same Stripe account sells another product. A subscription with a price in plans.ignore grants nothing, books
// nothing, and causes no e-mail, event or task. Its payments are ignored as well. A subscription that also contains a
// mapped price is not ignored.
func TestJudged_NotOurs(t *testing.T) {
	t.Parallel()
	gym := []happening{
		subscription("created", 0, "active", items(item("gym", 1))), bill("paid", 0, "in_1", lines(line("gym", 2000)), first),
		attempt(1, 5*aDay, "in_2", lines(line("gym", 2000, during(5*aDay, aMonth)))), subscription("updated", 5*aDay, "past_due", items(item("gym", 1)), was("status", "active")),
		ended(9*aDay, items(item("gym", 1))),
	}
	judge(t, []judged{
		{
			name: "a subscription of what is not ours, from its beginning to its end: in every order nothing follows", events: gym,
			want: []string{"sub_1: canceled 0", "in_1: paid 2000", "in_2: open 0"}, letters: []string{}, due: []string{},
		},
		{
			name: "its payment is refunded and disputed: not booked, and nobody is asked", inOrder: true,
			events: append(gym[:2:2], chargeOf(0, "pi_1", 2000), ties(0, "pi_1", "in_1", 2000), refund("created", 1*aDay, "re_1", "succeeded", "pi_1", 300),
				dispute("created", 2*aDay, "needs_response", []any{withdrawn})),
			want:    []string{"sub_1: active 0", "in_1: paid 2000", "pi_1: in_1 2000 refunded 300", "re_1: succeeded 300", "dp_1: needs_response 1000"},
			letters: []string{},
		},
		{
			name:   "beside a price of ours: the plan is granted, and the payment booked",
			events: []happening{subscription("created", 0, "active", items(item("pro", 2), item("gym", 1))), bill("paid", 0, "in_1", lines(line("pro", 2000, seats(2)), line("gym", 500)), first)},
			want: []string{"sub_1: acme active pro 2", "sub_1 grants pro 2", "acme: active pro 2", "in_1: acme paid 2500", "booked payment in_1 2500 usd", "mailed receipt-email in_1",
				"told billing.invoice.paid in_1"},
		},
	}, func(c *config.Config) { c.Plans.Ignore, c.Policy.AccountFrom = []string{"prod_gym"}, "customer" })
}
