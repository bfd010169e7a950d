package fold

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Given is the sale that the subscription grants while it grants access.
func (s Subscription) Given() fact.Sale {
	if s.Instead != nil {
		return *s.Instead
	}
	return s.Sale
}

// Welcomes returns the plan for which a customer can receive the onboarding: the granted plan, or "". s may be nil.
func (s *Subscription) Welcomes() string {
	if s == nil || s.Ended() || !s.gives() {
		return ""
	}
	return s.Given().Plan
}

// give determines the grant. A refusal withholds the refused order. The newest earlier order that was granted or paid,
// and was not refused, is then granted instead.
func (s *Subscription) give(facts, snapshots []fact.Fact, invoices []Invoice, p fact.Policy) {
	s.limit(facts, snapshots, invoices, p)
	given, earlier := s.Given().Prices, s.earlier(snapshots, invoices, p)
	at := slices.IndexFunc(earlier, func(e fact.Sale) bool {
		return !slices.Equal(e.Prices, given) && !fact.TookBack(facts, e.Prices)
	})
	s.Refused, s.FallsBack = fact.TookBack(facts, given), at >= 0
	switch {
	case s.Refused && s.FallsBack:
		s.Instead = &earlier[at]
	case s.Refused:
		s.Instead, s.Withheld = nil, true
	}
}

// earlier lists the earlier grants of the subscription, newest first: from its snapshots, then from paid invoices.
func (s Subscription) earlier(snapshots []fact.Fact, invoices []Invoice, p fact.Policy) (list []fact.Sale) {
	add := func(snapshot *fact.Subscription) {
		if snapshot == nil || !fact.Granting(snapshot.Status) {
			return
		}
		if b := snapshot.Purchase(p); b.Plan != "" || len(b.AddOns) > 0 {
			list = append(list, b.Sale)
		}
	}
	for _, f := range slices.Backward(snapshots) {
		add(f.Subscription)
		add(f.Subscription.Before)
	}
	for _, i := range slices.Backward(invoices) {
		if i.IsPaid() && i.Plan != "" && !s.paidAfterEnd(i) {
			list = append(list, i.Sale)
		}
	}
	return list
}
