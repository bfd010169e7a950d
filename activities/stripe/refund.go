package stripe

import "github.com/pawlhq/pawl/schema/billing/fact"

func (r *reader) refund(f *fields) *fact.Fact {
	seen := &fact.Refund{
		Status:        f.needed("status", f.word("status")),
		Charge:        f.link("charge"),
		PaymentIntent: f.link("payment_intent"),
		Amount:        f.amount("amount"),
		Currency:      f.currency("currency"),
		CreatedAt:     f.time("created"),
		Returned:      f.link("failure_balance_transaction") != "",
	}
	fact := r.fact(f, fact.RefundSeen, seen.Status == "failed" || seen.Status == "canceled")
	fact.Refund = seen
	return fact
}

// made sets the time of a successful refund that no event reported to its creation time.
func made(refund fact.Fact) fact.Fact {
	if at := refund.Refund.CreatedAt; refund.Refund.Status == "succeeded" && !at.IsZero() {
		refund.OccurredAt = at
	}
	return refund
}

// refundsOf returns the refunds that a charge contains: always before 2022-11-15, and later if the endpoint expands
// them.
func (r *reader) refundsOf(f *fields, charge fact.Fact) (facts []fact.Fact) {
	if f.null("refunds") {
		return nil
	}
	list := f.in("refunds")
	for _, in := range list.elements("data") {
		fact := r.refund(in)
		seen := fact.Refund
		if seen.Charge = charge.Payment.Charge; charge.Object != seen.Charge {
			seen.PaymentIntent = charge.Object
		}
		facts = append(facts, made(*fact))
	}
	return facts
}
