package fold

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// see copies the fields of the last snapshot.
func (s *Subscription) see(snapshots []fact.Fact, p fact.Policy) {
	newest := snapshots[len(snapshots)-1]
	last := newest.Subscription
	b := last.Purchase(p)
	s.Status, s.Cause, s.Start, s.TrialEnd = last.Status, fact.CauseOf(newest), last.Start, last.TrialEnd
	if !last.PaymentMethod {
		s.Unpaid = last.MissingPayment
	}
	s.Sale, s.ByUse, s.UnknownPrice, s.Asks = b.Sale, b.ByUse, b.Unknown, b.Asks
	s.PeriodStart, s.PeriodEnd = b.Start, b.End
	// search older snapshots for a known plan
	for i := len(snapshots) - 2; i >= 0 && s.Plan == "" && (s.UnknownPrice != "" || last.Partial); i-- {
		b = snapshots[i].Subscription.Purchase(p)
		s.Plan, s.Quantity, s.Prices, s.ByUse = b.Plan, b.Quantity, b.Prices, b.ByUse
	}
	s.PlannedEnd = fact.PlannedEnd(last, s.PeriodEnd)
	s.EndsAt = s.PlannedEnd
	if last.Status == "past_due" {
		s.PastDueBy = pastDueBy(snapshots)
		s.PastDueSince = s.PastDueBy.At
		if grace := s.PastDueSince.Add(p.Grace); fact.CompareEnds(grace, s.EndsAt) < 0 {
			s.EndsAt = grace
		}
	}
	s.Until = s.EndsAt
}

// pastDueBy returns the first fact of the uninterrupted past_due status, or zero if the subscription is not past due.
func pastDueBy(snapshots []fact.Fact) (by fact.Cause) {
	for _, f := range slices.Backward(snapshots) {
		if f.Subscription.Status != "past_due" {
			break
		}
		by = fact.CauseOf(f)
	}
	return by
}

// end copies the end from the first snapshot that shows it, and finds invoices that were paid after the end.
func (s *Subscription) end(snapshots []fact.Fact, invoices []Invoice) {
	s.EndedAt = snapshots[0].Subscription.EndedAt
	if s.EndedAt.IsZero() {
		s.EndedAt = snapshots[0].OccurredAt
	}
	s.PlannedEnd, s.EndsAt, s.Until, s.PastDueSince = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	s.PastDueBy = fact.Cause{}
	for _, i := range invoices {
		if i.IsPaid() && s.paidAfterEnd(i) && i.PeriodEnd.After(s.EndedAt) {
			s.PaidAfterEnd = append(s.PaidAfterEnd, i.ID)
		}
	}
	s.PaidAfterEnd = fact.Unique(s.PaidAfterEnd)
	for _, f := range snapshots {
		if f.Origin == fact.FromImport && !fact.Terminal(f.Subscription.Status) &&
			f.OccurredAt.After(snapshots[0].OccurredAt) {
			s.Review = ReviewImport
		}
	}
}

// paidAfterEnd reports whether an invoice was paid although it sold nothing: after the end of the subscription, or at
// any time if the subscription never started.
func (s *Subscription) paidAfterEnd(i Invoice) bool {
	return s.Ended() && (i.PaidAt.After(s.EndedAt) || s.NeverBegan() && i.Paid > 0)
}

// grantedAt returns the time of the first snapshot that grants access, or that shows such a state before its change.
func grantedAt(snapshots []fact.Fact) time.Time {
	for _, f := range snapshots {
		if s := f.Subscription; fact.Granting(s.Status) || s.Before != nil && fact.Granting(s.Before.Status) {
			return f.OccurredAt
		}
	}
	return time.Time{}
}
