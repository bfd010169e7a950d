package flowtest

import "time"

// This file contains the purchases of a company besides its subscription: at a Checkout, or by an invoice.

// A sale is a payment with one charge.
type sale struct {
	*worldInvoice
	// seats is the number of seats that a purchase of a week grants from the time at on; 0 for any other sale.
	seats int64
	at    time.Time
}

const week = 7 * aDay

// sell makes one purchase in addition to the subscription.
func (c *company) sell() {
	switch c.IntN(6) {
	case 0:
		c.buyWeek(0)
	case 1:
		c.buyWeek(2 * aDay)
	case 2:
		c.topUp()
	default:
		c.billOnce()
	}
}

// far reports whether a week that is paid at this time ended long before today, or ends long after today.
func (c *company) far(paid time.Time) bool { return paid.Add(week).Sub(c.today).Abs() > aDay }

// buyWeek buys access for a week at a Checkout. A delayed payment is first authorized. Later all of it, a part or
// nothing is captured.
func (c *company) buyWeek(delay time.Duration) {
	seats := int64(1)
	if c.asked { // events do not contain the lines of a session
		seats += c.Int64N(3)
	}
	if !c.far(c.now) || !c.far(c.now.Add(delay)) {
		return
	}
	fields := payload{"metadata": payload{"price": "price_week"}, "line_items": list(payload{"id": "li" + c.tag, "object": "item", "quantity": seats,
		"amount_total": 1500 * seats, "price": c.price("week")})}
	if delay == 0 {
		c.did("buys a week: %d", seats)
		c.checkout(1500*seats, fields, seats)
		return
	}
	c.did("has money held: %d", seats)
	c.hold(1500*seats, fields, seats, delay)
}

// topUp is a payment that grants no access.
func (c *company) topUp() {
	c.did("tops up")
	c.checkout(500+c.Int64N(5000), payload{"metadata": payload{}}, 0)
}

// session returns a Checkout session in mode payment.
func (c *company) sold(i *worldInvoice, status string, fields payload) payload {
	return c.sessionObject(payload{
		"mode": "payment", "subscription": nil, "invoice": nil, "payment_intent": i.payment, "amount_total": i.due, "payment_status": status,
		"total_details": payload{"amount_tax": 0},
	}).with(true, fields)
}

// checkout is a payment at a Checkout.
func (c *company) checkout(amount int64, fields payload, seats int64) {
	i := &worldInvoice{due: amount, paid: amount, payment: c.id("pi"), charge: c.id("ch"), status: "paid"}
	c.shows("charge.succeeded", c.chargeObject(i), nil)
	c.shows("payment_intent.succeeded", c.intentObject(i), nil)
	session := c.sold(i, "paid", fields)
	c.comes(i, session, seats)
	c.shows("checkout.session.completed", session, nil)
}

// comes records the payment of a sale.
func (c *company) comes(i *worldInvoice, session payload, seats int64) {
	c.books.post("bank", "sales", i.paid)
	c.charged(i.paid)
	c.mails = append(c.mails, session["id"].(string))
	c.sales = append(c.sales, &sale{i, seats, c.now})
}

// hold simulates a payment with manual capture: https://docs.stripe.com/payments/place-a-hold-on-a-payment-method
func (c *company) hold(amount int64, fields payload, seats int64, delay time.Duration) {
	i := &worldInvoice{due: amount, paid: amount, payment: c.id("pi"), charge: c.id("ch"), status: "paid"}
	intent := func(status string, received int64) payload {
		return c.intentObject(i).with(true, payload{"capture_method": "manual", "amount": amount, "amount_received": received, "status": status})
	}
	charge := func(captured bool, part, back int64) payload {
		return c.chargeObject(i).with(true, payload{"amount": amount, "captured": captured, "amount_captured": part, "amount_refunded": back, "refunded": back == amount})
	}
	c.shows("charge.succeeded", charge(false, 0, 0), nil)
	c.shows("payment_intent.amount_capturable_updated", intent("requires_capture", 0), nil)
	session := c.sold(i, "unpaid", fields)
	c.shows("checkout.session.completed", session, nil)
	c.wait(delay)
	part := pick(c.Rand, amount, amount*3/5, 0)
	if c.did("has money captured: %d of %d", part, amount); part == 0 {
		c.shows("charge.refunded", charge(false, 0, amount), nil)
		c.shows("payment_intent.canceled", intent("canceled", 0), nil)
		return
	}
	c.shows("charge.captured", charge(true, part, amount-part), nil)
	c.shows("payment_intent.succeeded", intent("succeeded", part), nil)
	i.due, i.paid, i.held = part, part, amount
	c.comes(i, session, seats)
}

// billOnce creates an invoice by hand, without the subscription: for a week that grants nothing, or with its own
// price.
func (c *company) billOnce() {
	c.did("is billed once")
	i := &worldInvoice{id: c.id("in"), status: "draft", reason: "manual", made: c.now, once: true, named: c.chance(2)}
	i.lines = []worldLine{{plan: pick(c.Rand, "course", "fee-"+i.id), seats: 1, amount: 1500, start: c.now, end: c.now}}
	c.total(i)
	c.finalize(i)
	if c.chance(2) && i.due > 0 {
		c.wait(time.Duration(1+c.IntN(5)) * aDay)
	}
	c.pay(i)
}

// paysPart pays a part of an open invoice: https://docs.stripe.com/invoicing/partial-payments
func (c *company) paysPart(i *worldInvoice) {
	part := i.rest(c, i.due/3)
	i.paid = part.paid
	c.books.post("bank", "due", part.paid)
	c.tax += part.taxIn(part.paid)
	c.did("pays a part of %s: %d of %d", i.id, part.paid, i.due)
	c.charges(part)
	c.shows("invoice.updated", c.invoiceObject(i), nil)
	c.wait(time.Duration(1+c.IntN(5)) * aDay)
}

// rest returns a partial payment of an invoice.
func (i *worldInvoice) rest(c *company, amount int64) *worldInvoice {
	part := &worldInvoice{id: i.id, due: amount, paid: amount, tax: i.tax, total: i.total, status: "paid", part: true}
	c.sales = append(c.sales, &sale{worldInvoice: part, at: c.now})
	return part
}

// charges sends the charge of an invoice payment.
func (c *company) charges(i *worldInvoice) {
	i.payment, i.charge = c.id("pi"), c.id("ch")
	c.charged(i.paid)
	c.shows("charge.succeeded", c.chargeObject(i), nil)
	c.shows("payment_intent.succeeded", c.intentObject(i), nil)
	c.shows("invoice_payment.paid", c.invoicePaymentObject(i), nil)
}

// seatsOfWeeks returns the seats that one-time purchases grant today.
func (c *company) seatsOfWeeks() (seats int64) {
	for _, s := range c.sales {
		if s.seats > 0 && s.at.Add(week).After(c.today) && s.returned < s.paid && !c.taken(s.worldInvoice) {
			seats += s.seats
		}
	}
	return seats
}

// access returns the access of the account today: the highest plan of its subscriptions and purchases, with the seats
// of all objects that grant this plan.
func (c *company) access() (plan string, seats int64) {
	given := map[string]int64{"pro": c.seatsOfWeeks()}
	for _, s := range []worldSubscription{c.sub, c.twin} {
		if c.gives(s) && !c.taken(c.newestPaid(s)) {
			given[s.granted] += s.seats
		}
	}
	for _, of := range planOrder {
		if given[of] > 0 {
			plan, seats = of, given[of]
		}
	}
	return plan, seats
}
