package workflows

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// RefundChanged is what happens when money is paid back, or is not after all: it is booked, and access ends after a
// full refund where that is the policy.
func RefundChanged(ctx workflow.Context, in EventInput) (EventResult, error) {
	return refundChanged.run(ctx, in)
}

var refundChanged = billingPlan{flow: "RefundChanged", make: planMoney, forGood: true}

// refundSteps book a refund that succeeded. One that failed after all has both entries, whichever was told first. What
// its charge has told before is booked by that.
func refundSteps(subject billing.Subject, r billing.Refund) (steps []*step) {
	entry := bookedFor(subject, activities.RefundEntry, r.ID, r.Ref)
	entry.Amount, entry.Tax, entry.Currency, entry.OccurredAt = r.Amount, r.Tax, r.Currency, r.SucceededAt
	booked := refundEntry.key(object(subject, cmp.Or(r.Within, r.ID)))
	switch {
	case r.Within != "":
	case !r.Succeeded():
		return nil
	default:
		s := refundEntry.step(object(subject, r.ID), entry)
		steps = append(steps, s.comesAfter(bookedBefore(subject, r.Ref)...))
	}
	if r.Failed() {
		entry.Kind, entry.OccurredAt, entry.Reverses = activities.RefundReversalEntry, r.FailedAt, booked
		steps = append(steps, refundReversal.step(object(subject, r.ID), entry).comesAfter(booked))
	}
	return steps
}
