package stripe

import "github.com/pawlhq/pawl/schema/billing"

func (r *reader) warning(f *fields) *billing.Fact {
	seen := &billing.WarningFact{
		Charge:        f.needed("charge", f.link("charge")),
		PaymentIntent: f.link("payment_intent"),
		Type:          f.word("fraud_type"),
		Actionable:    f.is("actionable"),
	}
	fact := r.fact(f, billing.WarningSeen, !seen.Actionable)
	fact.Warning = seen
	return fact
}
