package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// creditSteps book a credit note: what of it went to the customer's balance, which is no cash, and what was given back
// outside of the provider. Refunds have events of their own. One that is void was issued before, also where nothing has
// told of that.
func creditSteps(subject billing.Subject, n billing.Credit) (steps []*step) {
	for _, part := range []struct {
		how, suffix string
		amount      int64
	}{
		{activities.ByBalance, "", n.Amount - n.OutOfBand}, {activities.OutOfBand, ":out_of_band", n.OutOfBand},
	} {
		if part.amount == 0 {
			continue
		}
		of := object(subject, n.ID+part.suffix)
		entry := bookedFor(subject, activities.CreditEntry, n.ID, n.Ref)
		entry.Amount, entry.Tax, entry.Currency = part.amount, billing.TaxOf(part.amount, n.Amount, n.Tax), n.Currency
		entry.How, entry.OccurredAt = part.how, n.IssuedAt
		booked := creditEntry.step(of, entry).comesAfter(bookedBefore(subject, n.Ref)...)
		if steps = append(steps, booked); n.Voided() {
			entry.Kind, entry.OccurredAt, entry.Reverses = activities.CreditReversalEntry, n.VoidedAt, booked.key
			steps = append(steps, creditReversal.step(of, entry).comesAfter(booked.key))
		}
	}
	return steps
}
