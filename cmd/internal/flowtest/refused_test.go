package flowtest

import (
	"fmt"
	"slices"
	"testing"
)

// Scenarios about changes that the workspace API refuses, in every order. The earlier grant and the payment remain, a
// task about the difference opens, and no e-mail reports the change.
func TestJudged_RefusedChange(t *testing.T) {
	t.Parallel()
	start := func(plan string, n int) []happening {
		return []happening{
			subscription("created", 0, "active", items(item(plan, n))), bill("paid", 0, "in_1", lines(line(plan, 1000, seats(n))), first),
		}
	}
	upgraded := subscription("updated", 10*aDay, "active", items(item("enterprise", 1)), was("items", list(item("pro", 1))))
	prorate := bill("paid", 10*aDay, "in_2", lines(
		line("pro", -667, prorated, during(10*aDay, aMonth)), line("enterprise", 2000, prorated, during(10*aDay, aMonth)),
	), set("billing_reason", "subscription_update"))
	wants := func(task string, more ...string) []string {
		return append([]string{
			"in_1: acme paid 1000", "booked payment in_1 1000 usd", "mailed receipt-email in_1", "told billing.invoice.paid in_1",
			"task correction sub_1 " + task,
		}, more...)
	}
	refused := func(version int) string {
		return fmt.Sprintf("failed provision-workspace:stripe:live:acme:v%d refused", version)
	}
	cases := []judged{
		{
			name:    "more seats are refused",
			events:  append(start("pro", 5), subscription("updated", 10*aDay, "active", items(item("pro", 50)), was("items", list(item("pro", 5))))),
			want:    wants("open", refused(2), "sub_1: acme active pro 50", "sub_1 grants pro 5", "acme: active pro 5"),
			inOrder: true, letters: []string{},
		},
		{
			name: "more seats are refused, and the event about them comes first",
			events: append([]happening{
				subscription("updated", 10*aDay, "active", items(item("pro", 50)), was("items", list(item("pro", 5)))),
			}, start("pro", 5)...),
			want:    wants("open", refused(1), "sub_1: acme active pro 50", "sub_1 grants pro 5", "acme: active pro 5"),
			inOrder: true, letters: []string{},
		},
		{
			name: "an upgrade is refused, and the customer takes a lower plan",
			events: append(start("pro", 1), upgraded,
				subscription("updated", 11*aDay, "active", items(item("starter", 1)), was("items", list(item("enterprise", 1))))),
			inOrder: true,
			want:    wants("cancelled", refused(2), "sub_1: acme active starter 1", "sub_1 grants starter 1", "acme: active starter 1"),
			letters: []string{"subscription-changed sub_1:v4"},
		},
	}
	for _, order := range permutations(4) {
		if order[0] == 3 { // a refused first payment is compensated, because no earlier state is known
			continue
		}
		c := judged{
			name: fmt.Sprint("an upgrade is refused, and its proration was paid, in the order ", order), inOrder: true, letters: []string{},
			want: wants("open",
				"sub_1: acme active enterprise 1", "sub_1 grants pro 1", "acme: active pro 1", "in_2: acme paid 1333", "booked payment in_2 1333 usd",
				"mailed receipt-email in_2", "told billing.invoice.paid in_2", "task onboarding sub_1:enterprise cancelled"),
		}
		if c.want = append(c.want, refused(2)); order[0] == 2 {
			c.want[len(c.want)-1] = refused(1)
		}
		for _, n := range order {
			c.events = append(c.events, append(start("pro", 1), upgraded, prorate)[n])
		}
		cases = append(cases, c)
	}
	stage{prepare: func(r *rig) {
		r.fault(`{"service":"workspaces","status":402,"plan":"enterprise","next":1000}`, `{"service":"workspaces","status":402,"plan":"pro:50","next":1000}`)
	}}.judgeBoth(t, cases)
}

// The workspace API refuses a first purchase. Every order has the same result: the payment is booked and reversed,
// one e-mail corrects the receipt, nothing is granted, and one task about the money opens.
func TestJudged_RefusedPurchase(t *testing.T) {
	t.Parallel()
	var cases []judged
	for _, order := range permutations(3) {
		c := judged{
			name: fmt.Sprint("a first purchase is refused, in the order ", order), inOrder: true, letters: []string{},
			want: []string{
				"sub_1: acme active pro 1", "acme: suspended", "in_1: acme paid 1000", "booked payment in_1 1000 usd", "booked reversal in_1 1000 usd",
				"mailed correction-notice in_1", "told billing.invoice.paid in_1", "task correction sub_1 open", "failed provision-workspace:stripe:live:acme:v1 refused",
			},
		}
		for _, n := range order {
			c.events = append(c.events, []happening{
				subscription("created", 0, "active", items(item("pro", 1))), bill("paid", 0, "in_1", lines(line("pro", 1000)), first), ties(0, "pi_1", "in_1", 1000),
			}[n])
		}
		cases = append(cases, c)
	}
	gone := cases[0]
	gone.name, gone.events = "a refused purchase ends: no e-mail about the end of access, which there never was", append(cases[0].events[:3:3], ended(aDay, items(item("pro", 1))))
	gone.want = append([]string{"sub_1: acme canceled pro 1", "told billing.subscription.ended sub_1"}, gone.want[1:]...)
	cases = append(cases, gone)
	refunded := cases[0]
	refunded.name = "a refused purchase is refunded: the task about its money is closed"
	refunded.events = append(cases[0].events[:3:3], refund("created", aDay, "re_1", "succeeded", "pi_1", 1000))
	refunded.want = append(slices.DeleteFunc(slices.Clone(cases[0].want), func(line string) bool { return line == "task correction sub_1 open" }),
		"task correction sub_1 cancelled", "pi_1: acme in_1 1000 refunded 1000", "re_1: acme succeeded 1000", "booked refund re_1 1000 usd", "told billing.refund.succeeded re_1")
	cases = append(cases, refunded)
	storm := cases[0]
	storm.name, storm.inOrder, storm.basil = "a first purchase is refused", false, true
	stage{prepare: func(r *rig) {
		r.fault(`{"service":"workspaces","status":402,"plan":"pro","next":1000}`)
	}}.judgeBoth(t, append(cases, storm))
}

// permutations returns all orders of n things.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}
