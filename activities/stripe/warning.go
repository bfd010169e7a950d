package stripe

import "github.com/pawlhq/pawl/schema/billing/fact"

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
