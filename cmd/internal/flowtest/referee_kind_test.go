package flowtest

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/schematest"
)

// This file contains scenarios that need a policy or a failing service, and purchases that a customer makes by
// mistake or without Checkout.

// refereeKinds lists the kinds of scenarios that TestReferee must produce with its fixed seed; otherwise the test
// fails.
var refereeKinds = []string{
	"buys the plan twice", "pays by the API", "is refunded in twelve parts", "has a schedule", "has its upgrade paid",
	"disputes the paid month", "disputes a month that is over", "has its workspace refused", "has twelve items, and no key fetches them",
	"has the worker killed", "buys a week", "has money captured", "tops up", "is billed once", "pays a part of", "is refunded", "is credited",
	"is deleted", "replaces its subscription", "disputes", "has no money for", "is late with",
}

// settings adapts the configuration of a season to the season's mode.
func (m refereeMode) settings(c *config.Config) {
	if m.paidPlans {
		c.Policy.GrantPlanOn = "payment"
	}
	if m.takes {
		c.Policy.Dispute, c.Policy.DisputeLost = "hold", "end"
	}
}

// agenda lists the scenarios that the companies of every mode play first, one per company.
var agenda = []func(*company){(*company).buysTwice, (*company).paysByAPI, (*company).isRefundedInParts}

// purposely plays the scenario that a company must have.
func (c *company) purposely() {
	if c.sub.status != "active" {
		return
	}
	c.wait(time.Hour)
	switch {
	case c.paidPlans:
		c.hasSchedule()
	case c.takes:
		c.disputesMonths()
	default:
		agenda[c.nth%len(agenda)](c)
	}
}

// buysTwice is a second Checkout of a customer who already has the plan. It creates a second customer and a second
// subscription of the same account: https://docs.stripe.com/payments/checkout/limit-subscriptions. Support ends the
// second subscription and refunds it.
func (c *company) buysTwice() {
	if c.sub.status != "active" || !c.now.Add(3*aDay).Before(c.sub.end) {
		return
	}
	c.did("buys the plan twice")
	first := *c
	defer func() { // even if the scenario ends earlier
		c.twin, c.sub = c.sub, first.sub
		c.second, c.credit, c.pending, c.invoiced, c.coupon, c.extras = false, first.credit, first.pending, first.invoiced, first.coupon, first.extras
	}()
	c.second, c.credit, c.pending, c.invoiced, c.coupon, c.extras = true, 0, nil, false, 0, 0
	c.twin = first.sub
	c.shows("customer.created", c.customerObject(), nil)
	c.sub = worldSubscription{id: c.id("sub"), plan: first.sub.plan, granted: first.sub.plan, seats: first.sub.seats, begun: c.now, start: c.now, end: c.now.Add(aMonth), status: "active"}
	c.may["letter subscription-ended "+c.sub.id] = true
	c.shows("customer.subscription.created", c.subscriptionObject(), nil)
	i := c.bill("subscription_create")
	c.finalize(i)
	c.pay(i)
	c.session("paid", i)
	c.wait(time.Duration(1+c.IntN(40)) * time.Hour)
	c.refund(i, i.due)
	c.sub.status, c.sub.ended = "canceled", c.now
	c.shows("customer.subscription.deleted", c.subscriptionObject(), nil)
	if plan, _ := c.access(); plan == "" {
		c.hears("subscription-ended", c.sub.id)
	}
}

// paysByAPI simulates a payment intent that a program creates for the customer, without an invoice or session. Since
// API version basil, no event shows that the payment has no invoice. Without an API key, pawl does not book the
// payment: docs/billing/entries.md, unknown payments. With an API key, pawl fetches the payment when money is
// refunded.
func (c *company) paysByAPI() {
	c.did("pays by the API")
	amount := 700 + c.Int64N(3000)
	i := &worldInvoice{due: amount, paid: amount, payment: c.id("pi"), charge: c.id("ch"), status: "paid"}
	c.shows("charge.succeeded", c.chargeObject(i), nil)
	c.shows("payment_intent.succeeded", c.intentObject(i), nil)
	if c.v >= basil && !c.asked {
		return
	}
	c.books.post("bank", "sales", amount)
	c.charged(amount)
	c.sales = append(c.sales, &sale{worldInvoice: i, at: c.now})
	if c.v >= basil {
		c.refund(i, amount/3)
	}
}

// isRefundedInParts creates more refunds of a charge than the list in an event contains.
func (c *company) isRefundedInParts() {
	paid := c.refundable()
	if len(paid) == 0 {
		return
	}
	i := paid[c.IntN(len(paid))]
	part := (i.due - i.returned - i.credited) / 20
	if part == 0 {
		return
	}
	c.did("is refunded in twelve parts: %s", i.id)
	for range 12 {
		c.wait(time.Hour)
		c.refund(i, part)
	}
}

// hasSchedule changes the plan with a subscription schedule: at the renewal, or in the middle of the month, which is
// billed at once. https://docs.stripe.com/billing/subscriptions/subscription-schedules. With policy.grant_plan_on:
// payment, a payment grants a higher plan, and the change itself grants a lower plan: docs/billing/access.md.
func (c *company) hasSchedule() {
	if c.sub.status != "active" || c.sub.cancels || !c.now.Before(c.sub.end) || c.sub.granted != c.sub.plan {
		return
	}
	plan := pick(c.Rand, "starter", "pro", "enterprise")
	c.did("has a schedule: %s to %s", c.sub.plan, plan)
	c.changes(func() { c.sub.schedule = c.id("sub_sched") })
	if c.chance(2) {
		c.wait(c.sub.end.Sub(c.now))
		c.scheduled = plan
		c.renew()
	} else {
		c.wait(c.sub.end.Sub(c.now) / 2)
		old := c.sub
		c.changes(func() {
			c.sub.plan = plan
			c.lowers()
		})
		c.prorates(old)
		i := c.bill("subscription_update")
		c.finalize(i)
		c.collect(i)
	}
	if c.sub.status == "active" {
		c.changes(func() { c.sub.schedule = "" })
	}
}

var planOrder = []string{"", "starter", "pro", "enterprise"}

// lowers grants the ordered plan if it is not higher than the granted plan, or if the policy does not wait for
// payments.
func (c *company) lowers() {
	if !c.paidPlans || slices.Index(planOrder, c.sub.plan) <= slices.Index(planOrder, c.sub.granted) {
		c.sub.granted = c.sub.plan
	}
}

// covers grants the plan that a paid invoice sells.
func (c *company) covers(i *worldInvoice) {
	if i.sub != c.sub.id || i.once || c.sub.granted == c.sub.plan {
		return
	}
	for _, l := range i.lines {
		if l.plan == c.sub.plan && l.amount >= 0 {
			old := c.sub
			c.did("has its upgrade paid")
			c.sub.granted = c.sub.plan
			c.hearsOfChange(old)
			return
		}
	}
}

// disputesMonths disputes a past month, the current month, or both.
func (c *company) disputesMonths() {
	first := c.newestPaid(c.sub)
	if c.chance(2) || first == nil || first.charge == "" {
		c.wait(time.Duration(1+c.IntN(9)) * aDay)
		c.disputesPaid()
		return
	}
	c.wait(c.sub.end.Sub(c.now))
	c.renew()
	c.wait(time.Duration(1+c.IntN(4)) * aDay)
	c.did("disputes a month that is over")
	c.dispute(first)
	if c.chance(2) {
		c.disputesPaid()
	}
}

func (c *company) disputesPaid() {
	if i := c.newestPaid(c.sub); i != nil && i.charge != "" && i.disputed == 0 && i.returned+i.credited == 0 && i.paid == i.due {
		c.did("disputes the paid month")
		c.dispute(i)
	}
}

// newestPaid returns the paid invoice with the newest period of the subscription.
func (c *company) newestPaid(s worldSubscription) (newest *worldInvoice) {
	for _, i := range c.invoices {
		if i.sub == s.id && i.status == "paid" && (i.reason == "subscription_create" || i.reason == "subscription_cycle") {
			newest = i
		}
	}
	return newest
}

// taken reports whether a dispute revokes the access that a payment granted: while the dispute is open with policy
// dispute: hold, and after it is lost with dispute_lost: end.
func (c *company) taken(i *worldInvoice) bool {
	return c.takes && i != nil && slices.ContainsFunc(c.disputes, func(d *worldDispute) bool { return d.of == i && d.status != "won" })
}

// isRefused simulates a customer whose plan the workspace service rejects: docs/effects.md, a refused purchase.
// Support refunds the payment, which closes the task, ends the subscription, and sells a plan that the service
// accepts.
func (c *company) isRefused() {
	c.did("has its workspace refused")
	c.plan = refusedPlan
	c.signUp()
	c.wait(time.Duration(1+c.IntN(60)) * time.Hour)
	i := c.newestPaid(c.sub)
	c.mails = slices.DeleteFunc(c.mails, func(of string) bool { return of == i.id })
	c.hears("correction", i.id)
	for _, line := range []string{"mailed " + i.id, "letter correction " + i.id, "letter subscription-ended " + c.sub.id} {
		c.may[line] = true
	}
	c.refund(i, i.due)
	c.did("ends")
	c.sub.status, c.sub.ended = "canceled", c.now
	c.shows("customer.subscription.deleted", c.subscriptionObject(), nil)
	c.plan = "starter"
	c.wait(time.Duration(1+c.IntN(60)) * time.Hour)
	c.signUp()
	for range 2 {
		c.wait(c.sub.end.Sub(c.now))
		c.renew()
	}
}

const refusedPlan = "pro"

// mostKills is the maximum number of times that a season kills its worker. After each, the test waits until Temporal
// notices the kill.
var mostKills = schematest.OrLong(2, 4)

// mortal is a season whose worker can be killed.
type mortal struct {
	gate *gate
	kill func()
	seen map[string]bool
}

// kills kills the worker while it applies an event, before or after it stores the facts, and starts another worker.
func (s *season) kills(events []shown, send func()) {
	if s.mortal == nil {
		s.mortal = &mortal{seen: map[string]bool{}}
	}
	m := s.mortal
	var held []string
	for _, e := range events {
		if first := !m.seen[e.id]; first && e.kind == "invoice.paid" && s.killed < mostKills {
			held = append(held, e.id)
		}
		m.seen[e.id] = true
	}
	if m.gate == nil { // alternates between before and after the facts are stored
		m.gate = newGate(s.killed%2 == 0)
		m.kill = s.hire(m.gate)
	}
	for _, id := range held {
		m.gate.hold(id, "apply-facts")
	}
	send()
	if len(held) == 0 {
		return
	}
	s.standStill(m.gate, len(held))
	m.kill()
	s.killed++
	m.gate = newGate(s.killed%2 == 0)
	m.kill = s.hire(m.gate)
}
