package billing

import (
	"fmt"
	"slices"
)

// Up to Stripe's version 2024-10-28, no event tells of the refund of a charge but the charge itself, which says how
// much of it is refunded so far. The difference to the refunds that are known by then is a refund of its own, by a fact
// that says which were known. A sum can come again, once a refund has failed, and so a number names it. Should a refund
// that was made before that fact be told of after all, it is a part of it.

// toldAlone returns the facts of charges that alone tell of their refunds, in their order. Those that were known before
// are asked again: a refund that had failed by then is not a part of their sum.
func (a *applying) toldAlone() []Fact {
	if a.how != normal {
		return nil
	}
	return slices.DeleteFunc(InOrder(a.known[a.about[kindPayment]], PaymentSeen),
		func(f Fact) bool { return !f.Payment.ToldAlone })
}

// refundByCharge returns the fact of a refund that a charge alone tells, and false where all of it is known.
func (a *applying) refundByCharge(f Fact) (Fact, bool) {
	refunds, charge, count := each[*Refund](a.now), f.Payment.Charge, 1
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
		if r.Failed() && !r.FailedAt.After(f.OccurredAt) { // it is not counted any more
			told += r.Amount
		}
	}
	if told <= 0 {
		return Fact{}, false
	}
	refund := &RefundFact{
		Status: "succeeded", Charge: charge, Amount: told, Currency: f.Payment.Currency, ByCharge: true, Known: known,
	}
	if f.Object != charge {
		refund.PaymentIntent = f.Object
	}
	f.Kind, f.Object, f.Data = RefundSeen, fmt.Sprintf("%s:%d", charge, count), Data{Refund: refund}
	return f, true
}

// within returns the refund by the charge that this one is a part of: the first that was told when this one had been
// made, had not failed, and was not known.
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
