package fold

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// believe treats the newest paid invoice as proof that the subscription is active, until a snapshot shows the status.
// The provider may send the invoice before the subscription.
func (s *Subscription) believe(invoices []Invoice, p fact.Policy) {
	paid := paidOf(invoices)
	if len(paid) == 0 {
		return
	}
	newest := paid[len(paid)-1]
	s.Evidence, s.Status, s.Cause, s.Unsettled = true, "active", newest.Cause, newest.Cause
	if newest.Free && newest.Reason == "subscription_create" {
		s.Status = "trialing"
	}
	of, addOns, prices := newest, newest.AddOns, newest.Prices
	for n, i := range slices.Backward(paid) { // an invoice for an add-on or for usage does not change the plan
		if n < len(paid)-1 {
			addOns, prices = append(slices.Clone(addOns), i.AddOns...), append(slices.Clone(prices), i.Prices...)
		}
		if i.Plan != "" || i.UnknownPrice != "" {
			of = i
			break
		}
	}
	if of.Plan != "" || of.UnknownPrice != "" || s.Plan == "" {
		s.Sale = fact.Sale{Plan: of.Plan, Quantity: of.Quantity, AddOns: fact.Unique(addOns),
			Prices: fact.SortedPrices(prices)}
		s.UnknownPrice = of.UnknownPrice
		if s.Asks = nil; of.UnknownPrice != "" {
			s.Asks = []string{of.UnknownPrice}
		}
		s.PeriodStart, s.PeriodEnd = of.PeriodStart, of.PeriodEnd
	}
	for i := len(paid) - 2; i >= 0 && s.Plan == "" && s.UnknownPrice != ""; i-- { // as in see
		s.Plan, s.Quantity, s.Prices = paid[i].Plan, paid[i].Quantity, paid[i].Prices
	}
	s.Until = s.EndsAt
	if s.Until.IsZero() && !s.PeriodEnd.IsZero() {
		s.Until = s.PeriodEnd.Add(p.Renewal)
	}
}

// renewsBy returns the deadline for an event that shows the next period of the subscription.
func (s *Subscription) renewsBy(invoices []Invoice, p fact.Policy) time.Time {
	buys := s.Plan != "" || len(s.AddOns) > 0
	if !buys || s.Ended() || !s.EndsAt.IsZero() || !slices.Contains([]string{"active", "trialing"}, s.Status) {
		return time.Time{}
	}
	last := Latest(s.PeriodEnd, s.TrialEnd)
	for _, i := range paidOf(invoices) {
		last = Latest(last, i.PeriodEnd)
	}
	if s.PeriodEnd.IsZero() {
		return time.Time{}
	}
	return last.Add(p.Renewal)
}

func paidOf(invoices []Invoice) []Invoice {
	return slices.DeleteFunc(slices.Clone(invoices), func(i Invoice) bool { return !i.IsPaid() })
}

// newestPaid returns the last paid invoice of a sorted list, or the zero value.
func newestPaid(invoices []Invoice) (newest Invoice) {
	for _, i := range paidOf(invoices) {
		newest = i
	}
	return newest
}

// paidBy reports whether an invoice pays for the subscription itself, and not for an add-on, a fee or usage. If the
// invoice has only an unmapped price, it pays for the subscription if a snapshot contains that price.
func (s Subscription) paidBy(i Invoice) bool {
	switch {
	case i.Plan != "":
		return true
	case i.UnknownPrice != "":
		return i.UnknownPrice == s.UnknownPrice && !s.Evidence
	case len(i.AddOns) > 0:
		return s.Plan == ""
	}
	return (s.Quantity == 0 || s.ByUse) && (s.Plan != "" || len(s.Prices) == 0)
}
