package flowtest

import (
	"testing"
	"time"
)

// Stories of letters: what a customer is told, on the day on which it is true.
func TestJudged_Letters(t *testing.T) {
	t.Parallel()
	pro := lines(line("pro", 2000))
	dueIn := func(days time.Duration) edit {
		return func(h *happening) {
			set("collection_method", "send_invoice")(h)
			set("due_date", at0(days*aDay))(h)
		}
	}
	begun := func(more ...string) []string {
		return append([]string{"sub_1: acme active pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme open 0"}, more...)
	}
	active := subscription("created", 0, "active", items(item("pro", 1)))
	judge(t, []judged{
		{
			name: "the first invoice is sent, and gets overdue: the customer is told, and is at no checkout",
			ago:  15 * aDay,
			events: []happening{
				active, bill("finalized", 0, "in_1", pro, first, dueIn(14)), bill("overdue", 14*aDay, "in_1", pro, first, dueIn(14)),
			},
			want: begun("told payment.failed in_1 0"), letters: []string{"action-required in_1:0"},
		},
		{
			name: "the first payment is a bank debit that fails after days, while the subscription was active: told",
			ago:  6 * aDay,
			events: []happening{
				active, bill("finalized", 0, "in_1", pro, first), attempt(1, 5*aDay, "in_1", pro, first),
			},
			want: begun("told payment.failed in_1 1"), letters: []string{"action-required in_1:1"},
		},
		{
			name: "a card is refused at the checkout, and another one pays: not told, though the subscription grants since",
			ago:  6 * aDay,
			events: []happening{
				subscription("created", 0, "incomplete", items(item("pro", 1))), attempt(1, time.Minute, "in_1", pro, first),
				subscription("updated", time.Hour, "active", items(item("pro", 1)), was("status", "incomplete")),
			},
			want: begun(), letters: []string{},
		},
		{
			name: "a trial without a payment method that is cancelled at its end: the customer is asked for one",
			ago:  11 * aDay,
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay)), without("cancel")),
				bill("paid", 0, "in_1", lines(line("pro", 0)), first),
				subscription("trial_will_end", 11*aDay, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay)), without("cancel")),
			},
			want:    []string{"sub_1: acme trialing pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 0", "told invoice.paid in_1"},
			letters: []string{"trial-ending sub_1 14d"}, subjects: []string{"Your trial is about to end: add a payment method"},
		},
	}, nil)
}

// without says what becomes of a trial that has no payment method.
func without(behavior string) edit {
	return set("trial_settings", payload{"end_behavior": payload{"missing_payment_method": behavior}})
}
