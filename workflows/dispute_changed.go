package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// disputeSteps book the money that moved because of a dispute, whatever its status. What moved on the provider's
// balance stands beside it: where that is in another currency than the charge, the whole of what is disputed has moved.
func disputeSteps(subject billing.Subject, d billing.Dispute) (steps []*step) {
	before := bookedBefore(subject, d.Ref)
	for _, m := range inTime(d.Movements) {
		entry := bookedFor(subject, activities.DisputeEntry, m.ID, d.Ref)
		entry.Amount, entry.Currency, entry.OccurredAt = m.Amount, m.Currency, m.OccurredAt
		entry.Settlement = billing.Settled(m.Amount, m.Fee, m.Currency)
		if m.Currency != d.Currency {
			if entry.Amount, entry.Currency = d.Amount, d.Currency; m.Amount < 0 {
				entry.Amount = -d.Amount
			}
		}
		s := disputeEntry.step(object(subject, m.ID), entry).comesAfter(before...)
		steps, before = append(steps, s), append(before, s.key)
	}
	return steps
}

// inTime returns movements in their order of time: what comes back had gone before.
func inTime(movements []billing.Movement) []billing.Movement {
	return slices.SortedStableFunc(slices.Values(movements), func(a, b billing.Movement) int {
		return a.OccurredAt.Compare(b.OccurredAt)
	})
}
