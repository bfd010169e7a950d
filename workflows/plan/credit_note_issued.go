package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// creditSteps returns the steps that book a credit note: the part that was credited to the customer's balance, and the
// part that was repaid outside of the provider. Refunds have events of their own. For a void credit note, it also books
// the issue, because no event may have reported it.
func creditSteps(subject fact.Subject, n fold.Credit) (steps []*Step) {
	for _, part := range []struct {
		how, suffix string
		amount      int64
	}{
		{activities.ByBalance, "", n.Amount - n.OutOfBand}, {activities.OutOfBand, ":out_of_band", n.OutOfBand},
	} {
		if part.amount == 0 {
			continue
		}
		of := Object(subject, n.ID+part.suffix)
		entry := bookedFor(subject, activities.CreditEntry, n.ID, n.Ref)
		entry.Amount, entry.Tax, entry.Currency = part.amount, fold.TaxOf(part.amount, n.Amount, n.Tax), n.Currency
		entry.Method, entry.OccurredAt = part.how, n.IssuedAt
		booked := CreditEntry.Step(of, entry).comesAfter(bookedBefore(subject, n.Ref)...)
		if steps = append(steps, booked); n.Voided() {
			entry.Kind, entry.OccurredAt, entry.Reverses = activities.CreditReversalEntry, n.VoidedAt, booked.Key
			steps = append(steps, CreditReversal.Step(of, entry).comesAfter(booked.Key))
		}
	}
	return steps
}
