package stripe

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// charge parses a charge and the refunds that it contains. The fact is about its payment intent, if there is one.
func (r *reader) charge(f *fields) *fact.Fact {
	seen := r.fact(f, fact.PaymentSeen, false)
	status, amount, refunded := f.captured()
	seen.Payment = &fact.Payment{
		Status:  status,
		Invoice: f.link("invoice"), // up to 2025-02
		// Later API versions omit this field.
		NoInvoice: f.has("invoice") && f.null("invoice"),
		Charge:    seen.Object,
		Amount:    amount,
		Currency:  f.currency("currency"),
		Refunded:  &refunded,
	}
	if status == "succeeded" {
		seen.Payment.PaidAt = r.reports("charge.succeeded", "charge.captured")
		seen.Payment.CreatedAt = f.chargedAt(amount)
	}
	if intent := f.link("payment_intent"); intent != "" {
		seen.Object = intent
	}
	r.more = r.refundsOf(f, *seen)
	// Refunds of charges have events of their own since 2024-10-28.
	if r.subject.EventType == "charge.refunded" && r.version != "" && r.version < "2024-10-28" {
		carried := int64(0)
		for _, refund := range r.more {
			if refund.Rank != fact.RankEnd { // the refund has not failed
				carried += refund.Refund.Amount
			}
		}
		seen.Payment.ToldAlone = carried < refunded
	}
	return seen
}

// reports returns the time of the event if the event has one of the types, and zero otherwise.
func (r *reader) reports(types ...string) time.Time {
	if r.origin == fact.FromEvent && slices.Contains(types, r.subject.EventType) {
		return r.subject.OccurredAt
	}
	return time.Time{}
}

// chargedAt returns when a charge was captured. If the charge was first authorised, it returns zero, because the
// capture can be days later and the charge does not contain its time.
func (f *fields) chargedAt(captured int64) time.Time {
	if captured < f.amount("amount") || !f.in("payment_method_details", "card").null("capture_before") {
		return time.Time{}
	}
	return f.time("created")
}

// requiresCapture is the status of a payment intent with authorised money that is not captured yet. The reader also
// uses this status for a charge that is authorised and not captured, which has the status succeeded at Stripe.
const requiresCapture = "requires_capture"

// captured returns the status of a charge, the captured amount and the refunded part of it. An authorisation is not
// cash: a charge that is not captured has the status requires_capture, and a released authorisation is refunded at
// Stripe although no money moved (https://docs.stripe.com/payments/place-a-hold-on-a-payment-method). If only a part
// was captured, amount_refunded can include the released part.
func (f *fields) captured() (status string, amount, refunded int64) {
	status, amount, refunded = f.needed("status", f.word("status")), f.amount("amount"), f.count("amount_refunded")
	switch {
	case status != "succeeded":
		return status, amount, refunded
	case f.has("captured") && !f.is("captured"):
		return requiresCapture, 0, 0
	case f.null("amount_captured"):
		return status, amount, refunded
	}
	captured := f.count("amount_captured")
	if released := amount - captured; released > 0 && f.is("refunded") {
		refunded = captured
	} else if released > 0 {
		refunded = max(0, refunded-released)
	}
	return status, captured, refunded
}

func (r *reader) paymentIntent(f *fields) *fact.Fact {
	status := f.needed("status", f.word("status"))
	seen := r.fact(f, fact.PaymentSeen, status == "succeeded" || status == "canceled")
	amount := f.amount("amount")
	switch {
	case status == requiresCapture && f.count("amount_received") > 0: // some of several captures are done
		status, amount = "succeeded", f.count("amount_received")
	case status == requiresCapture:
		amount = 0
	case status == "succeeded" && !f.null("amount_received"):
		amount = f.count("amount_received")
	}
	seen.Payment = &fact.Payment{
		Status:  status,
		Invoice: f.link("invoice"), // up to 2025-02
		// Later API versions omit this field.
		NoInvoice: f.has("invoice") && f.null("invoice"),
		Charge:    f.link("latest_charge"),
		Amount:    amount,
		Currency:  f.currency("currency"),
	}
	if status == "succeeded" {
		seen.Payment.PaidAt = r.reports("payment_intent.succeeded")
	}
	return seen
}

// invoicePayment parses the object that connects a payment to its invoice since 2025-03-31.basil. The fact is about
// the payment, i.e. the charge or payment intent. For a payment outside of Stripe the fact is about the invoice
// payment itself.
func (r *reader) invoicePayment(f *fields) *fact.Fact {
	payment := f.in("payment")
	id := payment.link("payment_intent")
	charge := payment.link("charge")
	status := f.word("status")
	seen := r.fact(f, fact.PaymentSeen, status == "paid" || status == "canceled")
	outside := id == "" && charge == ""
	seen.Object = cmp.Or(id, charge, seen.Object)
	seen.Payment = &fact.Payment{
		OutOfBand: outside,
		Invoice:   f.needed("invoice", f.link("invoice")),
		Charge:    charge,
		Amount:    f.count("amount_requested"),
		Currency:  f.currency("currency"),
	}
	if status == "paid" {
		seen.Payment.Status, seen.Payment.Amount = "succeeded", f.count("amount_paid")
		seen.Payment.PaidAt = cmp.Or(f.in("status_transitions").time("paid_at"), r.reports("invoice_payment.paid"))
	}
	return seen
}
