package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Scenarios about e-mails: their content, and the day on which pawl sends them.
func TestJudged_Letters(t *testing.T) {
	t.Parallel()
	pro := lines(line("pro", 2000))
	dueIn := func(days int) edit {
		return func(h *happening) {
			set("collection_method", "send_invoice")(h)
			set("due_date", at0(time.Duration(days)*aDay))(h)
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
			want: begun("told billing.payment.failed in_1 0"), letters: []string{"action-required in_1:0"},
		},
		{
			name: "the first payment is a bank debit that fails after days, while the subscription was active: told",
			ago:  6 * aDay,
			events: []happening{
				active, bill("finalized", 0, "in_1", pro, first), attempt(1, 5*aDay, "in_1", pro, first),
			},
			want: begun("told billing.payment.failed in_1 1"), letters: []string{"action-required in_1:1"},
		},
		{
			name: "an attempt and its due reminder are news of long ago: one letter, in every order",
			ago:  14 * aDay,
			events: []happening{
				active, bill("finalized", aDay, "in_1", pro), attempt(1, aDay, "in_1", pro),
				subscription("updated", aDay, "past_due", items(item("pro", 1)), was("status", "active")), attempt(2, 4*aDay, "in_1", pro),
			},
			want: []string{"sub_1: acme past_due pro 1", "sub_1 grants pro 1 until 22d", "acme: active pro 1", "in_1: acme open 0",
				"told billing.payment.failed in_1 1", "told billing.payment.failed in_1 2"},
			letters: []string{"action-required in_1:1"},
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
			want:    []string{"sub_1: acme trialing pro 1", "sub_1 grants pro 1", "acme: active pro 1", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
			letters: []string{"trial-ending sub_1 14d"}, subjects: []string{"Your trial is about to end: add a payment method"},
		},
		{
			name: "past due, and the grace ends in two days: the customer is told when",
			ago:  29 * aDay,
			events: []happening{
				active, bill("paid", 0, "in_1", pro, first), subscription("updated", 10*aDay, "past_due", items(item("pro", 1)), was("status", "active")),
			},
			want: []string{"sub_1: acme past_due pro 1", "sub_1 grants pro 1 until 31d", "acme: active pro 1", "in_1: acme paid 2000",
				"booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"},
			letters: []string{"access-ending sub_1 31d"},
		},
		{
			name: "a trial is paused for want of a payment method: access is taken, and that is told",
			ago:  15 * aDay,
			events: []happening{
				subscription("created", 0, "trialing", items(item("pro", 1)), set("trial_end", at0(14*aDay)), without("pause")),
				bill("paid", 0, "in_1", lines(line("pro", 0)), first),
				subscription("updated", 14*aDay, "paused", items(item("pro", 1)), set("trial_end", at0(14*aDay)), without("pause"), was("status", "trialing")),
				subscription("paused", 14*aDay, "paused", items(item("pro", 1)), set("trial_end", at0(14*aDay)), without("pause")),
			},
			want:    []string{"sub_1: acme paused pro 1", "acme: suspended", "in_1: acme paid 0", "told billing.invoice.paid in_1"},
			letters: []string{"access-ended acme:v2"}, subjects: []string{"Your access has ended"},
		},
		{
			name: "unpaid, and another subscription grants: nothing is taken, nothing told",
			ago:  25 * aDay,
			events: []happening{
				active, bill("paid", 0, "in_1", pro, first), subscription("created", 0, "active", items(item("starter", 1)), called("sub_2")),
				subscription("updated", 10*aDay, "past_due", items(item("pro", 1)), was("status", "active")),
				subscription("updated", 24*aDay, "unpaid", items(item("pro", 1)), was("status", "past_due")),
			},
			want: []string{"sub_1: acme unpaid pro 1", "sub_2: acme active starter 1", "sub_2 grants starter 1", "acme: active starter 1", "in_1: acme paid 2000",
				"booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1"},
			letters: []string{},
		},
	}, nil)
}

// A contract for one year has an end date from the start. In every order of the sign-up events, the customer gets a
// receipt and no e-mail about a changed subscription. pawl sends an e-mail if the end date changes later.
func TestJudged_Letters_FixedTerm_BeginsAsNoChange(t *testing.T) {
	t.Parallel()
	until := func(days int) edit { return set("cancel_at", at0(time.Duration(days)*aDay)) }
	signup := []happening{
		subscription("created", 0, "incomplete", items(item("pro", 3)), until(365)), bill("paid", 0, "in_1", lines(line("pro", 6000, seats(3))), first),
		subscription("updated", 0, "active", items(item("pro", 3)), was("status", "incomplete"), until(365)),
	}
	moved := subscription("updated", 10*aDay, "active", items(item("pro", 3)), was("cancel_at", at0(365*aDay)), until(200))
	want := func(more ...string) []string {
		return append([]string{"sub_1: acme active pro 3", "acme: active pro 3", "in_1: acme paid 6000", "booked payment in_1 6000 usd",
			"mailed receipt-email in_1", "told billing.invoice.paid in_1"}, more...)
	}
	var cases []judged
	for _, order := range permutations(len(signup)) {
		var events []happening
		for _, n := range order {
			events = append(events, signup[n])
		}
		version := 2
		if order[0] == 1 { // the invoice did not contain the end date
			version = 3
		}
		for _, old := range []bool{false, true} {
			cases = append(cases,
				judged{name: fmt.Sprint("a contract for a year is paid for, in the order ", order, ", old: ", old), events: events, inOrder: true, old: old,
					want: want("sub_1 grants pro 3 until 365d"), letters: []string{}},
				judged{name: fmt.Sprint("the same, and its end is moved, in the order ", order, ", old: ", old), events: append(slices.Clone(events), moved), inOrder: true, old: old,
					want: want("sub_1 grants pro 3 until 200d"), letters: []string{fmt.Sprint("subscription-changed sub_1:v", version)}})
		}
	}
	judge(t, cases, nil)
}

// A customer switches plans with a new subscription, and the old subscription is deleted a second later. In every
// order of the events, no e-mail reports the end of a subscription. A customer who really ends the subscription gets
// the e-mail after email.delay.
func TestJudged_Letters_Switch_NoEndIsTold(t *testing.T) {
	t.Parallel()
	const settle = 5 * time.Second // long enough to fold both events on a busy machine
	r := newRig(t, func(c *config.Config) { c.Email.Delay = settle })
	story := []happening{
		subscription("created", 0, "active", items(item("starter", 1))), bill("paid", 0, "in_1", lines(line("starter", 900)), first),
		subscription("created", 10*aDay, "active", items(item("pro", 1)), called("sub_2")), ended(10*aDay+time.Second, items(item("starter", 1))),
	}
	tags := map[string]string{}
	for how, order := range map[string][]int{"the new one first": {0, 1, 2, 3}, "the end first": {0, 1, 3, 2}, "it ends": {0, 1, 3}} {
		x := &telling{judged: judged{events: story}, tag: "-" + uuid.NewString()[:8] + "-v0", begin: time.Now().Add(-20 * aDay).Truncate(time.Second)}
		tags[how] = x.tag
		for _, n := range order[:2] {
			r.come("the first month is paid for", []string{r.deliver(x, n)}, receipt.Processed)
		}
		var sent []string
		for _, n := range order[2:] {
			id := r.deliver(x, n)
			r.until("its facts are folded", func() bool {
				return len(r.rows(`select 1 from effects e join receipts t on t.id = e.receipt_id where t.event_id = $1 and e.kind = 'apply-facts' and e.state = 'done'`, id)) == 1
			})
			sent = append(sent, id)
		}
		r.come("they have ended", sent, receipt.Processed)
	}
	for how, want := range map[string]string{"the new one first": "", "the end first": "skipped", "it ends": "done"} {
		state := ""
		for _, row := range r.rows(`select state from effects where kind = 'subscription-ended-notice' and key like '%' || $1`, tags[how]) {
			state = row
		}
		if state != want {
			t.Errorf("%s: the letter about the end is %q, want %q", how, state, want)
		}
	}
	var told []string
	for _, m := range r.journal("email") {
		if subject := fmt.Sprint(m.Body["subject"]); strings.Contains(subject, "ended") {
			told = append(told, m.Account)
		}
	}
	if want := []string{"acme" + tags["it ends"]}; !slices.Equal(told, want) {
		t.Errorf("the end was e-mailed to %q, want %q", told, want)
	}
}

// Scenarios with policy.on_subscription_end: period_end.
func TestJudged_Letters_PeriodEnd(t *testing.T) {
	t.Parallel()
	pro := lines(line("pro", 2000))
	judge(t, []judged{{
		name: "cancelled at once, and paid for until later: the customer is told until when",
		ago:  6 * aDay,
		events: []happening{
			subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", pro, first), ended(5*aDay, items(item("pro", 1))),
		},
		want: []string{"sub_1: acme canceled pro 1", "sub_1 grants pro 1 until 30d", "acme: active pro 1", "in_1: acme paid 2000",
			"booked payment in_1 2000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1", "told billing.subscription.ended sub_1"},
		letters: []string{"access-ending sub_1 30d"},
	}}, func(c *config.Config) { c.Policy.OnSubscriptionEnd = "period_end" })
}

// without sets Stripe's action at the end of a trial without a payment method.
func without(behavior string) edit {
	return set("trial_settings", payload{"end_behavior": payload{"missing_payment_method": behavior}})
}
