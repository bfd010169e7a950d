package billing_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Each case consists of the delivered facts, and of the state that the billing model requires after them, in every
// order of delivery. The numbers of the cases are the numbers in the model.
type workedCase struct {
	name  string
	facts []fact.Fact
	// now is the second at which the state is read; 0 means 1000.
	now    int
	policy func(*fact.Policy)
	want   []string
	// due lists the scheduled actions in the form "why object step time-after-the-start". nil means any.
	due []string
}

func (c workedCase) terms() (fact.Policy, time.Time) {
	p, now := policy, 1000
	if c.policy != nil {
		c.policy(&p)
	}
	if c.now != 0 {
		now = c.now
	}
	return p, at(now)
}

var cases = []workedCase{
	{name: "1, 2 created, paid and updated within a second",
		facts: []fact.Fact{
			created(0, "incomplete", "pro"), paid(1, 1, "pro", reason("subscription_create")),
			updated(1, "active", "pro", from("incomplete", "pro")),
		},
		want: []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "1 only created",
		facts: []fact.Fact{created(0, "incomplete", "pro")},
		want:  []string{"sub_1: acme incomplete pro 1", "acme: suspended"}},
	{name: "3 paid alone",
		facts: []fact.Fact{paid(1, 1, "pro")},
		want:  []string{"sub_1: acme active pro 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "3 paid alone, just now", now: 300,
		facts: []fact.Fact{paid(1, 1, "pro")},
		want:  []string{"sub_1: acme active pro 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"},
		due:   []string{"settle sub_1 at 10m1s"}},
	{name: "3 paid alone, long after", now: 3 * month,
		facts: []fact.Fact{paid(1, 1, "pro")},
		want:  []string{"sub_1: acme active pro 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "3 paid and incomplete",
		facts: []fact.Fact{created(5, "incomplete", "starter"), paid(1, 1, "pro")},
		want:  []string{"sub_1: acme active pro 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "3 a trial's first invoice alone",
		facts: []fact.Fact{paid(1, 1, "pro", reason("subscription_create"), func(f *fact.Fact) {
			f.Invoice.Due, f.Invoice.Paid, f.Invoice.Lines[0].Amount = 0, 0, 0
		})},
		want: []string{"sub_1: acme trialing pro 1 until+816h0m0s evidence", "in_1: acme paid pro 0", "acme: active pro 1 api,projects"}},
	{name: "4, 5 deleted",
		facts: []fact.Fact{created(0, "incomplete", "pro"), paid(1, 1, "pro"), deleted(100, "pro")},
		want:  []string{"sub_1: acme canceled pro 1 ended+1m40s", "in_1: acme paid pro 1000", "acme: suspended"}},
	{name: "5 deleted, and a late update",
		facts: []fact.Fact{created(0, "active", "pro"), deleted(100, "pro"), updated(100, "active", "enterprise"), updated(150, "active", "pro")},
		want:  []string{"sub_1: acme canceled pro 1 ended+1m40s", "acme: suspended"}},
	{name: "6 paid after the end, for a period beyond it",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), deleted(100, "pro"), paid(2, 200, "pro")},
		want: []string{"sub_1: acme canceled pro 1 ended+1m40s paid-after-end=in_2", "in_1: acme paid pro 1000", "in_2: acme paid pro 1000",
			"acme: suspended"}},
	{name: "6 paid after the end, for a period before it",
		facts: []fact.Fact{created(0, "active", "pro"), deleted(2*month, "pro"), paid(1, 2*month+200, "pro")}, now: 3 * month,
		want: []string{"sub_1: acme canceled pro 1 ended+1440h0m0s", "in_1: acme paid pro 1000", "acme: suspended"}},
	{name: "6 paid in the second of the end",
		facts: []fact.Fact{created(0, "active", "pro"), deleted(100, "pro"), paid(1, 100, "pro")},
		want:  []string{"sub_1: acme canceled pro 1 ended+1m40s", "in_1: acme paid pro 1000", "acme: suspended"}},
	{name: "ended, granted until its paid period's end", policy: func(p *fact.Policy) { p.EndAtPeriodEnd = true },
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), deleted(100, "pro"), paid(2, 200, "pro")},
		want: []string{"sub_1: acme canceled pro 1 until+720h0m0s ends+720h0m0s ended+1m40s paid-after-end=in_2", "in_1: acme paid pro 1000",
			"in_2: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "ended, and its paid period is over", policy: func(p *fact.Policy) { p.EndAtPeriodEnd = true }, now: month,
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), deleted(100, "pro")},
		want: []string{"sub_1: acme canceled pro 1 until+720h0m0s ends+720h0m0s ended+1m40s", "in_1: acme paid pro 1000",
			"acme: suspended"}},
	{name: "7 two upgrades within a second",
		facts: []fact.Fact{created(0, "active", "starter"), updated(50, "active", "pro", from("active", "starter")), updated(50, "active", "enterprise", from("active", "pro"))},
		want:  []string{"sub_1: acme active enterprise 1", "acme: active enterprise 1 api,audit-log,projects,sso"}},
	{name: "7 a downgrade after an upgrade, within a second",
		facts: []fact.Fact{created(0, "active", "starter"), updated(50, "active", "enterprise", from("active", "starter")), updated(50, "active", "pro", from("active", "enterprise"))},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "7 there, back and elsewhere within a second",
		facts: []fact.Fact{updated(50, "active", "enterprise", from("active", "pro")), updated(50, "active", "pro", from("active", "enterprise")),
			updated(50, "active", "starter", from("active", "pro"))},
		want: []string{"sub_1: acme active starter 1", "acme: active starter 1 projects"}},
	{name: "two changes within a second, and what was between them is not known",
		facts: []fact.Fact{updated(50, "active", "pro", from("active", "starter")), updated(50, "paused", "enterprise", from("active", "enterprise"))},
		want:  []string{"sub_1: acme active pro 1 uncertain", "acme: active pro 1 api,projects"}},
	{name: "two changes within a second, fetched later",
		facts: []fact.Fact{updated(50, "active", "pro", from("active", "starter")), updated(50, "paused", "enterprise", from("active", "enterprise")),
			seen(53, fact.RankFetched, "paused", "enterprise", origin(fact.FromFetch))},
		want: []string{"sub_1: acme paused enterprise 1", "acme: suspended"}},
	{name: "a change, and one of a field that is not kept, within a second",
		facts: []fact.Fact{updated(50, "active", "pro", from("active", "starter")), updated(50, "active", "pro", from("active", "pro"))},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "two changes within a second of fields that are not kept, and what was between them is not known",
		facts: []fact.Fact{created(0, "active", "pro"), updated(50, "active", "pro", from("active", "pro")), updated(50, "active", "enterprise", from("active", "enterprise"))},
		want:  []string{"sub_1: acme active enterprise 1 uncertain", "acme: active enterprise 1 api,audit-log,projects,sso"}},
	{name: "8 an older update is late",
		facts: []fact.Fact{updated(60, "active", "pro"), updated(50, "past_due", "pro")},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "9 an old invoice is collected late",
		facts: []fact.Fact{paid(3, 300, "enterprise"), paid(2, 310, "pro")},
		want: []string{"sub_1: acme active enterprise 1 until+2256h0m0s evidence", "in_2: acme paid pro 1000", "in_3: acme paid enterprise 1000",
			"acme: active enterprise 1 api,audit-log,projects,sso"}},
	{name: "9 two invoices of one period, paid in one second: their IDs decide, and not which came first",
		facts: []fact.Fact{paid(1, 1, "pro"), paid(2, 1, "enterprise", inPeriodOf(1))},
		want: []string{"sub_1: acme active enterprise 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "in_2: acme paid enterprise 1000",
			"acme: active enterprise 1 api,audit-log,projects,sso"}},
	{name: "10 two subscriptions, one is downgraded",
		facts: []fact.Fact{created(0, "active", "pro"), created(0, "active", "pro", of("sub_2", "acme", "cus_2")), updated(50, "active", "starter", of("sub_2", "acme", "cus_2"))},
		want:  []string{"sub_1: acme active pro 1", "sub_2: acme active starter 1", "acme: active pro 1 api,projects"}},
	{name: "the seats of two subscriptions",
		facts: []fact.Fact{created(0, "active", "pro"), created(0, "active", "pro", of("sub_2", "acme", "cus_2"))},
		want:  []string{"sub_1: acme active pro 1", "sub_2: acme active pro 1", "acme: active pro 2 api,projects"}},
	{name: "11 a one-off invoice of a lower plan",
		facts: []fact.Fact{created(20, "active", "enterprise"), paid(1, 10, "starter", oneOff(10*day)), paid(2, 30, "starter", oneOff(0))},
		want: []string{"sub_1: acme active enterprise 1", "in_1: acme paid starter 1000", "in_2: acme paid starter 1000",
			"acme: active enterprise 1 api,audit-log,projects,sso"}},
	{name: "a one-off invoice alone",
		facts: []fact.Fact{paid(1, 10, "pro", oneOff(10*day))},
		want:  []string{"in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}, due: []string{"one_off in_1 at 240h0m10s"}},
	{name: "a one-off invoice whose time is over", now: 10 + 10*24*hour,
		facts: []fact.Fact{paid(1, 10, "pro", oneOff(10*day))},
		want:  []string{"in_1: acme paid pro 1000", "acme: suspended"}},
	{name: "12 failed twice, then paid",
		facts: []fact.Fact{created(0, "active", "pro"), failed(1, 10, 1, "pro"), failed(1, 20, 2, "pro"), paid(1, 30, "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000 failed[1 2]", "acme: active pro 1 api,projects"}, due: []string{}},
	{name: "12 failed twice",
		facts: []fact.Fact{created(0, "active", "pro"), failed(1, 10, 1, "pro"), failed(1, 20, 2, "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme open pro 0 failed[1 2]", "acme: active pro 1 api,projects"},
		due:   []string{"dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s"}},
	{name: "failed, and ended",
		facts: []fact.Fact{created(0, "active", "pro"), failed(1, 10, 1, "pro"), deleted(20, "pro")},
		want:  []string{"sub_1: acme canceled pro 1 ended+20s", "in_1: acme open pro 0 failed[1]", "acme: suspended"}, due: []string{}},
	{name: "failed outside of any subscription",
		facts: []fact.Fact{failed(1, 10, 1, "pro", oneOff(0))},
		want:  []string{"in_1: acme open pro 0 failed[1]"},
		due:   []string{"dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s"}},
	{name: "past its due date, which no event shows",
		facts: []fact.Fact{invoice(1, 10, "open", "pro", oneOff(0), dueBy(5*aDay))},
		want:  []string{"in_1: acme open pro 0"},
		due:   []string{"dunning in_1 at 120h0m0s", "dunning in_1 2 at 192h0m0s", "dunning in_1 3 at 288h0m0s", "dunning in_1 4 at 456h0m0s"}},
	{name: "past its due date, which an event shows later", now: 7 * aDay,
		facts: []fact.Fact{invoice(1, 10, "open", "pro", oneOff(0), dueBy(5*aDay)), failed(1, 6*aDay, 0, "pro", oneOff(0), dueBy(5*aDay))},
		want:  []string{"in_1: acme open pro 0 failed[0]"},
		due:   []string{"dunning in_1 2 at 216h0m0s", "dunning in_1 3 at 312h0m0s", "dunning in_1 4 at 480h0m0s"}},
	{name: "paid before its due date",
		facts: []fact.Fact{created(0, "active", "pro"), invoice(1, 10, "open", "pro", dueBy(5*aDay)), paid(1, 20, "pro", dueBy(5*aDay))},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}, due: []string{}},
	{name: "13 past due within its grace", now: 20 * 24 * hour,
		facts: []fact.Fact{created(0, "active", "pro"), updated(10, "past_due", "pro"), failed(1, 10, 1, "pro"), updated(20*24*hour, "past_due", "pro")},
		want: []string{"sub_1: acme past_due pro 1 until+504h0m10s ends+504h0m10s past-due+10s", "in_1: acme open pro 0 failed[1]",
			"acme: active pro 1 api,projects"}, due: []string{"grace sub_1 at 504h0m10s"}},
	{name: "13 past due, at once",
		facts: []fact.Fact{created(0, "active", "pro"), updated(10, "past_due", "pro"), failed(1, 10, 1, "pro")},
		want: []string{"sub_1: acme past_due pro 1 until+504h0m10s ends+504h0m10s past-due+10s", "in_1: acme open pro 0 failed[1]",
			"acme: active pro 1 api,projects"},
		due: []string{"dunning in_1 2 at 72h0m10s", "dunning in_1 3 at 168h0m10s", "dunning in_1 4 at 336h0m10s", "grace sub_1 at 504h0m10s"}},
	{name: "13 the grace is over", now: 10 + 21*24*hour,
		facts: []fact.Fact{created(0, "active", "pro"), updated(10, "past_due", "pro"), failed(1, 10, 1, "pro")},
		want: []string{"sub_1: acme past_due pro 1 until+504h0m10s ends+504h0m10s past-due+10s", "in_1: acme open pro 0 failed[1]",
			"acme: suspended"}},
	{name: "13 paid after the grace", now: 23 * 24 * hour,
		facts: []fact.Fact{updated(10, "past_due", "pro"), failed(1, 10, 1, "pro"), paid(1, 22*24*hour, "pro"), updated(22*24*hour, "active", "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000 failed[1]", "acme: active pro 1 api,projects"}, due: []string{}},
	{name: "past due and paid, and no event says that it is active", now: 60,
		facts: []fact.Fact{created(0, "active", "pro"), updated(10, "past_due", "pro"), failed(1, 10, 1, "pro"), paid(1, 30, "pro")},
		want:  []string{"sub_1: acme past_due pro 1 until+504h0m10s ends+504h0m10s past-due+10s", "in_1: acme paid pro 1000 failed[1]", "acme: active pro 1 api,projects"},
		due:   []string{"grace sub_1 at 504h0m10s", "settle sub_1 at 10m30s"}},
	{name: "past due, paid, and past due by another invoice", now: 60,
		facts: []fact.Fact{updated(10, "past_due", "pro"), paid(1, 30, "pro"), failed(2, 10, 1, "pro")},
		want:  []string{"sub_1: acme past_due pro 1 until+504h0m10s ends+504h0m10s past-due+10s", "in_1: acme paid pro 1000", "in_2: acme open pro 0 failed[1]", "acme: active pro 1 api,projects"},
		due:   []string{"dunning in_2 2 at 72h0m10s", "dunning in_2 3 at 168h0m10s", "dunning in_2 4 at 336h0m10s", "grace sub_1 at 504h0m10s"}},
	{name: "past due a second time", now: 40 * 24 * hour,
		facts: []fact.Fact{updated(10, "past_due", "pro"), updated(20, "active", "pro"), updated(30*24*hour, "past_due", "pro")},
		want:  []string{"sub_1: acme past_due pro 1 until+1224h0m0s ends+1224h0m0s past-due+720h0m0s", "acme: active pro 1 api,projects"}},
	{name: "17 a customer is linked later",
		facts: []fact.Fact{paid(1, 1, "pro", of("in_1", "", "")), linked("cus_1", 2, "acme"), created(0, "active", "pro", of("sub_1", "", ""))},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "17 a link moves what names no account, and nothing else",
		facts: []fact.Fact{created(0, "active", "pro"), created(0, "active", "starter", of("sub_2", "", "")), linked("cus_1", 2, "hooli")},
		want:  []string{"sub_1: acme active pro 1", "sub_2: hooli active starter 1", "acme: active pro 1 api,projects", "hooli: active starter 1 projects"}},
	{name: "a customer whose subscription names the account: a one-off invoice and a second subscription that name none",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 5, "starter", oneOff(0), of("in_1", "", "")), created(9, "active", "pro", of("sub_2", "", "")), paid(2, 9, "pro", of("in_2", "", ""), inSecond)},
		want:  []string{"sub_1: acme active pro 1", "sub_2: acme active pro 1", "in_1: acme paid starter 1000", "in_2: acme paid pro 1000", "acme: active pro 2 api,projects"}},
	{name: "a customer whose subscription names the account, and an invoice that names another",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 5, "starter", oneOff(10*day), of("in_1", "umbrella", ""))},
		want:  []string{"sub_1: acme active pro 1", "in_1: umbrella paid starter 1000", "acme: active pro 1 api,projects", "umbrella: active starter 1 projects"}},
	{name: "a customer whose subscriptions name two accounts: the first one decides",
		facts: []fact.Fact{created(0, "active", "pro"), created(5, "active", "pro", of("sub_2", "umbrella", "")), paid(1, 7, "starter", oneOff(0), of("in_1", "", ""))},
		want:  []string{"sub_1: acme active pro 1", "sub_2: umbrella active pro 1", "in_1: acme paid starter 1000", "acme: active pro 1 api,projects", "umbrella: active pro 1 api,projects"}},
	{name: "the account of a subscription changes: the rest of the customer follows",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 5, "starter", oneOff(10*day), of("in_1", "", "")), updated(9, "active", "pro", of("sub_1", "umbrella", ""))},
		want:  []string{"sub_1: umbrella active pro 1", "in_1: umbrella paid starter 1000", "umbrella: active pro 1 api,projects"}},
	{name: "17 no link: the customer is the account",
		facts: []fact.Fact{paid(1, 1, "pro", of("in_1", "", "")), created(0, "active", "pro", of("sub_1", "", ""))},
		want:  []string{"sub_1: cus_1 active pro 1", "in_1: cus_1 paid pro 1000", "cus_1: active pro 1 api,projects"}},
	{name: "the newest invoice names the account",
		facts: []fact.Fact{paid(1, 1, "pro", of("in_1", "acme", "")), paid(2, 2, "pro", of("in_2", "umbrella", "")), created(0, "active", "pro", of("sub_1", "", "")), linked("cus_1", 9, "hooli")},
		want: []string{"sub_1: umbrella active pro 1", "in_1: umbrella paid pro 1000", "in_2: umbrella paid pro 1000",
			"umbrella: active pro 1 api,projects"}},
	{name: "a person links the subscription",
		facts: []fact.Fact{created(0, "active", "pro"), linked("sub_1", 5, "hooli"), linked("sub_1", 9, "umbrella"), updated(20, "active", "pro")},
		want:  []string{"sub_1: umbrella active pro 1", "umbrella: active pro 1 api,projects"}},
	{name: "the checkout session that made it names the account",
		facts: []fact.Fact{created(0, "active", "pro", of("sub_1", "", "")), checkout("cs_1", 0, "acme", "sub_1"), checkout("cs_2", 5, "umbrella", "sub_2")},
		want:  []string{"sub_1: acme active pro 1", "sub_2: umbrella unknown no-plan 0", "acme: active pro 1 api,projects", "umbrella: suspended"}},
	{name: "a source maps the connected account",
		facts: []fact.Fact{created(0, "active", "pro", connected), paid(1, 1, "pro", connected)},
		want:  []string{"sub_1: umbrella active pro 1", "in_1: umbrella paid pro 1000", "umbrella: active pro 1 api,projects"}},
	{name: "18 moves to another account",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), updated(50, "active", "pro", of("sub_1", "umbrella", ""))},
		want:  []string{"sub_1: umbrella active pro 1", "in_1: umbrella paid pro 1000", "umbrella: active pro 1 api,projects"}},
	{name: "19 canceled at the period's end, and not",
		facts: []fact.Fact{created(0, "active", "pro"), updated(50, "active", "pro", with(canceling), from("active", "pro")), updated(60, "active", "pro", from("active", "pro", canceling))},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "19 canceled at the period's end",
		facts: []fact.Fact{created(0, "active", "pro"), updated(50, "active", "pro", with(canceling), from("active", "pro"))},
		want:  []string{"sub_1: acme active pro 1 until+720h0m0s ends+720h0m0s", "acme: active pro 1 api,projects"}},
	{name: "20 a notice of the trial's end is late",
		facts: []fact.Fact{created(0, "trialing", "pro"), seen(10, fact.RankNotice, "trialing", "pro"), updated(20, "active", "pro")},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "21 paused and resumed",
		facts: []fact.Fact{created(0, "trialing", "pro"), updated(1, "paused", "pro"), updated(2, "active", "pro")},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "21 paused, as two events tell",
		facts: []fact.Fact{updated(1, "paused", "pro", from("trialing", "pro")), updated(1, "paused", "pro")},
		want:  []string{"sub_1: acme paused pro 1", "acme: suspended"}},
	{name: "21 paused on the way, within a second",
		facts: []fact.Fact{updated(1, "paused", "pro", from("trialing", "pro")), updated(1, "paused", "pro"), updated(1, "active", "pro", from("paused", "pro"))},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "collection is paused",
		facts: []fact.Fact{created(0, "active", "pro"), updated(1, "active", "pro", with(func(s *fact.Subscription) { s.CollectionPaused = true }))},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "paid, and expired before it began",
		facts: []fact.Fact{created(0, "incomplete", "pro"), paid(1, 1, "pro"), updated(23*hour, "incomplete_expired", "pro", with(func(s *fact.Subscription) { s.EndedAt = at(23 * hour) }))},
		want:  []string{"sub_1: acme incomplete_expired pro 1 ended+23h0m0s paid-after-end=in_1", "in_1: acme paid pro 1000", "acme: suspended"}},
	{name: "22 withheld",
		facts: []fact.Fact{created(0, "active", "pro"), decided(fact.Withheld, "sub_1", 5, "pro", 1)},
		want:  []string{"sub_1: acme active pro 1 withheld", "acme: suspended"}, due: []string{}},
	{name: "22 withheld, then upgraded",
		facts: []fact.Fact{created(0, "active", "pro"), decided(fact.Withheld, "sub_1", 5, "pro", 1), updated(10, "active", "enterprise")},
		want:  []string{"sub_1: acme active enterprise 1", "acme: active enterprise 1 api,audit-log,projects,sso"}},
	{name: "22 withheld twice, then back to the first",
		facts: []fact.Fact{created(0, "active", "pro"), decided(fact.Withheld, "sub_1", 5, "pro", 1), updated(10, "active", "enterprise"),
			decided(fact.Withheld, "sub_1", 15, "enterprise", 1), updated(20, "active", "pro")},
		want: []string{"sub_1: acme active pro 1 withheld", "acme: suspended"}},
	{name: "22 withheld, then given again",
		facts: []fact.Fact{created(0, "active", "pro"), decided(fact.Withheld, "sub_1", 5, "pro", 1), decided(fact.Reopened, "sub_1", 6, "", 0)},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "22 an upgrade is withheld: what was granted before it stays",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), updated(5, "active", "enterprise", from("active", "pro")), paid(2, 5, "enterprise", inPeriodOf(1)), decided(fact.Withheld, "sub_1", 5, "enterprise", 1)},
		want:  []string{"sub_1: acme active enterprise 1", "in_1: acme paid pro 1000", "in_2: acme paid enterprise 1000", "acme: active pro 1 api,projects"}},
	{name: "22 an upgrade is withheld, of which its own event alone tells",
		facts: []fact.Fact{updated(5, "active", "enterprise", from("active", "pro")), decided(fact.Withheld, "sub_1", 5, "enterprise", 1)},
		want:  []string{"sub_1: acme active enterprise 1", "acme: active pro 1 api,projects"}},
	{name: "22 more seats are withheld",
		facts: []fact.Fact{created(0, "active", "pro", with(seats(5))), updated(5, "active", "pro", with(seats(50))), decided(fact.Withheld, "sub_1", 5, "pro", 50)},
		want:  []string{"sub_1: acme active pro 50", "acme: active pro 5 api,projects"}},
	{name: "22 an add-on is withheld: the plan stays",
		facts: []fact.Fact{created(0, "active", "pro"), updated(5, "active", "pro", with(besideSSO)), changed(decided(fact.Withheld, "sub_1", 5, "pro", 1), func(f *fact.Fact) {
			f.Decision.Prices = append(f.Decision.Prices, fact.Bought{Price: "price_sso", Quantity: 1})
		})},
		want: []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "22 an upgrade is withheld, and the subscription ends",
		facts: []fact.Fact{created(0, "active", "pro"), updated(5, "active", "enterprise"), decided(fact.Withheld, "sub_1", 5, "enterprise", 1), deleted(9, "enterprise")},
		want:  []string{"sub_1: acme canceled enterprise 1 ended+9s", "acme: suspended"}},
	{name: "22 a first purchase is withheld: no invoice of it grants instead",
		facts: []fact.Fact{created(0, "incomplete", "pro"), paid(1, 1, "pro"), updated(1, "active", "pro", from("incomplete", "pro")), decided(fact.Withheld, "sub_1", 2, "pro", 1)},
		want:  []string{"sub_1: acme active pro 1 withheld", "in_1: acme paid pro 1000", "acme: suspended"}},
	{name: "22 withheld, before a snapshot: a person refunds it, and compares nothing",
		facts: []fact.Fact{paid(1, 1, "pro"), decided(fact.Withheld, "sub_1", 2, "pro", 1)},
		want:  []string{"sub_1: acme active pro 1 until+816h0m0s evidence withheld", "in_1: acme paid pro 1000", "acme: suspended"}, due: []string{}},
	{name: "a hold on the account",
		facts: []fact.Fact{created(0, "active", "pro"), onAccount(fact.Held, "acme", 5)},
		want:  []string{"sub_1: acme active pro 1", "acme: suspended"}},
	{name: "a hold on the subscription, and its end",
		facts: []fact.Fact{created(0, "active", "pro"), decided(fact.Held, "sub_1", 5, "", 0), decided(fact.Released, "sub_1", 6, "", 0), onAccount(fact.Released, "acme", 7)},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "24 an import shows as active what an event ended",
		facts: []fact.Fact{seen(100, fact.RankFetched, "active", "pro", origin(fact.FromImport)), deleted(50, "pro")},
		want:  []string{"sub_1: acme canceled pro 1 ended+50s import_disagrees", "acme: suspended"}},
	{name: "25 a notice in the second of an upgrade",
		facts: []fact.Fact{updated(50, "active", "pro"), seen(50, fact.RankNotice, "trialing", "starter")},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "27 on and off within a second",
		facts: []fact.Fact{created(0, "active", "pro"), updated(50, "active", "pro", with(canceling), from("active", "pro")), updated(50, "active", "pro", from("active", "pro", canceling))},
		want:  []string{"sub_1: acme active pro 1", "acme: active pro 1 api,projects"}},
	{name: "27 off and on again within a second",
		facts: []fact.Fact{created(0, "active", "pro", with(canceling)), updated(50, "active", "pro", from("active", "pro", canceling)), updated(50, "active", "pro", with(canceling), from("active", "pro"))},
		want:  []string{"sub_1: acme active pro 1 until+720h0m0s ends+720h0m0s", "acme: active pro 1 api,projects"}},
	{name: "27 with a notice in the midst of the second",
		facts: []fact.Fact{created(0, "trialing", "pro"), updated(50, "trialing", "pro", with(canceling), from("trialing", "pro")),
			seen(50, fact.RankNotice, "trialing", "pro", with(canceling)), updated(50, "trialing", "pro", from("trialing", "pro", canceling))},
		want: []string{"sub_1: acme trialing pro 1", "acme: active pro 1 api,projects"}},
	{name: "27 without the beginning",
		facts: []fact.Fact{updated(50, "active", "pro", with(canceling), from("active", "pro")), updated(50, "active", "pro", from("active", "pro", canceling))},
		want:  []string{"sub_1: acme active pro 1 uncertain", "acme: active pro 1 api,projects"}},
	{name: "28 renewed by invoices alone", now: month + 5*hour,
		facts: []fact.Fact{paid(1, 1, "pro"), paid(2, month+hour, "pro")},
		want: []string{"sub_1: acme active pro 1 until+1536h0m0s evidence", "in_1: acme paid pro 1000", "in_2: acme paid pro 1000",
			"acme: active pro 1 api,projects"}},
	{name: "28 before the renewal came", now: month + 4*hour,
		facts: []fact.Fact{paid(1, 1, "pro")},
		want:  []string{"sub_1: acme active pro 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "30 a planned end, before it",
		facts: []fact.Fact{updated(50, "active", "pro", with(func(s *fact.Subscription) { s.CancelAt = at(2000) }))},
		want:  []string{"sub_1: acme active pro 1 until+33m20s ends+33m20s", "acme: active pro 1 api,projects"}, due: []string{"end sub_1 at 33m20s"}},
	{name: "30 a planned end, after it", now: 2000,
		facts: []fact.Fact{updated(50, "active", "pro", with(func(s *fact.Subscription) { s.CancelAt = at(2000) }))},
		want:  []string{"sub_1: acme active pro 1 until+33m20s ends+33m20s", "acme: suspended"}},
	{name: "31 never paid", now: 2 * 24 * hour,
		facts: []fact.Fact{created(0, "incomplete", "pro"), failed(1, 1, 1, "pro", reason("subscription_create")), updated(23*hour, "incomplete_expired", "pro"),
			invoice(1, 23*hour, "void", "pro", reason("subscription_create"))},
		want: []string{"sub_1: acme incomplete_expired pro 1 ended+23h0m0s", "in_1: acme void pro 0 failed[1]", "acme: suspended"}, due: []string{}},
	{name: "31 the first payment fails",
		facts: []fact.Fact{created(0, "incomplete", "pro"), failed(1, 1, 1, "pro", reason("subscription_create"))},
		want:  []string{"sub_1: acme incomplete pro 1", "in_1: acme open pro 0 failed[1]", "acme: suspended"}, due: []string{}},
	{name: "32 uncollectible, then paid",
		facts: []fact.Fact{updated(10, "past_due", "pro"), invoice(1, 20, "uncollectible", "pro"), paid(1, 40, "pro"), updated(40, "active", "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}, due: []string{}},
	{name: "paid and void",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 10, "pro"), invoice(1, 20, "void", "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000 paid_and_void", "acme: active pro 1 api,projects"}},
	{name: "paid, then open",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 10, "pro"), invoice(1, 20, "open", "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000 paid_then_open", "acme: active pro 1 api,projects"}},
	{name: "finalized in the second of the payment",
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 10, "pro"), invoice(1, 10, "open", "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "a draft is deleted",
		facts: []fact.Fact{created(0, "active", "pro"), invoice(2, 10, "draft", "pro"), invoice(2, 20, "deleted", "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_2: acme deleted pro 0", "acme: active pro 1 api,projects"}},
	{name: "upgraded, and granted with the payment, which has not come", policy: func(p *fact.Policy) { p.GrantOnPayment = true },
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(50, "active", "pro", from("active", "starter"))},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid starter 1000", "acme: active starter 1 projects"}},
	{name: "upgraded, and granted with the payment", policy: func(p *fact.Policy) { p.GrantOnPayment = true },
		facts: []fact.Fact{created(0, "active", "starter"), paid(1, 1, "starter"), updated(50, "active", "pro", from("active", "starter")), paid(2, 60, "pro")},
		want:  []string{"sub_1: acme active pro 1", "in_1: acme paid starter 1000", "in_2: acme paid pro 1000", "acme: active pro 1 api,projects"}},
	{name: "downgraded, where upgrades are granted with the payment", policy: func(p *fact.Policy) { p.GrantOnPayment = true },
		facts: []fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), updated(50, "active", "starter", from("active", "pro"))},
		want:  []string{"sub_1: acme active starter 1", "in_1: acme paid pro 1000", "acme: active starter 1 projects"}},
	{name: "more seats, granted with the payment, and no invoice was seen", policy: func(p *fact.Policy) { p.GrantOnPayment = true },
		facts: []fact.Fact{created(0, "active", "pro"), updated(50, "active", "pro", with(func(s *fact.Subscription) { s.Items[0].Quantity = 5 }))},
		want:  []string{"sub_1: acme active pro 5", "acme: active pro 1 api,projects"}},
	{name: "an item of a higher plan is kept at quantity 0",
		facts: []fact.Fact{created(0, "active", "enterprise"), updated(50, "active", "enterprise", with(keptAtZero)), paid(1, 60, "enterprise", withLines(
			fact.Line{Price: "price_enterprise", None: true}, fact.Line{Price: "price_unmapped", None: true}, fact.Line{Price: "price_sso", None: true},
			fact.Line{Price: "price_starter", Quantity: 4, Amount: 1000}))},
		want: []string{"sub_1: acme active starter 4", "in_1: acme paid starter 1000", "acme: active starter 4 projects"}},
	{name: "a line without a quantity, and one at quantity 0 that costs something",
		facts: []fact.Fact{paid(1, 1, "pro", withLines(fact.Line{Price: "price_starter", Quantity: 4, Amount: 1000}, fact.Line{Price: "price_pro", Amount: 1000})),
			paid(2, 2, "enterprise", withLines(fact.Line{Price: "price_enterprise", None: true, Amount: 1000}), of("in_2", "acme", ""), func(f *fact.Fact) {
				f.Invoice.Subscription, f.Invoice.Lines[0].Subscription = "sub_2", "sub_2"
			})},
		want: []string{"sub_1: acme active pro 0 until+816h0m0s evidence", "sub_2: acme active enterprise 0 until+1536h0m0s evidence", "in_1: acme paid pro 1000",
			"in_2: acme paid enterprise 1000", "acme: active enterprise 0 api,audit-log,projects,sso"}},
	{name: "all items are kept at quantity 0, and metadata names a plan",
		facts: []fact.Fact{created(0, "active", "pro"), updated(50, "active", "pro", with(func(s *fact.Subscription) {
			s.Plan, s.Items[0].Quantity, s.Items[0].None = "enterprise", 0, true
		}))},
		want: []string{"sub_1: acme active no-plan 0", "acme: suspended"}},
	{name: "a price that no mapping knows",
		facts: []fact.Fact{created(0, "active", "starter"), updated(50, "active", "pro"), updated(60, "active", "")},
		want:  []string{"sub_1: acme active pro 1 unknown-price=price_", "acme: active pro 1 api,projects"}},
	{name: "an add-on is invoiced after the plan, and no snapshot has come",
		facts: []fact.Fact{paid(1, 1, "pro"), paid(2, 2, "sso", inPeriodOf(1))},
		want: []string{"sub_1: acme active pro 1 until+816h0m0s evidence", "in_1: acme paid pro 1000", "in_2: acme paid 1000",
			"acme: active pro 1 api,projects,sso"}},
	{name: "a price that no mapping knows, paid",
		facts: []fact.Fact{paid(1, 1, "pro"), paid(2, 2, "")},
		want: []string{"sub_1: acme active pro 1 until+1536h0m0s evidence unknown-price=price_", "in_1: acme paid pro 1000", "in_2: acme paid 1000",
			"acme: active pro 1 api,projects"}},
}

// keptAtZero adds items with quantity 0 to a subscription with four seats of the starter plan.
func keptAtZero(s *fact.Subscription) {
	left := s.Items[0]
	s.Items[0].Quantity, s.Items[0].None = 0, true
	left.ID, left.Price, left.Quantity = "si_2", "price_starter", 4
	sso := s.Items[0]
	sso.ID, sso.Price = "si_3", "price_sso"
	s.Items = append(s.Items, left, sso)
}

// withLines sets the lines of an invoice, with its period and subscription.
func withLines(lines ...fact.Line) change {
	return func(f *fact.Fact) {
		was := f.Invoice.Lines[0]
		f.Invoice.Lines = slices.Clone(lines)
		for n := range f.Invoice.Lines {
			l := &f.Invoice.Lines[n]
			l.Subscription, l.PeriodStart, l.PeriodEnd = was.Subscription, was.PeriodStart, was.PeriodEnd
		}
	}
}

func seats(n int64) func(*fact.Subscription) {
	return func(s *fact.Subscription) { s.Items[0].Quantity = n }
}

// inSecond moves an invoice to sub_2.
func inSecond(f *fact.Fact) {
	f.Invoice.Subscription, f.Invoice.Lines[0].Subscription = "sub_2", "sub_2"
}

// dueBy sets the due date of an invoice.
func dueBy(second int) change { return func(f *fact.Fact) { f.Invoice.DueAt = at(second) } }

func besideSSO(s *fact.Subscription) {
	sso := s.Items[0]
	sso.ID, sso.Price = "si_2", "price_sso"
	s.Items = append(s.Items, sso)
}

func checkout(id string, second int, account, subscription string) fact.Fact {
	return makeFact(fact.CheckoutSeen, id, second, fact.RankChange, fact.Data{Checkout: &fact.Checkout{
		Mode: "subscription", Status: "complete", PaymentStatus: "paid", Subscription: subscription, Account: account, Currency: "usd",
	}})
}

func TestCases_EveryOrder_SameEnd(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, now := c.terms()
			want := slices.Sorted(slices.Values(c.want))
			for _, backwards := range []bool{false, true} {
				orders(events(c.facts, backwards), func(delivered []fact.Fact) {
					if got := foldAll(delivered, p, now).lines(); !slices.Equal(got, want) {
						t.Fatalf("after %s\n got %q\nwant %q", told(delivered), got, want)
					}
				})
			}
		})
	}
}

// told describes the order of delivery in failure messages.
func told(delivered []fact.Fact) string {
	var said []string
	for _, f := range delivered {
		said = append(said, fmt.Sprintf("%s:%s@%s", f.EventID, f.Object, f.OccurredAt.Sub(begin)))
	}
	return fmt.Sprint(said)
}
