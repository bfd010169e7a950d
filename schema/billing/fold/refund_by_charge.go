package fold

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Unexplained returns a refund fact for each refund that only a charge of the payment reports. A charge does not
// include a refund that had already failed.
func (w Related) Unexplained(payment string) (told []fact.Fact) {
	refunds := Each[*Refund](w.Objects)
	for _, f := range fact.InOrder(w.Facts[payment], fact.PaymentSeen) {
		if r, ok := refundByCharge(f, refunds); ok {
			told, refunds = append(told, r), append(refunds, RefundOf(r.Object, []fact.Fact{r}))
		}
	}
	return told
}

// refundByCharge derives a refund from the refunded amount of a charge. It returns false if the known refunds explain
// the whole amount.
func refundByCharge(f fact.Fact, refunds []*Refund) (fact.Fact, bool) {
	if !f.Payment.ToldAlone {
		return fact.Fact{}, false
	}
	charge, count := f.Payment.Charge, 1
	told, known := *f.Payment.Refunded, []string{}
	for _, r := range refunds {
		if r.Charge != charge || r.CreatedAt.After(f.OccurredAt) {
			continue
		}
		if r.ByCharge {
			count++
		}
		known = append(known, r.ID)
		if r.within(refunds) == "" {
			told -= r.Amount
		}
		if r.Failed() && !r.FailedAt.After(f.OccurredAt) { // the charge no longer includes a refund that has failed
			told += r.Amount
		}
	}
	if told <= 0 {
		return fact.Fact{}, false
	}
	refund := &fact.Refund{
		Status: "succeeded", Charge: charge, Amount: told, Currency: f.Payment.Currency, ByCharge: true, Known: known,
	}
	if f.Object != charge {
		refund.PaymentIntent = f.Object
	}
	f.Kind, f.Object, f.Data = fact.RefundSeen, fmt.Sprintf("%s:%d", charge, count), fact.Data{Refund: refund}
	return f, true
}

// within returns the ID of the refund by charge that contains this refund, or "". The charge must have been reported
// after this refund was created and before it failed. This refund must have been unknown at that time. If several
// refunds by charge qualify, the first one is returned.
func (r *Refund) within(refunds []*Refund) string {
	if r.ByCharge {
		return ""
	}
	first := (*Refund)(nil)
	for _, by := range refunds {
		counted := !r.CreatedAt.After(by.SucceededAt) && (!r.Failed() || r.FailedAt.After(by.SucceededAt))
		if by.ByCharge && by.Charge == r.Charge && counted && !slices.Contains(by.Known, r.ID) &&
			(first == nil || by.SucceededAt.Before(first.SucceededAt)) {
			first = by
		}
	}
	if first == nil {
		return ""
	}
	return first.ID
}
