package stripe

import "github.com/pawlhq/pawl/schema/billing"

func (r *reader) refund(f *fields) *billing.Fact {
	seen := &billing.RefundFact{
		Status:        f.needed("status", f.word("status")),
		Charge:        f.link("charge"),
		PaymentIntent: f.link("payment_intent"),
		Amount:        f.amount("amount"),
		Currency:      f.currency("currency"),
		CreatedAt:     f.time("created"),
		Returned:      f.link("failure_balance_transaction") != "",
	}
	fact := r.fact(f, billing.RefundSeen, seen.Status == "failed" || seen.Status == "canceled")
	fact.Refund = seen
	return fact
}

// made takes the time back to when the refund was made, if it has succeeded, and is no event's own: its bank has not
// asked for more.
func made(refund billing.Fact) billing.Fact {
	if at := refund.Refund.CreatedAt; refund.Refund.Status == "succeeded" && !at.IsZero() {
		refund.OccurredAt = at
	}
	return refund
}

// refundsOf reads the refunds that a charge carries: always before 2022-11-15, and where the endpoint has them
// expanded.
func (r *reader) refundsOf(f *fields, charge billing.Fact) (facts []billing.Fact) {
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
