package stripe

import "github.com/pawlhq/pawl/schema/billing/fact"

func (r *reader) dispute(f *fields) *fact.Fact {
	evidence := f.in("evidence_details")
	seen := &fact.Dispute{
		Status:        f.needed("status", f.word("status")),
		Charge:        f.needed("charge", f.link("charge")),
		PaymentIntent: f.link("payment_intent"),
		Reason:        f.word("reason"),
		Amount:        f.amount("amount"),
		Currency:      f.currency("currency"),
		EvidenceDue:   evidence.time("due_by"),
	}
	if !f.null("balance_transactions") {
		for _, in := range f.elements("balance_transactions") {
			if in.null("amount") {
				in.fail("amount", "absent")
			}
			seen.Movements = append(seen.Movements, fact.Movement{
				ID: in.needed("id", in.link("id")), Amount: in.whole("amount"), Currency: in.currency("currency"),
				Fee: in.whole("fee"), OccurredAt: in.time("created"),
			})
		}
	}
	// A won or lost dispute can still change. Only the fact of the closing event sorts after all other facts of the
	// same second.
	fact := r.fact(f, fact.DisputeSeen, r.subject.EventType == "charge.dispute.closed")
	fact.Dispute = seen
	return fact
}

// warning parses an early fraud warning, which Stripe sends before a dispute.
func (r *reader) warning(f *fields) *fact.Fact {
	seen := &fact.Warning{
		Charge:        f.needed("charge", f.link("charge")),
		PaymentIntent: f.link("payment_intent"),
		Type:          f.word("fraud_type"),
		Actionable:    f.is("actionable"),
	}
	fact := r.fact(f, fact.WarningSeen, !seen.Actionable)
	fact.Warning = seen
	return fact
}
