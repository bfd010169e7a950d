package plan

import (
	"cmp"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// refundSteps returns the steps that book a successful refund. If the refund failed after its success, they book both,
// regardless of the order of events. A refund that is part of a sum reported by its charge is already booked.
func refundSteps(subject fact.Subject, r fold.Refund) (steps []*Step) {
	entry := bookedFor(subject, activities.RefundEntry, r.ID, r.Ref)
	entry.Amount, entry.Tax, entry.Currency, entry.OccurredAt = r.Amount, r.Tax, r.Currency, r.SucceededAt
	booked := RefundEntry.Key(Object(subject, cmp.Or(r.Within, r.ID)))
	switch {
	case r.Within != "":
	case !r.Succeeded():
		return nil
	default:
		s := RefundEntry.Step(Object(subject, r.ID), entry)
		steps = append(steps, s.comesAfter(bookedBefore(subject, r.Ref)...))
	}
	if r.Failed() {
		entry.Kind, entry.OccurredAt, entry.Reverses = activities.RefundReversalEntry, r.FailedAt, booked
		steps = append(steps, RefundReversal.Step(Object(subject, r.ID), entry).comesAfter(booked))
	}
	return steps
}
