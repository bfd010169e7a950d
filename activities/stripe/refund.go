package stripe

import "github.com/pawlhq/pawl/schema/billing"

func (r *reader) refund(f *fields) *billing.Fact {
	seen := &billing.RefundFact{
		Status:        f.needed("status", f.word("status")),
		Charge:        f.link("charge"),
		PaymentIntent: f.link("payment_intent"),
		Amount:        f.amount("amount"),
		Currency:      f.currency("currency"),
	}
	fact := r.fact(f, billing.RefundSeen, seen.Status == "failed" || seen.Status == "canceled")
	fact.Refund = seen
	return fact
}
