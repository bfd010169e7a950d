package forge

import (
	"fmt"
	"maps"
	"time"
)

// Subscribe buys seats of a plan. The customer pays the first invoice at once; during a trial its amount is 0.
func (c *Customer) Subscribe(plan Plan, seats int64, trial int) {
	c.begin(plan, seats)
	if trial > 0 {
		c.end = c.now.Add(c.days(trial))
		c.subscription.object["status"], c.subscription.object["trial_start"],
			c.subscription.object["trial_end"] = "trialing", c.now.Unix(), c.end.Unix()
	}
	c.pay(c.open())
}

// SubscribeAtCheckout buys seats of a plan at the Checkout. Only the checkout session names the account. The
// session's event comes last, because the session completes after the first invoice is paid and the subscription is
// active.
func (c *Customer) SubscribeAtCheckout(plan Plan, seats int64) {
	c.atCheckout = true
	c.begin(plan, seats)
	c.subscription.object["status"] = "incomplete"
	i := c.open()
	c.pay(i)
	c.subscription.object["status"] = "active"
	c.update()
	session := c.make("checkout.session.completed", i.seed)
	session["amount_subtotal"], session["amount_total"] = i.object["subtotal"], i.object["total"]
	session["metadata"] = object{}
	c.emit("checkout.session.completed", session)
}

// SubscribeByInvoice buys seats of a plan and pays by invoice, each due after the given number of days.
func (c *Customer) SubscribeByInvoice(plan Plan, seats int64, due int) {
	c.begin(plan, seats)
	c.subscription.object["collection_method"], c.subscription.object["days_until_due"] = "send_invoice", due
	c.open()
}

// begin makes a subscription that begins now.
func (c *Customer) begin(plan Plan, seats int64) {
	c.subscription = subscription{object: c.make("customer.subscription.created", ""), plan: plan, seats: seats,
		start: c.now, end: c.now.Add(c.days(plan.Days))}
	c.subscription.object["status"], c.subscription.object["billing_cycle_anchor"] = "active", c.now.Unix()
}

// open emits the subscription, and the invoice for its first period.
func (c *Customer) open() *invoice {
	i := c.invoice("subscription_create")
	if days, sent := c.subscription.object["days_until_due"].(int); sent {
		i.object["due_date"] = c.now.Add(c.days(days)).Unix()
	}
	c.show()
	c.emit("customer.subscription.created", c.subscription.object)
	first := line{plan: c.plan, seats: c.seats, amount: c.plan.Amount * c.seats, start: c.start, end: c.end}
	if c.subscription.object["status"] == "trialing" {
		first.amount = 0
	}
	c.bill(i, first)
	return i
}

// GetOverdue makes the newest invoice overdue.
func (c *Customer) GetOverdue() { c.emit("invoice.overdue", c.newest().object) }

// Transfer pays the newest invoice by bank transfer. The company marks it as paid outside of Stripe.
func (c *Customer) Transfer() {
	i := c.newest()
	if c.settled(i); !c.basil() {
		i.object["paid_out_of_band"], i.object["payment_intent"] = true, nil
	}
	c.emit("invoice.paid", i.object)
}

// TrialEndsSoon emits the event three days before the end of the trial.
func (c *Customer) TrialEndsSoon() {
	c.emit("customer.subscription.trial_will_end", c.subscription.object)
}

// Renew begins the next period and pays for it. It also ends a trial.
func (c *Customer) Renew() {
	i := c.nextPeriod()
	c.subscription.object["status"] = "active"
	c.update()
	c.pay(i)
}

// RenewInVain begins the next period, and the payment fails.
func (c *Customer) RenewInVain() {
	i := c.nextPeriod()
	c.subscription.object["status"] = "past_due"
	c.fail(i)
	c.update()
}

// RetryInVain makes another payment attempt for the open invoice, which fails.
func (c *Customer) RetryInVain() { c.fail(c.newest()) }

// Pay pays the open invoice.
func (c *Customer) Pay() {
	c.pay(c.newest())
	if c.subscription.object["status"] == "past_due" {
		c.subscription.object["status"] = "active"
		c.update()
	}
}

// Change changes the plan or the seats in the middle of the period. A higher amount is invoiced and paid at once for
// the rest of the period. A lower amount is credited on the next invoice. A plan with another period starts a new
// period.
func (c *Customer) Change(plan Plan, seats int64) {
	unused := line{plan: c.plan, seats: c.seats, start: c.now, end: c.end, proration: true}
	unused.amount = -c.rest(c.plan.Amount * c.seats)
	if plan.Days != c.plan.Days {
		c.plan, c.seats, c.start, c.end = plan, seats, c.now, c.now.Add(c.days(plan.Days))
		c.subscription.object["billing_cycle_anchor"] = c.now.Unix()
		c.settle(unused, line{plan: plan, seats: seats, amount: plan.Amount * seats, start: c.start, end: c.end})
		return
	}
	more := plan.Amount*seats > c.plan.Amount*c.seats
	used := line{plan: plan, seats: seats, amount: c.rest(plan.Amount * seats), start: c.now, end: c.end,
		proration: true}
	c.plan, c.seats = plan, seats
	if more {
		c.settle(unused, used)
		return
	}
	c.later = append(c.later, unused, used)
	c.update()
}

// settle invoices lines at once, pays them, and emits the subscription in its current state.
func (c *Customer) settle(lines ...line) {
	i := c.invoice("subscription_update")
	c.update()
	c.bill(i, lines...)
	c.pay(i)
}

// rest returns the part of an amount for the rest of the period.
func (c *Customer) rest(amount int64) int64 {
	whole := int64(c.end.Sub(c.start) / time.Second)
	return amount * int64(c.end.Sub(c.now)/time.Second) / max(whole, 1)
}

// CancelAtPeriodEnd schedules the end for the end of the period, as the portal does.
func (c *Customer) CancelAtPeriodEnd() {
	c.subscription.object["cancel_at"], c.subscription.object["canceled_at"] = c.end.Unix(), c.now.Unix()
	c.update()
}

// End ends the subscription.
func (c *Customer) End() {
	c.subscription.object["status"], c.subscription.object["ended_at"] = "canceled", c.now.Unix()
	if c.subscription.object["canceled_at"] == nil {
		c.subscription.object["canceled_at"] = c.now.Unix()
	}
	c.show()
	c.emit("customer.subscription.deleted", c.subscription.object)
}

// Refund refunds amount of the last payment. If amount is 0, it refunds the rest of the payment.
func (c *Customer) Refund(amount int64) {
	charge := c.told[c.id("charge.succeeded", c.newest().seed)]
	paid, refunded := whole(charge["amount"]), whole(charge["amount_refunded"])
	if amount == 0 {
		amount = paid - refunded
	}
	c.refunds++
	c.refund = c.make("refund.created", c.newest().seed)
	c.refund["id"], c.refund["amount"] = fmt.Sprintf("re_%s",
		hash(c.newest().seed, fmt.Sprint("refund ", c.refunds), 24)), amount
	charge = maps.Clone(charge)
	charge["amount_refunded"], charge["refunded"] = refunded+amount, refunded+amount == paid
	if c.chargesAlone() {
		c.refund["status"] = "succeeded"
		c.emitWith("charge.refunded", charge, "refunds", object{"object": "list", "data": []any{c.refund}})
		return
	}
	c.emit("refund.created", c.refund)
	c.emit("charge.refunded", charge)
	c.refund["status"] = "succeeded"
	c.emit("refund.updated", c.refund)
}

// RefundFails makes the last refund fail.
func (c *Customer) RefundFails() {
	c.refund["status"], c.refund["failure_reason"] = "failed", "expired_or_canceled_card"
	if c.chargesAlone() {
		c.refund["failure_balance_transaction"] = "txn_" + hash(c.newest().seed, fmt.Sprint("failure ", c.refunds), 24)
		c.emit("charge.refund.updated", c.refund)
		return
	}
	c.emit("refund.failed", c.refund)
}

// chargesAlone reports whether the API version announces refunds only by events of the charge. Failed refunds have
// their own event in these API versions, too.
func (c *Customer) chargesAlone() bool {
	return c.params.APIVersion != "" && c.params.APIVersion < "2024-10-28"
}

// WarnOfFraud makes the card issuer report the last payment as fraud.
func (c *Customer) WarnOfFraud() {
	c.emit("radar.early_fraud_warning.created", c.make("radar.early_fraud_warning.created", c.newest().seed))
}

// Dispute makes the customer's bank dispute the last payment and withdraw it.
func (c *Customer) Dispute() {
	c.dispute = c.make("charge.dispute.created", c.newest().seed)
	charge := c.told[c.id("charge.succeeded", c.newest().seed)]
	c.dispute["amount"] = charge["amount"]
	c.dispute["evidence_details"].(object)["due_by"] = c.now.Add(c.days(7)).Unix()
	withdrawn := c.dispute["balance_transactions"]
	for _, w := range withdrawn.([]any) {
		w.(object)["amount"] = -whole(charge["amount"])
	}
	c.dispute["balance_transactions"] = []any{}
	c.emit("charge.dispute.created", c.dispute)
	c.dispute["balance_transactions"] = withdrawn
	c.emit("charge.dispute.funds_withdrawn", c.dispute)
}

// Contest sends evidence to the bank.
func (c *Customer) Contest() {
	c.dispute["status"] = "under_review"
	c.emit("charge.dispute.updated", c.dispute)
}

// LoseDispute makes the bank decide for the customer.
func (c *Customer) LoseDispute() {
	c.dispute["status"] = "lost"
	c.emit("charge.dispute.closed", c.dispute)
}

// BuyOnce makes a one-off purchase, in a checkout session without an invoice.
func (c *Customer) BuyOnce(plan Plan) {
	p := c.params
	p.Once, p.Plan, p.Price, p.Amount = true, plan.Name, plan.Price, plan.Amount
	c.newInvoice() // only to get the payment's IDs
	seed := c.newest().seed
	session := c.makeOf(p, "checkout.session.completed", seed)
	charge := c.make("charge.succeeded", seed)
	charge["amount"], charge["amount_captured"], charge["invoice"] = plan.Amount, plan.Amount, nil
	c.emit("charge.succeeded", charge)
	c.emit("checkout.session.completed", session)
}
