package flowtest

import (
	"cmp"
	"time"
)

// happening is one event of a scenario.
type happening struct {
	kind   string
	at     time.Duration
	object payload
	// previous contains previous_attributes; account is the connected account.
	previous payload
	account  string
	test     bool
	// id identifies the event. "" means the position in the scenario.
	id string
}

// payload is an object of a payload, or a part of one.
type payload map[string]any

// An edit changes one part of an event or object.
type edit func(*happening)

// from0 is a time relative to the start of the scenario.
type from0 time.Duration

const (
	aDay   = 24 * time.Hour
	aMonth = 30 * aDay
)

func tell(kind string, at time.Duration, object payload, edits ...edit) happening {
	h := happening{kind: kind, at: at, object: object}
	for _, e := range edits {
		e(&h)
	}
	return h
}

func set(field string, value any) edit { return func(h *happening) { h.object[field] = value } }

// was sets the previous value of a field in previous_attributes.
func was(field string, value any) edit {
	return func(h *happening) {
		if h.previous == nil {
			h.previous = payload{}
		}
		h.previous[field] = value
	}
}

func called(id string) edit     { return set("id", id) }
func inTestMode(h *happening)   { h.test = true }
func twin(id string) edit       { return func(h *happening) { h.id = id } }
func at0(d time.Duration) from0 { return from0(d) }

func connected(account string) edit { return func(h *happening) { h.account = account } }

func list(data ...any) payload {
	return payload{"object": "list", "data": data, "has_more": false}
}

// item returns a subscription item with price_PLAN for the first month.
func item(plan string, quantity int, edits ...func(payload)) any {
	i := payload{
		"id": "si_" + plan, "object": "subscription_item", "quantity": quantity,
		"current_period_start": at0(0), "current_period_end": at0(aMonth),
		"price": payload{"id": "price_" + plan, "object": "price", "lookup_key": nil, "product": "prod_" + plan, "recurring": payload{"interval": "month", "usage_type": "licensed"}},
	}
	for _, e := range edits {
		e(i)
	}
	return i
}

// during sets the period of an item or a line.
func during(start, end time.Duration) func(payload) {
	return func(f payload) {
		if f["object"] == "subscription_item" {
			f["current_period_start"], f["current_period_end"] = at0(start), at0(end)
		} else {
			f["period"] = payload{"start": at0(start), "end": at0(end)}
		}
	}
}

// subscription returns an event about sub_1 of cus_1 with account acme.
func subscription(event string, at time.Duration, status string, items []any, edits ...edit) happening {
	return tell("customer.subscription."+event, at, payload{
		"id": "sub_1", "object": "subscription", "customer": "cus_1", "status": status, "items": list(items...), "start_date": at0(0),
		"cancel_at": nil, "cancel_at_period_end": false, "canceled_at": nil, "ended_at": nil, "trial_end": nil, "pause_collection": nil,
		"collection_method": "charge_automatically", "metadata": payload{"account": "acme"},
	}, edits...)
}

func items(of ...any) []any { return of }

// ended returns the event that reports the end of sub_1.
func ended(at time.Duration, of []any, edits ...edit) happening {
	return subscription("deleted", at, "canceled", of, append([]edit{set("ended_at", at0(at)), set("canceled_at", at0(at))}, edits...)...)
}

// line returns an invoice line of sub_1 for the first month.
func line(plan string, amount int, edits ...func(payload)) payload {
	l := payload{
		"id": "il_" + plan, "object": "line_item", "amount": amount, "currency": "usd", "quantity": 1, "period": payload{"start": at0(0), "end": at0(aMonth)},
		"parent": payload{"type": "subscription_item_details", "subscription_item_details": payload{
			"subscription": "sub_1", "subscription_item": "si_" + plan, "proration": false,
		}},
		"pricing": payload{"type": "price_details", "price_details": payload{"price": "price_" + plan, "product": "prod_" + plan}},
	}
	for _, e := range edits {
		e(l)
	}
	return l
}

func prorated(l payload) {
	l["parent"].(payload)["subscription_item_details"].(payload)["proration"] = true
}

func ofSubscription(id string) func(payload) {
	return func(l payload) { l["parent"].(payload)["subscription_item_details"].(payload)["subscription"] = id }
}

func seats(n int) func(payload) { return func(l payload) { l["quantity"] = n } }

// soldOnce removes the subscription from a line.
func soldOnce(l payload) {
	l["parent"] = payload{"type": "invoice_item_details", "invoice_item_details": payload{"invoice_item": "ii_1", "proration": false, "subscription": nil}}
}

// bill returns an event about an invoice of sub_1 and acme. If the event is "paid", the invoice is fully paid.
func bill(event string, at time.Duration, id string, lines []payload, edits ...edit) happening {
	due, data := 0, []any{}
	for _, l := range lines {
		due += l["amount"].(int)
		data = append(data, l)
	}
	status, paid, attempts := map[string]string{
		"paid": "paid", "payment_succeeded": "paid", "voided": "void", "marked_uncollectible": "uncollectible", "created": "draft",
		"finalization_failed": "draft", "deleted": "draft",
	}[event], 0, 0
	switch {
	case status == "paid":
		paid = due
	case event == "payment_failed":
		attempts = 1
	}
	return tell("invoice."+event, at, payload{
		"id": id, "object": "invoice", "customer": "cus_1", "customer_email": "buyer@example.com", "status": cmp.Or(status, "open"),
		"amount_due": due, "amount_paid": paid, "amount_remaining": due - paid, "currency": "usd", "attempt_count": attempts, "billing_reason": "subscription_cycle",
		"lines": list(data...), "next_payment_attempt": nil, "due_date": nil, "number": "N-" + id, "total": due, "total_taxes": []any{},
		"collection_method": "charge_automatically", "metadata": payload{},
		"parent": payload{"type": "subscription_details", "subscription_details": payload{"subscription": "sub_1", "metadata": payload{"account": "acme"}}},
	}, edits...)
}

func lines(of ...payload) []payload { return of }

// first marks a bill as the first invoice of its subscription.
func first(h *happening) { h.object["billing_reason"] = "subscription_create" }

// billOf sets the subscription and the account of a bill; an account of "" removes the account.
func billOf(subscription, account string) edit {
	return func(h *happening) {
		metadata := payload{}
		if account != "" {
			metadata["account"] = account
		}
		h.object["parent"] = payload{"type": "subscription_details", "subscription_details": payload{"subscription": subscription, "metadata": metadata}}
	}
}

// ofNone removes the subscription from a bill and sets the account in the bill's metadata; "" removes the account.
func ofNone(account string) edit {
	return func(h *happening) {
		h.object["parent"], h.object["billing_reason"], h.object["metadata"] = nil, "manual", payload{}
		if account != "" {
			h.object["metadata"] = payload{"account": account}
		}
	}
}

// attempt returns the event of the nth failed attempt to collect a bill.
func attempt(n int, at time.Duration, id string, of []payload, edits ...edit) happening {
	return bill("payment_failed", at, id, of, append([]edit{set("attempt_count", n)}, edits...)...)
}

// nobodys removes the account from a subscription.
func nobodys(h *happening) { h.object["metadata"] = payload{} }

func customer(event string, at time.Duration, account string) happening {
	return tell("customer."+event, at, payload{"id": "cus_1", "object": "customer", "email": "buyer@example.com", "metadata": payload{"account": account}})
}

// chargeOf returns a successful payment of cus_1. The edits can set its invoice.
func chargeOf(at time.Duration, payment string, amount int, edits ...edit) happening {
	return tell("charge.succeeded", at, payload{
		"id": "ch_" + payment, "object": "charge", "amount": amount, "amount_refunded": 0, "currency": "usd", "customer": "cus_1", "payment_intent": payment,
		"status": "succeeded", "billing_details": payload{"email": "buyer@example.com"},
	}, edits...)
}

func ties(at time.Duration, payment, invoice string, amount int) happening {
	return tell("invoice_payment.paid", at, payload{
		"id": "inpay_" + payment, "object": "invoice_payment", "amount_paid": amount, "amount_requested": amount, "currency": "usd", "invoice": invoice,
		"payment": payload{"type": "payment_intent", "payment_intent": payment}, "status": "paid",
	})
}

func refund(event string, at time.Duration, id, status, payment string, amount int, edits ...edit) happening {
	return tell("refund."+event, at, payload{
		"id": id, "object": "refund", "amount": amount, "charge": "ch_" + payment, "currency": "usd", "payment_intent": payment, "status": status, "metadata": payload{},
	}, edits...)
}

// moved returns a balance transaction of a dispute.
func moved(id string, amount int, at time.Duration) payload {
	return payload{"id": id, "object": "balance_transaction", "amount": amount, "currency": "usd", "created": at0(at)}
}

func dispute(event string, at time.Duration, status string, transactions []any, edits ...edit) happening {
	return tell("charge.dispute."+event, at, payload{
		"id": "dp_1", "object": "dispute", "amount": 1000, "currency": "usd", "charge": "ch_pi_1", "payment_intent": "pi_1", "reason": "fraudulent", "status": status,
		"balance_transactions": transactions, "evidence_details": payload{"due_by": at0(aMonth)},
	}, edits...)
}

func suspicion(at time.Duration) happening {
	return tell("radar.early_fraud_warning.created", at, payload{
		"id": "issfr_1", "object": "radar.early_fraud_warning", "actionable": true, "charge": "ch_pi_1", "payment_intent": "pi_1", "fraud_type": "misc",
	})
}

func creditNote(event string, at time.Duration, status string, before, after int, edits ...edit) happening {
	return tell("credit_note."+event, at, payload{
		"id": "cn_1", "object": "credit_note", "amount": before + after, "pre_payment_amount": before, "post_payment_amount": after, "currency": "usd",
		"customer": "cus_1", "invoice": "in_1", "refunds": []any{}, "status": status, "reason": nil, "metadata": payload{},
	}, edits...)
}

// sells returns a checkout session of cus_1 that sells one price_week with the payment pi_1.
func sells(event string, at time.Duration, paid, account string, edits ...edit) happening {
	s := payload{
		"id": "cs_1", "object": "checkout.session", "mode": "payment", "status": "complete", "payment_status": paid, "customer": "cus_1",
		"customer_details": payload{"email": "buyer@example.com"}, "amount_total": 1500, "currency": "usd", "total_details": payload{"amount_tax": 0},
		"subscription": nil, "invoice": nil, "payment_intent": "pi_1", "client_reference_id": nil, "metadata": payload{"price": "price_week"},
	}
	if account != "" {
		s["client_reference_id"] = account
	}
	return tell("checkout.session."+event, at, s, edits...)
}

// signsUp returns the checkout session that created sub_1.
func signsUp(at time.Duration, account string, edits ...edit) happening {
	return sells("completed", at, "paid", account, append([]edit{
		set("mode", "subscription"), set("subscription", "sub_1"), set("payment_intent", nil), set("metadata", payload{}), set("invoice", "in_1"),
	}, edits...)...)
}
