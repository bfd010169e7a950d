package workflows

import (
	"cmp"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// Bookings are the entries about refunds, disputes and credit notes. They follow from what their facts hold together,
// and their keys name the object: refund.created, charge.refunded and charge.refund.updated meet at the same. They
// are part of every plan, since any event can be the one that makes their account known.
func bookings(c billing.Change) []*step {
	var steps []*step
	for _, r := range c.After.Refunds {
		if r.Account != "" {
			steps = append(steps, refundSteps(c.Subject, r)...)
		}
	}
	for _, d := range c.After.Disputes {
		if d.Account != "" {
			steps = append(steps, disputeSteps(c.Subject, d)...)
		}
	}
	for _, n := range c.After.Credits {
		if n.Account != "" && n.Amount > 0 {
			steps = append(steps, creditSteps(c.Subject, n)...)
		}
	}
	return steps
}

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
		steps = append(steps, refundEntry.step(object(subject, r.ID), entry))
	}
	if r.Failed() {
		entry.Kind, entry.OccurredAt, entry.Reverses = activities.RefundReversalEntry, r.FailedAt, booked
		steps = append(steps, refundReversal.step(object(subject, r.ID), entry))
	}
	return steps
}

// disputeSteps book the money that moved because of a dispute, whatever its status.
func disputeSteps(subject billing.Subject, d billing.Dispute) (steps []*step) {
	for _, m := range d.Movements {
		entry := bookedFor(subject, activities.DisputeEntry, m.ID, d.Ref)
		entry.Amount, entry.Currency, entry.OccurredAt = m.Amount, m.Currency, m.OccurredAt
		steps = append(steps, disputeEntry.step(object(subject, m.ID), entry))
	}
	return steps
}

// creditSteps book a credit note. One that is void was issued before, also where nothing has told of that.
func creditSteps(subject billing.Subject, n billing.Credit) (steps []*step) {
	entry := bookedFor(subject, activities.CreditEntry, n.ID, n.Ref)
	entry.Amount, entry.Tax, entry.Currency, entry.OccurredAt = n.Amount, n.Tax, n.Currency, n.IssuedAt
	booked := creditEntry.step(object(subject, n.ID), entry)
	if steps = append(steps, booked); n.Voided() {
		entry.Kind, entry.OccurredAt, entry.Reverses = activities.CreditReversalEntry, n.VoidedAt, booked.key
		steps = append(steps, creditReversal.step(object(subject, n.ID), entry))
	}
	return steps
}

func bookedFor(subject billing.Subject, kind activities.EntryKind, id string, of billing.Ref) activities.Entry {
	return activities.Entry{
		Kind: kind, Mode: subject.Mode, Account: of.Account, ProviderAccount: subject.ProviderAccount,
		Object: id, Invoice: of.Invoice, Subscription: of.Subscription,
	}
}

// planMoney is the plan of events about money that has moved. It cannot be taken back, and neither can what follows:
// what the policy makes of access may be refused, and is then reviewed by a person.
func planMoney(c billing.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c), review: reviewOf(c)}
	for _, s := range p.steps {
		s.refusalUndoesAll = false
	}
	return p
}
