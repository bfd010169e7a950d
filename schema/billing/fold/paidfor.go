package fold

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// limit reduces the grant of the subscription to the paid part. Under [fact.Policy.GrantOnPayment], an upgrade is
// granted only after its payment. A full refund or a dispute ends only the purchase that its money paid for: a month or
// an upgrade.
func (s *Subscription) limit(facts, snapshots []fact.Fact, invoices []Invoice, p fact.Policy) {
	own, disputes := holdsApart(facts)
	s.Held, s.LostBy = fact.OnHold(own), lostBy(own)
	released := fact.InOrder(own, fact.Released)
	standing := slices.DeleteFunc(paidOf(invoices), func(i Invoice) bool {
		return fact.OnHold(slices.Concat(released, disputes[i.ID])) || i.paidBack() && (p.EndOnFullRefund || s.Ended())
	})
	if s.Ended() && p.EndAtPeriodEnd {
		s.lastUntilPaid(standing)
	}
	payers := slices.DeleteFunc(paidOf(invoices), func(i Invoice) bool { return !s.paidBy(i) })
	standing = slices.DeleteFunc(standing, func(i Invoice) bool { return !s.paidBy(i) })
	if p.GrantOnPayment {
		s.Instead = s.paidFor(snapshots, standing, p)
	}
	newest, stands := newestPaid(payers), newestPaid(standing)
	switch {
	case stands.ID == newest.ID:
	case stands.ID != "" && stands.PeriodEnd.After(newest.PeriodStart):
		s.stayWith(stands, newest, disputes[newest.ID], p)
	default:
		all := fact.InOrder(slices.Concat(own, disputes[newest.ID]))
		s.Held, s.LostBy = fact.OnHold(all), lostBy(all)
		if p.EndOnFullRefund && newest.paidBack() {
			s.PaidBack, s.PaidBackBy = true, newest.RefundedBy
		}
	}
}

// lastUntilPaid extends the grant of an ended subscription to the end of the last paid period. A trial is not paid.
func (s *Subscription) lastUntilPaid(standing []Invoice) {
	for _, i := range standing {
		if !i.Free && !s.paidAfterEnd(i) && i.PeriodEnd.After(s.EndedAt) && i.PeriodEnd.After(s.EndsAt) {
			s.EndsAt, s.Until = i.PeriodEnd, i.PeriodEnd
		}
	}
}

// stayWith grants the purchase of an earlier invoice after the money of all later invoices was returned. holds are the
// holds of the disputes of the newest invoice.
//
// The newest invoice may be for a longer period, for example a year that replaced a month. The grant then ends with the
// earlier period, because no renewal follows.
func (s *Subscription) stayWith(earlier, newest Invoice, holds []fact.Fact, p fact.Policy) {
	if earlier.Plan != "" && !p.Covers(earlier.Sale, s.Sale) {
		s.Instead = &earlier.Sale
	}
	end := earlier.PeriodEnd
	if !s.Ended() && newest.PeriodEnd.After(end) && fact.CompareEnds(end, s.EndsAt) < 0 {
		s.EndsAt, s.Until = end, end
		s.CutShort = taken(fact.OnHold(holds), lostBy(holds), true)
	}
}

// holdsApart separates the holds by disputes from the other facts, grouped by disputed invoice. own contains the holds
// and releases of the subscription itself.
func holdsApart(facts []fact.Fact) (own []fact.Fact, disputes map[string][]fact.Fact) {
	disputes = map[string][]fact.Fact{}
	for _, f := range fact.InOrder(facts, fact.Held, fact.Released) {
		if f.ByDispute() && f.Decision.Invoice != "" {
			disputes[f.Decision.Invoice] = append(disputes[f.Decision.Invoice], f)
		} else {
			own = append(own, f)
		}
	}
	return own, disputes
}

// paidFor returns the purchase to grant while the order is not paid. It returns nil if the order itself is granted. A
// trial, and a plan that is billed by usage alone, are granted as ordered, because the customer does not pay for them
// in advance.
func (s *Subscription) paidFor(snapshots []fact.Fact, standing []Invoice, p fact.Policy) *fact.Sale {
	if s.Status == "trialing" || s.ByUse {
		return nil
	}
	paid := s.newestSale(standing)
	if paid == nil {
		paid = firstOrder(snapshots, p)
	}
	if paid == nil || p.Covers(*paid, s.Sale) {
		return nil
	}
	return paid
}

// newestSale returns the sale of the newest invoice with a plan, or nil. It skips invoices of a trial. If the newest
// invoice has the plan without seats, for example for a fee alone, the seats come from an older invoice.
func (s *Subscription) newestSale(invoices []Invoice) (sale *fact.Sale) {
	for _, i := range slices.Backward(invoices) {
		switch {
		case i.Plan == "" || i.Free && i.Reason == "subscription_create":
		case i.Plan == s.Plan && i.Quantity == 0:
			sale = &s.Sale
		case sale == nil || i.Plan == s.Plan:
			return &i.Sale
		default:
			return sale
		}
	}
	return sale
}

// firstOrder returns the first order of a subscription, or the last order within its trial. It returns nil if no
// snapshot has a plan.
func firstOrder(snapshots []fact.Fact, p fact.Policy) (first *fact.Sale) {
	for _, f := range snapshots {
		for _, state := range []*fact.Subscription{f.Subscription.Before, f.Subscription} {
			if state == nil {
				continue
			}
			if b := state.Purchase(p); b.Plan != "" && (first == nil || state.Status == "trialing") {
				first = &b.Sale
			}
		}
	}
	return first
}
