package flowtest

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
)

// Scenarios about one-off invoices, and about credits that pay a part of another invoice.
func TestJudged_OneOffsAndCredits(t *testing.T) {
	t.Parallel()
	adHoc := func(event string, at time.Duration, more ...payload) happening {
		return bill(event, at, "in_9", append(lines(line("1AdHoc", 50000, soldOnce, during(aDay, aDay))), more...), ofNone(""),
			set("collection_method", "send_invoice"), set("due_date", at0(15*aDay)))
	}
	// laterPaid returns the events of a one-off invoice with a price that exists only in its line. The invoice is
	// paid four days after it was sent.
	laterPaid := func(amount int, more ...payload) []happening {
		return []happening{
			adHoc("created", aDay, more...), adHoc("finalized", aDay, more...), chargeOf(5*aDay, "pi_9", amount), ties(5*aDay, "pi_9", "in_9", amount), adHoc("paid", 5*aDay, more...),
		}
	}
	booked := []string{"booked payment in_9 50000 usd", "mailed receipt-email in_9", "told billing.invoice.paid in_9"}
	setup := line("setup", 900, soldOnce, during(aDay, aDay))
	yearly := func(event string, at time.Duration, edits ...edit) happening {
		return bill(event, at, "in_3", lines(line("enterprise", 34800, ofSubscription("sub_2"), during(15*aDay, 380*aDay))),
			append([]edit{first, billOf("sub_2", "acme")}, edits...)...)
	}
	stage{key: true}.judge(t, []judged{
		{
			name:   "a one-off invoice of an ad-hoc price beside the subscription, paid days later",
			events: boughtPro(laterPaid(50000)...),
			want:   hasPro(append(booked, "in_9: acme paid 50000")...),
		},
		{
			name:   "the same with a second line of a price that is not mapped",
			events: boughtPro(laterPaid(50900, setup)...),
			want:   hasPro("booked payment in_9 50900 usd", "mailed receipt-email in_9", "told billing.invoice.paid in_9", "in_9: acme paid 50900"),
		},
		{
			name:   "the same of a customer without a subscription",
			events: append(laterPaid(50000), customer("created", 0, "acme")),
			want:   append(booked, "in_9: acme paid 50000", "acme: suspended"),
		},
		{
			name: "a new subscription replaces the old one, whose credit pays a part of the new invoice: cash is what was charged",
			ago:  16 * aDay, storm: true,
			events: boughtPro(
				bill("paid", 15*aDay, "in_2", lines(line("pro", -2450, prorated, during(15*aDay, aMonth))), set("amount_due", 0), set("amount_paid", 0), set("amount_remaining", 0),
					set("starting_balance", 0), set("ending_balance", -2450)),
				ended(15*aDay, items(item("pro", 1))),
				subscription("created", 15*aDay, "active", items(item("enterprise", 1, during(15*aDay, 380*aDay))), called("sub_2")),
				yearly("created", 15*aDay, set("starting_balance", 0), set("ending_balance", nil)),
				chargeOf(15*aDay, "pi_3", 32350), ties(15*aDay, "pi_3", "in_3", 32350),
				yearly("paid", 15*aDay, set("amount_due", 32350), set("amount_paid", 32350), set("starting_balance", -2450), set("ending_balance", 0)),
			),
			want: []string{
				"sub_1: acme canceled pro 1", "sub_2: acme active enterprise 1", "sub_2 grants enterprise 1", "acme: active enterprise 1 +audit-log,sso",
				"in_1: acme paid 1000", "in_2: acme paid 0", "in_3: acme paid 32350", "booked payment in_1 1000 usd", "booked payment in_2 0 usd", "booked payment in_3 32350 usd",
				"mailed receipt-email in_1", "mailed receipt-email in_3", "told billing.invoice.paid in_1", "told billing.invoice.paid in_2", "told billing.invoice.paid in_3", "told billing.subscription.ended sub_1", "task onboarding sub_2:enterprise open",
			},
		},
	})
}

// Scenarios about compensated purchases, after which an earlier purchase ends without an event.
func TestJudged_TakenBackEarly(t *testing.T) {
	t.Parallel()
	year := bill("paid", 10*aDay, "in_2", lines(line("pro", 10000, prorated, during(10*aDay, 375*aDay))), set("billing_reason", "subscription_update"))
	stage{key: true, tune: func(c *config.Config) { c.Policy.FullRefund = "end" }}.judge(t, []judged{
		{
			name: "a year that replaced a month is refunded in full: access ends with the month, and the customer is told", ago: 40 * aDay,
			events: boughtPro(
				subscription("updated", 10*aDay, "active", items(item("pro", 1, during(10*aDay, 375*aDay))), was("items", list(item("pro", 1)))), year,
				chargeOf(10*aDay, "pi_2", 10000), ties(10*aDay, "pi_2", "in_2", 10000), refund("created", 11*aDay, "re_2", "succeeded", "pi_2", 10000),
			),
			want: hadPro("sub_1 grants pro 1 until 30d", "in_2: acme paid 10000", "booked payment in_2 10000 usd", "mailed receipt-email in_2", "told billing.invoice.paid in_2", "pi_2: acme in_2 10000 refunded 10000",
				"re_2: acme succeeded 10000", "booked refund re_2 10000 usd", "told billing.refund.succeeded re_2"),
			letters: []string{"access-ended acme:v2"},
		},
	})
}
