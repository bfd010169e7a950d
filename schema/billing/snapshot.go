package billing

import (
	"slices"
	"time"
)

// terminal reports whether a subscription of this status has ended: the provider never revives one.
func terminal(status string) bool { return status == "canceled" || status == "incomplete_expired" }

// see takes over the last snapshot.
func (s *Subscription) see(snapshots []Fact, p Policy) {
	fact := snapshots[len(snapshots)-1]
	last := fact.Subscription
	b := last.purchase(p)
	s.Status, s.Cause, s.TrialEnd = last.Status, causeOf(fact), last.TrialEnd
	if !last.PaymentMethod {
		s.Unpaid = last.MissingPayment
	}
	s.Sale, s.UnknownPrice, s.Asks = b.Sale, b.unknown, b.asks
	s.PeriodStart, s.PeriodEnd = b.start, b.end
	// the newest plan that was known stays
	for i := len(snapshots) - 2; i >= 0 && s.Plan == "" && s.UnknownPrice != ""; i-- {
		b = snapshots[i].Subscription.purchase(p)
		s.Plan, s.Quantity, s.Prices = b.Plan, b.Quantity, b.Prices
	}
	s.PlannedEnd = plannedEnd(last, s.PeriodEnd)
	s.EndsAt = s.PlannedEnd
	if last.Status == "past_due" {
		s.PastDueBy = pastDueBy(snapshots)
		s.PastDueSince = s.PastDueBy.At
		if grace := s.PastDueSince.Add(p.Grace); compareEnds(grace, s.EndsAt) < 0 {
			s.EndsAt = grace
		}
	}
	s.Until = s.EndsAt
}

// plannedEnd returns when the subscription is to end, zero for never. Under flexible billing the portal sets only
// CancelAt.
func plannedEnd(s *SubscriptionFact, periodEnd time.Time) time.Time {
	if s.CancelAt.IsZero() && s.CancelAtPeriodEnd {
		return periodEnd
	}
	return s.CancelAt
}

// pastDueBy returns the first fact of the run of past_due that the last snapshot belongs to.
func pastDueBy(snapshots []Fact) (by Cause) {
	for _, f := range slices.Backward(snapshots) {
		if f.Subscription.Status != "past_due" {
			break
		}
		by = causeOf(f)
	}
	return by
}

// end takes over the snapshot that ended it, the first of those given, and judges what came after.
func (s *Subscription) end(snapshots []Fact, invoices []Invoice, p Policy) {
	s.EndedAt = snapshots[0].Subscription.EndedAt
	if s.EndedAt.IsZero() {
		s.EndedAt = snapshots[0].OccurredAt
	}
	s.PlannedEnd, s.EndsAt, s.Until, s.PastDueSince = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	s.PastDueBy = Cause{}
	for _, i := range invoices {
		switch {
		case !i.paid():
		case s.paidAfterEnd(i) && i.PeriodEnd.After(s.EndedAt):
			s.PaidAfterEnd = append(s.PaidAfterEnd, i.ID)
		case p.EndAtPeriodEnd && i.PeriodEnd.After(s.EndedAt) && i.PeriodEnd.After(s.EndsAt):
			s.EndsAt, s.Until = i.PeriodEnd, i.PeriodEnd
		}
	}
	s.PaidAfterEnd = set(s.PaidAfterEnd)
	for _, f := range snapshots {
		if f.Origin == FromImport && !terminal(f.Subscription.Status) && f.OccurredAt.After(snapshots[0].OccurredAt) {
			s.Review = ReviewImport
		}
	}
}

// paidAfterEnd reports whether an invoice paid for nothing: after the end, or at any time where the subscription
// expired before it began.
func (s *Subscription) paidAfterEnd(i Invoice) bool {
	return s.Ended() && (i.PaidAt.After(s.EndedAt) || s.NeverBegan() && i.Paid > 0)
}

// grantedAt returns when the first snapshot showed that the subscription grants, or had granted before the change.
func grantedAt(snapshots []Fact) time.Time {
	for _, f := range snapshots {
		if s := f.Subscription; granting(s.Status) || s.Before != nil && granting(s.Before.Status) {
			return f.OccurredAt
		}
	}
	return time.Time{}
}

// granting reports whether a subscription of this status grants. One that is past due does for the time of grace.
func granting(status string) bool {
	return slices.Contains([]string{"active", "trialing", "past_due"}, status)
}
