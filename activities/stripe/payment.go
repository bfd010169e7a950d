package stripe

import (
	"cmp"

	"github.com/pawlhq/pawl/schema/billing"
)

// charge reads a charge, and the refunds that it carries. The fact is about its payment intent, where it has one.
func (r *reader) charge(f *fields) *billing.Fact {
	fact := r.fact(f, billing.PaymentSeen, false)
	refunded := f.count("amount_refunded")
	fact.Payment = &billing.PaymentFact{
		Status:  f.needed("status", f.word("status")),
		Invoice: f.link("invoice"), // up to 2025-02
		// Since then a payment does not say that it pays none.
		NoInvoice: f.has("invoice") && f.null("invoice"),
		Charge:    fact.Object,
		Amount:    f.amount("amount"),
		Currency:  f.currency("currency"),
		Refunded:  &refunded,
	}
	if intent := f.link("payment_intent"); intent != "" {
		fact.Object = intent
	}
	r.more = r.refundsOf(f, *fact)
	// Refunds of charges have events of their own since 2024-10-28.
	if r.subject.EventType == "charge.refunded" && r.version != "" && r.version < "2024-10-28" {
		carried := int64(0)
		for _, refund := range r.more {
			if refund.Rank != billing.RankEnd { // it has not failed
				carried += refund.Refund.Amount
			}
		}
		fact.Payment.ToldAlone = carried < refunded
	}
	return fact
}

func (r *reader) paymentIntent(f *fields) *billing.Fact {
	status := f.needed("status", f.word("status"))
	fact := r.fact(f, billing.PaymentSeen, status == "succeeded" || status == "canceled")
	fact.Payment = &billing.PaymentFact{
		Status:  status,
		Invoice: f.link("invoice"), // up to 2025-02
		// Since then a payment does not say that it pays none.
		NoInvoice: f.has("invoice") && f.null("invoice"),
		Charge:    f.link("latest_charge"),
		Amount:    f.amount("amount"),
		Currency:  f.currency("currency"),
	}
	return fact
}

// invoicePayment reads what ties a payment to its invoice since 2025-03-31.basil. The fact is about the payment: the
// charge or payment intent. A payment outside of Stripe has none: the fact is about the invoice payment itself.
func (r *reader) invoicePayment(f *fields) *billing.Fact {
	payment := f.in("payment")
	id := payment.link("payment_intent")
	charge := payment.link("charge")
	status := f.word("status")
	fact := r.fact(f, billing.PaymentSeen, status == "paid" || status == "canceled")
	outside := id == "" && charge == ""
	fact.Object = cmp.Or(id, charge, fact.Object)
	fact.Payment = &billing.PaymentFact{
		OutOfBand: outside,
		Invoice:   f.needed("invoice", f.link("invoice")),
		Charge:    charge,
		Amount:    f.count("amount_requested"),
		Currency:  f.currency("currency"),
	}
	if status == "paid" {
		fact.Payment.Status, fact.Payment.Amount = "succeeded", f.count("amount_paid")
	}
	return fact
}
