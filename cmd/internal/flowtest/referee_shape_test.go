package flowtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// version is a version of Stripe's API. The constants are in chronological order.
type version int

const (
	v2022 version = iota
	v2023
	acacia0
	acacia
	basil
	clover
	dahlia
	endive
	versions
)

func (v version) String() string {
	return []string{"2022-08-01", "2023-10-16", "2024-09-30.acacia", "2024-10-28.acacia", "2025-03-31.basil", "2025-09-30.clover", "2026-07-29.dahlia", "2026-11-18.endive"}[v]
}

// sends reports whether Stripe sends events of the kind to an endpoint with this version.
func (v version) sends(kind string) bool {
	switch kind {
	case "refund.created", "refund.updated", "refund.failed": // of charges
		return v >= acacia
	case "invoice_payment.paid":
		return v >= basil
	// Stripe's documentation does not recommend these events
	case "payment_intent.amount_capturable_updated", "payment_intent.canceled":
		return false
	}
	return true
}

// shown is an event in the form that Stripe sends.
type shown struct {
	id, kind string
	at       time.Time
	body     []byte
	// whole is the event with complete lists. It is nil if body has complete lists.
	whole []byte
}

// shows creates an event, and sends it if the API version has this event type. Otherwise only the API returns the
// object.
func (c *company) shows(kind string, object, previous payload) {
	data := payload{"object": object}
	if previous != nil {
		data["previous_attributes"], _ = asSent(previous)
	}
	id := fmt.Sprintf("evt_%d%s", len(c.told), c.tag)
	render := func() []byte {
		body, err := json.Marshal(payload{"id": id, "object": "event", "api_version": c.v.String(), "created": c.now.Unix(), "livemode": true,
			"pending_webhooks": 1, "request": nil, "type": kind, "data": data})
		if err != nil {
			panic(err)
		}
		return body
	}
	e := shown{id: id, kind: kind, at: c.now, body: render()}
	if sent, less := asSent(object); less {
		e.whole, data["object"] = e.body, sent
		e.body = render()
	}
	if c.told = append(c.told, e); c.v.sends(kind) {
		c.events = append(c.events, e)
		c.did("  %s %s", kind, object["id"])
	}
}

// asSent returns an object as events contain it: a session without its lines, and lists with at most ten elements.
func asSent(object payload) (sent payload, less bool) {
	sent = maps.Clone(object)
	if _, less = sent["line_items"]; less {
		delete(sent, "line_items")
	}
	for _, field := range []string{"lines", "items", "refunds"} {
		of, _ := sent[field].(payload)
		if all, _ := of["data"].([]any); len(all) > 10 {
			sent[field], less = payload{"object": "list", "has_more": true, "data": all[:10]}, true
		}
	}
	return sent, less
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

// with adds fields if has is set.
func (o payload) with(has bool, fields payload) payload {
	if has {
		maps.Copy(o, fields)
	}
	return o
}

func unix(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.Unix()
}

func (c *company) named(by string) payload {
	if c.names == by {
		return payload{"account": c.account()}
	}
	return payload{}
}

func (c *company) customerObject() payload {
	return payload{"id": c.customer(), "object": "customer", "email": "buyer@example.com", "balance": -c.credit, "currency": c.currency,
		"delinquent": false, "metadata": c.named("customer")}
}

func (c *company) price(plan string) payload {
	return payload{"id": "price_" + plan, "object": "price", "active": true, "currency": c.currency, "lookup_key": nil, "product": "prod_" + plan,
		"recurring": payload{"interval": "month", "interval_count": 1, "usage_type": "licensed"}, "type": "recurring", "unit_amount": monthly[plan]}
}

func (c *company) subscriptionObject() payload {
	s := c.sub
	period := payload{"current_period_start": s.start.Unix(), "current_period_end": s.end.Unix()}
	item := payload{"id": "si_" + c.sub.id, "object": "subscription_item", "quantity": s.seats, "subscription": s.id, "price": c.price(s.plan), "metadata": payload{}}
	o := payload{
		"id": s.id, "object": "subscription", "customer": c.customer(), "status": s.status, "currency": c.currency, "created": s.begun.Unix(),
		"items": c.items(item.with(c.v >= basil, period)), "start_date": s.begun.Unix(), "cancel_at": nil, "cancel_at_period_end": s.cancels,
		"canceled_at": unix(s.ended), "ended_at": unix(s.ended), "trial_end": unix(s.trialEnd), "trial_start": nil, "pause_collection": nil,
		"collection_method": c.method(), "default_payment_method": "pm_1" + c.tag, "metadata": c.named("subscription"),
		"trial_settings": payload{"end_behavior": payload{"missing_payment_method": "create_invoice"}}, "schedule": orNull(s.schedule),
	}
	if s.paused {
		o["pause_collection"] = payload{"behavior": "void", "resumes_at": nil}
	}
	if c.v >= clover && s.cancels { // with flexible billing
		o["cancel_at"], o["cancel_at_period_end"] = s.end.Unix(), false
	}
	discount, discounts := c.discount()
	return o.with(c.v < basil, period).with(c.v < basil, payload{"discount": discount, "plan": nil}).with(c.v >= basil, payload{"discounts": discounts}).
		with(c.v >= clover, payload{"billing_mode": payload{"type": "flexible"}})
}

// items returns the items of the subscription. Some subscriptions have eleven items besides the plan's item, so no
// event contains all of them.
func (c *company) items(plan payload) payload {
	all := []any{plan}
	for n := range c.extras {
		extra := maps.Clone(plan)
		extra["id"], extra["price"] = fmt.Sprintf("si_extra_%d%s", n, c.tag), c.price(fmt.Sprint("extra_", n))
		all = append(all, extra)
	}
	if c.extras > 0 {
		all[0], all[c.place] = all[c.place], all[0]
	}
	return list(all...)
}

// discount returns the discount of a coupon, and a list of it. Since API version clover, neither of them contains the
// coupon.
func (c *company) discount() (one any, all []any) {
	if c.coupon == 0 {
		return nil, []any{}
	}
	d := payload{"id": "di" + c.tag, "object": "discount", "customer": c.customer(), "start": c.now.Unix(), "end": nil}
	return d.with(c.v < clover, payload{"coupon": payload{"id": "SAVE", "object": "coupon", "percent_off": c.coupon, "duration": "forever"}}).
		with(c.v >= clover, payload{"source": payload{"type": "coupon", "coupon": "SAVE"}}), []any{d["id"]}
}

func (c *company) method() string {
	if c.invoiced {
		return "send_invoice"
	}
	return "charge_automatically"
}

func (c *company) invoiceObject(i *worldInvoice) payload {
	lines := []any{}
	for n, l := range i.lines {
		lines = append(lines, c.lineObject(i, n, l))
	}
	metadata, own := c.named("subscription"), payload{}
	if i.once {
		if metadata, own = own, metadata; !i.named {
			own = payload{}
		}
	}
	o := payload{
		"id": i.id, "object": "invoice", "customer": c.customer(), "customer_email": "buyer@example.com", "customer_name": "A Buyer", "status": i.status,
		"amount_due": i.due, "amount_paid": i.paid, "amount_remaining": max(0, i.due-i.paid), "amount_shipping": 0, "currency": c.currency, "attempt_count": i.attempts,
		"attempted": i.attempts > 0, "billing_reason": i.reason, "lines": list(lines...), "next_payment_attempt": nil, "due_date": unix(i.payBy),
		"number": nil, "subtotal": i.subtotal, "total": i.total, "collection_method": c.method(), "metadata": own, "created": i.made.Unix(),
		"starting_balance": -c.credit, "ending_balance": nil, "period_start": i.made.Unix(), "period_end": i.made.Unix(),
		"pre_payment_credit_notes_amount": i.credited0, "post_payment_credit_notes_amount": i.credited, "auto_advance": i.status == "open",
		"status_transitions": payload{"finalized_at": unix(i.opened), "paid_at": unix(i.settled), "voided_at": nil, "marked_uncollectible_at": nil}, "last_finalization_error": nil,
	}
	if i.finalized {
		o["number"], o["starting_balance"], o["ending_balance"] = "N-"+i.id, -c.credit-i.applied, -c.credit
	}
	if i.status == "open" {
		o["next_payment_attempt"] = unix(i.retried)
	}
	var details, parent any
	if !i.once {
		details = payload{"metadata": metadata}
		parent = payload{"type": "subscription_details", "quote_details": nil, "subscription_details": payload{"subscription": i.sub, "metadata": metadata}}
	}
	discount, discounts := c.discount()
	o["discounts"], o["total_discount_amounts"] = discounts, []any{}
	if i.off > 0 {
		o["total_discount_amounts"] = []any{payload{"amount": i.off, "discount": "di" + c.tag}}
	}
	taxes := []any{}
	if c.taxed {
		taxes = append(taxes, payload{"amount": i.tax, "inclusive": false})
	}
	return o.with(c.v < basil, payload{
		"subscription": orNull(i.sub), "subscription_details": details, "paid": i.status == "paid", "paid_out_of_band": i.outOfBand,
		"tax": map[bool]any{true: i.tax, false: nil}[c.taxed], "total_tax_amounts": taxes, "charge": orNull(i.charge), "payment_intent": orNull(i.payment), "discount": discount,
	}).with(c.v >= basil, payload{
		"parent": parent, "total_taxes": taxes, "amount_overpaid": max(0, i.paid-i.due),
	})
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (c *company) lineObject(i *worldInvoice, n int, l worldLine) payload {
	item := fmt.Sprintf("ii_%d_%s", n, i.id)
	o := payload{"id": fmt.Sprintf("il_%d_%s", n, i.id), "object": "line_item", "amount": l.amount, "currency": c.currency, "quantity": l.seats,
		"period": payload{"start": l.start.Unix(), "end": l.end.Unix()}, "description": "1 × " + l.plan, "metadata": payload{}, "discounts": []any{}}
	details := payload{"subscription": orNull(i.sub), "proration": l.proration}
	kind := "subscription_item_details"
	if l.proration || i.once {
		kind = "invoice_item_details"
		details["invoice_item"] = item
	} else {
		details["subscription_item"] = "si_" + i.sub
	}
	return o.with(c.v < basil, payload{
		"type": map[bool]string{true: "invoiceitem", false: "subscription"}[l.proration || i.once], "price": c.price(l.plan), "subscription": orNull(i.sub),
		"proration": l.proration, "subscription_item": details["subscription_item"], "tax_amounts": []any{},
	}).with(c.v >= basil, payload{
		"parent":  payload{"type": kind, kind: details},
		"pricing": payload{"type": "price_details", "price_details": payload{"price": "price_" + l.plan, "product": "prod_" + l.plan}, "unit_amount_decimal": "1"},
		"taxes":   []any{},
	})
}

func (c *company) chargeObject(i *worldInvoice) payload {
	return payload{
		"id": i.charge, "object": "charge", "amount": max(i.held, i.paid), "amount_captured": i.paid, "amount_refunded": i.returned + max(0, i.held-i.paid),
		"refunded": i.returned == i.paid,
		"captured": true, "paid": true, "currency": c.currency, "customer": c.customer(), "payment_intent": i.payment, "status": "succeeded",
		"billing_details": payload{"email": "buyer@example.com"}, "disputed": i.disputed > 0, "metadata": payload{},
	}.with(c.v < basil, payload{"invoice": orNull(i.id)}).with(c.v < v2023, payload{"refunds": c.refundsOf(i)})
}

// refundsOf returns the refunds of a charge, newest first. Charges contain their refunds in API versions before
// 2022-11-15.
func (c *company) refundsOf(i *worldInvoice) payload {
	all := []any{}
	for _, r := range i.refunds {
		all = append([]any{c.refundObject(r)}, all...)
	}
	return list(all...)
}

func (c *company) intentObject(i *worldInvoice) payload {
	return payload{
		"id": i.payment, "object": "payment_intent", "amount": i.paid, "amount_received": i.paid, "currency": c.currency, "customer": c.customer(),
		"latest_charge": i.charge, "status": "succeeded", "metadata": payload{},
	}.with(c.v < basil, payload{"invoice": orNull(i.id)})
}

func (c *company) invoicePaymentObject(i *worldInvoice) payload {
	return payload{
		"id": "in" + i.payment, "object": "invoice_payment", "amount_paid": i.paid, "amount_requested": i.due, "currency": c.currency, "invoice": i.id,
		"is_default": true, "payment": payload{"type": "payment_intent", "payment_intent": i.payment}, "status": "paid",
		"status_transitions": payload{"paid_at": c.now.Unix(), "canceled_at": nil},
	}
}

func (c *company) sessionObject(fields payload) payload {
	s := payload{"id": c.id("cs"), "object": "checkout.session", "status": "complete", "customer": c.customer(), "currency": c.currency,
		"customer_details": payload{"email": "buyer@example.com"}, "client_reference_id": nil}
	if c.names == "session" {
		s["client_reference_id"] = c.account()
	}
	return s.with(true, fields)
}

func (c *company) refundObject(r *worldRefund) payload {
	return payload{"id": r.id, "object": "refund", "amount": r.amount, "charge": r.of.charge, "currency": c.currency, "payment_intent": r.of.payment,
		"created": r.made.Unix(), "status": r.status, "reason": nil, "metadata": payload{}, "balance_transaction": nil}.
		with(c.v >= dahlia, payload{"customer": c.customer(), "customer_account": nil})
}

func (c *company) disputeObject(d *worldDispute) payload {
	moves := []any{}
	for _, m := range slices.Clone(d.moves) {
		moves = append(moves, m)
	}
	return payload{"id": d.id, "object": "dispute", "amount": d.of.due, "currency": c.currency, "charge": d.of.charge, "payment_intent": d.of.payment,
		"reason": "fraudulent", "status": d.status, "balance_transactions": moves, "evidence_details": payload{"due_by": d.opened.Add(20 * aDay).Unix()}}
}

func (c *company) noteObject(n *worldNote) payload {
	o := payload{"id": n.id, "object": "credit_note", "amount": n.before + n.after, "currency": c.currency, "customer": c.customer(), "invoice": n.of.id,
		"status": "issued", "reason": nil, "metadata": payload{}, "type": "post_payment", "out_of_band_amount": nil, "customer_balance_transaction": nil}
	refunds := []any{}
	switch {
	case n.before > 0:
		o["type"] = "pre_payment"
	case n.by == nil:
		o["customer_balance_transaction"] = "cbtxn_" + n.id
	default:
		refunds = append(refunds, payload{"refund": n.by.id, "amount_refunded": n.refund})
	}
	if n.by != nil && c.v < basil {
		o["refund"] = n.by.id
	}
	return o.with(c.v >= acacia, payload{"pre_payment_amount": n.before, "post_payment_amount": n.after, "refunds": refunds})
}

// String returns the company's events as text. The test prints them when it finds a fault.
func (c *company) String() string { return strings.Join(c.story, "\n  ") }
