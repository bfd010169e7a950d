package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Plan is something that is sold: a price, what one of it costs for its time, and how many days that is.
type Plan struct {
	Name, Price string
	// Amount is in minor units of the customer's currency.
	Amount int64
	Days   int
}

func (p Plan) interval() string {
	if p.Days > 31 {
		return "year"
	}
	return "month"
}

// Customer is a customer at Stripe to whom things happen, one after the other: subscriptions, invoices, payments. Each
// makes the events that Stripe makes of it, with the objects as they are then, the same IDs throughout, and what was
// before in previous_attributes. Amounts, periods and prorations add up.
type Customer struct {
	params Params
	day    time.Duration
	now    time.Time
	events []Event
	err    error

	token string
	named map[string]string // the IDs as they are told, by those that they were made with
	told  map[string]object // what the last event about an object showed
	subscription
	invoices []*invoice
	later    []line // prorations for the next invoice
	refunds  int
	refund   object
	dispute  object
}

// stripeID finds the IDs of objects and events. Prices and products are the shop's, not the customer's.
var stripeID = regexp.MustCompile(`\b(?:evt|cus|sub|si|in|il|inpay|ch|pi|re|dp|txn|cs|issfr|cn|req)_[0-9A-Za-z]+`)

// object is a JSON object of Stripe's.
type object = map[string]any

type subscription struct {
	object
	plan       Plan
	seats      int64
	start, end time.Time // of the period
}

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

// NewCustomer returns a customer of p's account, for whom a day lasts as long as day says. Its IDs are made from the
// account and from p.Seed, and count: of two customers to whom the same happens they have the same order.
func NewCustomer(p Params, day time.Duration) *Customer {
	p.Provider.Name = stripe
	return &Customer{params: p, day: day, token: hash(p.Account+" "+p.Seed, "customer", 14), named: map[string]string{}, told: map[string]object{}}
}

// Token stands in every ID of the customer's, and in no other's.
func (c *Customer) Token() string { return c.token }

// At says when what happens next happens.
func (c *Customer) At(now time.Time) { c.now = now.Truncate(time.Second) }

// Events returns what has happened since it was asked last, in the order in which it did.
func (c *Customer) Events() ([]Event, error) {
	events := c.events
	c.events = nil
	return events, c.err
}

func (c *Customer) days(n int) time.Duration { return time.Duration(n) * c.day }

// Subscribe buys seats of a plan, the first invoice paid at once; with trial days it is of nothing.
func (c *Customer) Subscribe(plan Plan, seats int64, trial int) {
	c.subscription = subscription{object: c.make("customer.subscription.created", ""), plan: plan, seats: seats, start: c.now, end: c.now.Add(c.days(plan.Days))}
	c.subscription.object["status"], c.subscription.object["billing_cycle_anchor"] = "active", c.now.Unix()
	i := c.invoice("subscription_create")
	if trial > 0 {
		c.end = c.now.Add(c.days(trial))
		c.subscription.object["status"], c.subscription.object["trial_start"], c.subscription.object["trial_end"] = "trialing", c.now.Unix(), c.end.Unix()
	}
	c.show()
	c.emit("customer.subscription.created", c.subscription.object)
	whole := line{plan: plan, seats: seats, amount: plan.Amount * seats, start: c.start, end: c.end}
	if trial > 0 {
		whole.amount = 0
	}
	c.bill(i, whole)
	c.pay(i)
}

// TrialEndsSoon is three days before the trial's end.
func (c *Customer) TrialEndsSoon() {
	c.emit("customer.subscription.trial_will_end", c.subscription.object)
}

// Renew begins the next period, for which is paid. It also ends a trial.
func (c *Customer) Renew() {
	i := c.nextPeriod()
	c.subscription.object["status"] = "active"
	c.update()
	c.pay(i)
}

// RenewInVain begins the next period, for which the card is refused.
func (c *Customer) RenewInVain() {
	i := c.nextPeriod()
	c.subscription.object["status"] = "past_due"
	c.fail(i)
	c.update()
}

// RetryInVain has the open invoice's payment fail once more.
func (c *Customer) RetryInVain() { c.fail(c.newest()) }

// Pay pays the open invoice.
func (c *Customer) Pay() {
	c.pay(c.newest())
	if c.subscription.object["status"] == "past_due" {
		c.subscription.object["status"] = "active"
		c.update()
	}
}

// Change changes the plan or the seats in the middle of the period. More is invoiced and paid at once, with what is left
// of the period; less is credited with the next invoice. Another length of the period begins a new one.
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
	used := line{plan: plan, seats: seats, amount: c.rest(plan.Amount * seats), start: c.now, end: c.end, proration: true}
	c.plan, c.seats = plan, seats
	if more {
		c.settle(unused, used)
		return
	}
	c.later = append(c.later, unused, used)
	c.update()
}

// settle invoices lines at once, has them paid, and shows the subscription as it is since.
func (c *Customer) settle(lines ...line) {
	i := c.invoice("subscription_update")
	c.update()
	c.bill(i, lines...)
	c.pay(i)
}

// rest is the part of an amount that is for the rest of the period.
func (c *Customer) rest(amount int64) int64 {
	whole := int64(c.end.Sub(c.start) / time.Second)
	return amount * int64(c.end.Sub(c.now)/time.Second) / max(whole, 1)
}

// CancelAtPeriodEnd plans the end for the end of the period, as the portal does.
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

// Refund pays back part of what was paid last, or all that is left of it where amount is 0.
func (c *Customer) Refund(amount int64) {
	charge := c.told[c.id("charge.succeeded", c.newest().seed)]
	paid, refunded := whole(charge["amount"]), whole(charge["amount_refunded"])
	if amount == 0 {
		amount = paid - refunded
	}
	c.refunds++
	c.refund = c.make("refund.created", c.newest().seed)
	c.refund["id"], c.refund["amount"] = fmt.Sprintf("re_%s", hash(c.newest().seed, fmt.Sprint("refund ", c.refunds), 24)), amount
	c.emit("refund.created", c.refund)
	charge = maps.Clone(charge)
	charge["amount_refunded"], charge["refunded"] = refunded+amount, refunded+amount == paid
	c.emit("charge.refunded", charge)
	c.refund["status"] = "succeeded"
	c.emit("refund.updated", c.refund)
}

// RefundFails has the bank send the last refund back.
func (c *Customer) RefundFails() {
	c.refund["status"], c.refund["failure_reason"] = "failed", "expired_or_canceled_card"
	c.emit("refund.failed", c.refund)
}

// WarnOfFraud has the card's issuer report that what was paid last is a fraud.
func (c *Customer) WarnOfFraud() {
	c.emit("radar.early_fraud_warning.created", c.make("radar.early_fraud_warning.created", c.newest().seed))
}

// Dispute has the customer's bank ask for what was paid last, and take it.
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

// Contest sends evidence to the bank, and LoseDispute has it decide against us.
func (c *Customer) Contest() {
	c.dispute["status"] = "under_review"
	c.emit("charge.dispute.updated", c.dispute)
}

// LoseDispute has the bank decide against us.
func (c *Customer) LoseDispute() {
	c.dispute["status"] = "lost"
	c.emit("charge.dispute.closed", c.dispute)
}

// BuyOnce pays for something that is bought once, in a checkout session without an invoice.
func (c *Customer) BuyOnce(plan Plan) {
	p := c.params
	p.Once, p.Plan, p.Price, p.Amount = true, plan.Name, plan.Price, plan.Amount
	c.newInvoice() // for the payment's IDs
	seed := c.newest().seed
	session := c.makeOf(p, "checkout.session.completed", seed)
	charge := c.make("charge.succeeded", seed)
	charge["amount"], charge["amount_captured"], charge["invoice"] = plan.Amount, plan.Amount, nil
	c.emit("charge.succeeded", charge)
	c.emit("checkout.session.completed", session)
}

// nextPeriod begins the subscription's next period and makes its invoice.
func (c *Customer) nextPeriod() *invoice {
	c.start, c.end = c.now, c.now.Add(c.days(c.plan.Days))
	i := c.invoice("subscription_cycle")
	c.bill(i, append(c.later, line{plan: c.plan, seats: c.seats, amount: c.plan.Amount * c.seats, start: c.start, end: c.end})...)
	c.later = nil
	return i
}

func (c *Customer) newInvoice() {
	c.invoices = append(c.invoices, &invoice{seed: fmt.Sprintf("%s %d", c.params.Account, len(c.invoices)+1)})
}

func (c *Customer) newest() *invoice { return c.invoices[len(c.invoices)-1] }

// invoice makes a draft of the customer's next invoice, and names it in the subscription.
func (c *Customer) invoice(reason string) *invoice {
	c.newInvoice()
	i := c.newest()
	i.object = c.make("invoice.finalized", i.seed)
	i.object["billing_reason"], i.object["number"] = reason, fmt.Sprintf("%s-%04d", strings.ToUpper(c.params.Account), len(c.invoices))
	c.subscription.object["latest_invoice"] = i.object["id"]
	return i
}

// bill puts lines on an invoice and finalizes it.
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
	due := max(total, 0) // the rest stays as the customer's credit
	for _, name := range []string{"amount_due", "amount_remaining"} {
		i.object[name] = due
	}
	i.object["subtotal"], i.object["total"] = total, total
	c.withoutPlan(i.object)
	c.emit("invoice.finalized", i.object)
}

// line is a line in the shape of the API's version.
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
		details["proration_details"] = object{"credited_items": object{"invoice": c.invoices[0].object["id"], "invoice_line_items": []any{}}}
	}
	return o
}

func setPrice(price object, p Plan) {
	price["id"], price["lookup_key"], price["product"], price["unit_amount"] = p.Price, p.Name, "prod_"+p.Name, p.Amount
	price["recurring"] = object{"interval": p.interval(), "interval_count": 1}
}

// pay pays an invoice, with a charge where something is due.
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
	i.object["status"], i.object["amount_paid"], i.object["amount_remaining"], i.object["next_payment_attempt"] = "paid", due, 0, nil
	i.object["status_transitions"].(object)["paid_at"] = c.now.Unix()
	if !c.basil() {
		i.object["paid"] = true
	}
	c.emit("invoice.paid", i.object)
	c.emit("invoice.payment_succeeded", i.object)
}

// fail has a payment of an invoice fail. It is tried again in three days.
func (c *Customer) fail(i *invoice) {
	i.object["attempt_count"], i.object["attempted"] = whole(i.object["attempt_count"])+1, true
	i.object["next_payment_attempt"] = c.now.Add(c.days(3)).Unix()
	c.emit("invoice.payment_failed", i.object)
}

// update tells of the subscription as it is now.
func (c *Customer) update() {
	c.show()
	c.emit("customer.subscription.updated", c.subscription.object)
}

// show writes plan, seats and period into the subscription, where the API's version has them.
func (c *Customer) show() {
	item := c.subscription.object["items"].(object)["data"].([]any)[0].(object)
	setPrice(item["price"].(object), c.plan)
	item["quantity"] = c.seats
	period := item
	if !c.basil() {
		period = c.subscription.object
	}
	period["current_period_start"], period["current_period_end"] = c.start.Unix(), c.end.Unix()
	c.withoutPlan(c.subscription.object)
}

// withoutPlan leaves it to the prices which plan it is.
func (c *Customer) withoutPlan(o object) {
	for _, path := range [][]string{{"metadata"}, {"subscription_details", "metadata"}, {"parent", "subscription_details", "metadata"}} {
		inner := o
		for _, name := range path {
			inner, _ = inner[name].(object)
		}
		delete(inner, "plan")
	}
}

func (c *Customer) basil() bool { return data{Params: c.params.WithDefaults()}.Basil() }

// make returns the object of an event of this type, as it is by default.
func (c *Customer) make(eventType, seed string) object { return c.makeOf(c.params, eventType, seed) }

func (c *Customer) makeOf(p Params, eventType, seed string) object {
	e := c.event(p, eventType, seed)
	made, _ := e["data"].(object)["object"].(object)
	return made
}

// id returns the ID of the object of an event of this type.
func (c *Customer) id(eventType, seed string) string {
	id, _ := c.make(eventType, seed)["id"].(string)
	return id
}

func (c *Customer) event(p Params, eventType, seed string) object {
	p.Type, p.Seed, p.At, p.EventID = eventType, seed, c.now, ""
	made, err := New(p, "")
	var body object
	if err == nil {
		err = json.Unmarshal(made.Body, &body)
	}
	if err != nil {
		c.err = errors.Join(c.err, err)
		return object{"data": object{"object": object{}}}
	}
	return body
}

// emit makes an event that shows an object as it is now.
func (c *Customer) emit(eventType string, o object) {
	body := c.event(c.params, eventType, "emit")
	shown := clone(o)
	id, _ := shown["id"].(string)
	about := object{"object": shown}
	if before := c.told[id]; eventType == "customer.subscription.updated" || eventType == "charge.dispute.updated" || eventType == "refund.updated" {
		about["previous_attributes"] = differing(before, shown)
	}
	c.told[id] = shown
	body["data"] = about
	text, err := json.Marshal(body)
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	text = stripeID.ReplaceAllFunc(text, func(id []byte) []byte { return []byte(c.name(string(id))) })
	eventID, _ := body["id"].(string)
	c.events = append(c.events, Event{ID: c.name(eventID), Type: eventType, Account: c.params.ConnectedAccount, ContentType: "application/json", Body: text})
}

// differing returns what of before is not so any more: of nested objects only what differs, arrays whole.
func differing(before, now object) object {
	out := object{}
	for name := range now {
		if _, was := before[name]; !was {
			out[name] = nil
		}
	}
	for name, was := range before {
		is := now[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		inner, nested := was.(object)
		after, still := is.(object)
		if out[name] = was; nested && still {
			out[name] = differing(inner, after)
		}
	}
	return out
}

// clone copies an object with all that is in it, as JSON has it.
func clone(o object) object {
	text, err := json.Marshal(o)
	var copied object
	if err == nil {
		err = json.Unmarshal(text, &copied)
	}
	if err != nil {
		panic("forge: " + err.Error()) // it was made of JSON
	}
	return copied
}

// whole reads a number, which JSON has made a float.
func whole(v any) int64 {
	switch n := v.(type) {
	case float64:
		return int64(n)
	case int64:
		return n
	case int:
		return int64(n)
	}
	return 0
}

// name returns the ID that is told for the one that an object was made with.
func (c *Customer) name(id string) string {
	if c.named[id] == "" {
		kind, _, _ := strings.Cut(id, "_")
		c.named[id] = fmt.Sprintf("%s_%s%04d", kind, c.token, len(c.named)+1)
	}
	return c.named[id]
}
