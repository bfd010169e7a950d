package workflows

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// Bookings are the entries about refunds, disputes and credit notes. They follow from what their facts hold together,
// and their keys name the object: refund.created, charge.refunded and charge.refund.updated meet at the same. They
// are part of every plan, since any event can be the one that makes their account known, or what was paid for. Of a
// payment that was for nothing that is known, the clock books all. Money of an unknown invoice waits for its account
// and its tax.
func bookings(c billing.Change) []*step {
	unknown := func(of billing.Ref) bool { return of.Purchase == "" || of.Purchase == of.Payment }
	return moneySteps(c.Subject, billing.State{
		Refunds: slices.DeleteFunc(slices.Clone(c.After.Refunds),
			func(r billing.Refund) bool { return r.Unbilled || unknown(r.Ref) }),
		Disputes: slices.DeleteFunc(slices.Clone(c.After.Disputes),
			func(d billing.Dispute) bool { return d.Unbilled || unknown(d.Ref) }),
		Credits: slices.DeleteFunc(slices.Clone(c.After.Credits),
			func(n billing.Credit) bool { return n.Unbilled }),
	})
}

// bookedBefore are the keys of the payment's entry and of those of its parts. The entries about the payment come after.
func bookedBefore(subject billing.Subject, of billing.Ref) []string {
	key := financeExport.key(object(subject, cmp.Or(of.Purchase, of.Invoice)))
	return []string{key, key + ":"}
}

// moneySteps book money whose account is known: a payment of neither an invoice nor a checkout session, or a session
// that a person has given to an account, which the clock books together with what has moved of it; and what has moved
// of any.
func moneySteps(subject billing.Subject, s billing.State) []*step {
	var steps []*step
	if p := s.Payment; p != nil && p.Purchase == p.ID && p.Status == "succeeded" && p.Account != "" {
		entry := bookedFor(subject, activities.PaymentEntry, p.ID, p.Ref)
		entry.Amount, entry.Currency, entry.How = p.Amount, p.Currency, activities.ByCharge
		entry.OccurredAt = p.SucceededBy.At
		steps = append(steps, financeExport.step(object(subject, p.ID), entry))
	}
	if c := s.Checkout; c != nil && c.Sells() && c.Paid() && c.Account != "" {
		steps = append(steps, orderSteps(subject, *c, false)...)
	}
	for _, r := range s.Refunds {
		if r.Account != "" {
			steps = append(steps, refundSteps(subject, r)...)
		}
	}
	for _, d := range s.Disputes {
		if d.Account != "" {
			steps = append(steps, disputeSteps(subject, d)...)
		}
	}
	for _, n := range s.Credits {
		if n.Account != "" && n.Amount > 0 {
			steps = append(steps, creditSteps(subject, n)...)
		}
	}
	return append(steps, correctionSteps(subject, s.Corrections)...)
}

// correctionSteps book what a person has had corrected, each after the entry that it corrects and the corrections
// before it. It is money of the day on which the person decided.
func correctionSteps(subject billing.Subject, list []billing.Correction) (steps []*step) {
	var before []string
	for _, c := range list {
		s := financeCorrection.step(strings.TrimPrefix(c.Key, financeCorrection.key("")), activities.Entry{
			Kind: activities.CorrectionEntry, Mode: subject.Mode,
			Account: c.Account, ProviderAccount: c.ProviderAccount,
			Object: c.Object, Invoice: c.Invoice, Amount: c.Amount, Tax: c.Tax, Currency: c.Currency, OccurredAt: c.At,
			Corrects: c.Corrects,
		})
		steps = append(steps, s.comesAfter(c.Corrects, c.Corrects+":").comesAfter(before...))
		before = append(before, s.key)
	}
	return steps
}

// paymentSteps book what came in for the invoice of a change.
func paymentSteps(c billing.Change) (steps []*step) {
	bookPayments(c.Subject, *c.After.Invoice, func(of string, entry activities.Entry) {
		if entry.Amount > 0 {
			steps = append(steps, paymentStep(c.Subject, of, entry))
		}
	})
	return steps
}

// paymentStep books a payment of an invoice. A later one comes after the first.
func paymentStep(subject billing.Subject, of string, entry activities.Entry) *step {
	s := financeExport.step(of, entry)
	if first := object(subject, entry.Invoice); of != first {
		s.comesAfter(financeExport.key(first))
	}
	return s
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
