package forge

import (
	"fmt"
	"strings"
	"time"
)

type invoice struct {
	object
	seed  string
	lines []line
}

// line is a line of an invoice.
type line struct {
	plan       Plan
	seats      int64
	amount     int64
	start, end time.Time
	proration  bool
}

// nextPeriod begins the subscription's next period and makes its invoice.
func (c *Customer) nextPeriod() *invoice {
	c.start, c.end = c.now, c.now.Add(c.days(c.plan.Days))
	i := c.invoice("subscription_cycle")
	c.bill(i, append(c.later, line{plan: c.plan, seats: c.seats, amount: c.plan.Amount * c.seats, start: c.start,
		end: c.end})...)
	c.later = nil
	return i
}

func (c *Customer) newInvoice() {
	c.invoices = append(c.invoices, &invoice{seed: fmt.Sprintf("%s %d", c.params.Account, len(c.invoices)+1)})
}

func (c *Customer) newest() *invoice { return c.invoices[len(c.invoices)-1] }

// invoice makes a draft of the customer's next invoice, and refers to it in the subscription.
func (c *Customer) invoice(reason string) *invoice {
	c.newInvoice()
	i := c.newest()
	i.object = c.make("invoice.finalized", i.seed)
	i.object["billing_reason"], i.object["number"] = reason,
		fmt.Sprintf("%s-%04d", strings.ToUpper(c.params.Account), len(c.invoices))
	i.object["collection_method"] = c.subscription.object["collection_method"]
	c.subscription.object["latest_invoice"] = i.object["id"]
	return i
}

// bill adds lines to an invoice and finalizes it.
func (c *Customer) bill(i *invoice, lines ...line) {
	i.lines = lines
	shown := []any{}
	prototype := i.object["lines"].(object)["data"].([]any)[0].(object)
	var total int64
	for n, l := range lines {
		total += l.amount
		shown = append(shown, c.line(prototype, i, n, l))
	}
	i.object["lines"].(object)["data"] = shown
	due := max(total, 0) // the rest is credited to the customer
	for _, name := range []string{"amount_due", "amount_remaining"} {
		i.object[name] = due
	}
	i.object["subtotal"], i.object["total"] = total, total
	c.unmark(i.object)
	c.emit("invoice.finalized", i.object)
}

// line returns a line in the shape of the API version.
func (c *Customer) line(prototype object, i *invoice, n int, l line) object {
	o := clone(prototype)
	o["id"] = "il_" + hash(i.seed, fmt.Sprint("line ", n), 24)
	o["amount"], o["quantity"] = l.amount, l.seats
	o["description"] = fmt.Sprintf("%d × %s", l.seats, l.plan.Name)
	o["period"] = object{"start": l.start.Unix(), "end": l.end.Unix()}
	details := o
	if parent, basil := o["parent"].(object); basil {
		details = parent["subscription_item_details"].(object)
		pricing := o["pricing"].(object)
		pricing["unit_amount_decimal"] = fmt.Sprint(l.plan.Amount)
		pricing["price_details"] = object{"price": l.plan.Price, "product": "prod_" + l.plan.Name}
	} else {
		setPrice(o["price"].(object), l.plan)
	}
	details["proration"] = l.proration
	if l.proration && l.amount < 0 {
		details["proration_details"] = object{"credited_items": object{"invoice": c.invoices[0].object["id"],
			"invoice_line_items": []any{}}}
	}
	return o
}

func setPrice(price object, p Plan) {
	price["id"], price["lookup_key"], price["product"], price["unit_amount"] = p.Price, p.Name, "prod_"+p.Name, p.Amount
	price["recurring"] = object{"interval": p.interval(), "interval_count": 1}
}

// pay pays an invoice, with a charge if an amount is due.
func (c *Customer) pay(i *invoice) {
	due := whole(i.object["amount_due"])
	if due > 0 {
		charge := c.make("charge.succeeded", i.seed)
		charge["amount"], charge["amount_captured"] = due, due
		c.emit("charge.succeeded", charge)
		i.object["attempt_count"], i.object["attempted"] = whole(i.object["attempt_count"])+1, true
		if c.basil() {
			payment := c.make("invoice_payment.paid", i.seed)
			payment["amount_paid"], payment["amount_requested"] = due, due
			c.emit("invoice_payment.paid", payment)
		}
	} else if _, there := i.object["payment_intent"]; there {
		i.object["payment_intent"] = nil
	}
	c.settled(i)
	c.emit("invoice.paid", i.object)
	c.emit("invoice.payment_succeeded", i.object)
}

// settled marks an invoice as paid.
func (c *Customer) settled(i *invoice) {
	i.object["status"], i.object["amount_paid"], i.object["amount_remaining"],
		i.object["next_payment_attempt"] = "paid", i.object["amount_due"], 0, nil
	i.object["status_transitions"].(object)["paid_at"] = c.now.Unix()
	if !c.basil() {
		i.object["paid"] = true
	}
}

// fail makes a payment of an invoice fail. The next attempt is in three days.
func (c *Customer) fail(i *invoice) {
	i.object["attempt_count"], i.object["attempted"] = whole(i.object["attempt_count"])+1, true
	i.object["next_payment_attempt"] = c.now.Add(c.days(3)).Unix()
	c.emit("invoice.payment_failed", i.object)
}
