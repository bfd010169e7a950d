package plan

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// disputeSteps returns the steps that book the money that a dispute has moved, regardless of its status. The Settlement
// of an entry is the movement on the provider's balance. If the balance has another currency than the charge, the
// amount of the entry is the whole disputed amount.
func disputeSteps(subject fact.Subject, d fold.Dispute) (steps []*Step) {
	before := bookedBefore(subject, d.Ref)
	for _, m := range inTime(d.Movements) {
		entry := bookedFor(subject, activities.DisputeEntry, m.ID, d.Ref)
		entry.Amount, entry.Currency, entry.OccurredAt = m.Amount, m.Currency, m.OccurredAt
		entry.Settlement = fold.Settled(m.Amount, m.Fee, m.Currency)
		if m.Currency != d.Currency {
			if entry.Amount, entry.Currency = d.Amount, d.Currency; m.Amount < 0 {
				entry.Amount = -d.Amount
			}
		}
		s := DisputeEntry.Step(Object(subject, m.ID), entry).comesAfter(before...)
		steps, before = append(steps, s), append(before, s.Key)
	}
	return steps
}

// inTime sorts movements by time, so that a withdrawal precedes its reinstatement.
func inTime(movements []fact.Movement) []fact.Movement {
	return slices.SortedStableFunc(slices.Values(movements), func(a, b fact.Movement) int {
		return a.OccurredAt.Compare(b.OccurredAt)
	})
}
