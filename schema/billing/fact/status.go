package fact

import (
	"slices"
	"time"
)

// Over reports whether the subscription has ended and cannot become active again.
func (s *Subscription) Over() bool { return Terminal(s.Status) }

// statuses lists the statuses of an invoice, lowest first. An invoice is never paid and void at once. If facts show
// both, the money was received, and a person reviews the invoice.
var statuses = []string{"draft", "deleted", "open", "uncollectible", "void", "paid"}

// Height returns the position of the invoice's status in statuses.
func Height(f Fact) int { return slices.Index(statuses, f.Invoice.Status) }

// Terminal reports whether a subscription with this status has ended. The provider never reactivates such a
// subscription.
func Terminal(status string) bool { return status == "canceled" || status == "incomplete_expired" }

// PlannedEnd returns the planned end of a subscription, or the zero time. It also reads CancelAt, because with flexible
// billing the customer portal sets only CancelAt.
func PlannedEnd(s *Subscription, periodEnd time.Time) time.Time {
	if s.CancelAt.IsZero() && s.CancelAtPeriodEnd {
		return periodEnd
	}
	return s.CancelAt
}

// Granting reports whether a subscription with this status grants access. A past due subscription grants during the
// grace period.
func Granting(status string) bool {
	return slices.Contains([]string{"active", "trialing", "past_due"}, status)
}
