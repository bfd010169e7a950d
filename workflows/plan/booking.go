package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// bookings returns the steps that book refunds, disputes and credit notes. Their keys contain the object, so
// refund.created, charge.refunded and charge.refund.updated have the same key. Every plan contains these steps, because
// any event can be the first to report the account or the purchase. If the purchase is unknown, a scheduled action
// books the entries. If the invoice is unknown, the event that reports its account
// and its tax books them.
func bookings(c fold.Change) []*Step {
	unknown := func(of fold.Ref) bool { return of.Purchase == "" || of.Purchase == of.Payment }
	return moneySteps(c.Subject, fold.State{
		Refunds: slices.DeleteFunc(slices.Clone(c.After.Refunds),
			func(r fold.Refund) bool { return r.Unbilled || unknown(r.Ref) }),
		Disputes: slices.DeleteFunc(slices.Clone(c.After.Disputes),
			func(d fold.Dispute) bool { return d.Unbilled || unknown(d.Ref) }),
		Credits: slices.DeleteFunc(slices.Clone(c.After.Credits),
			func(n fold.Credit) bool { return n.Unbilled }),
	})
}

// bookedBefore returns the keys of the payment's entries, including partial payments. Entries about refunds and
// disputes of the payment must be booked after these.
func bookedBefore(subject fact.Subject, of fold.Ref) []string {
	key := FinanceExport.Key(Object(subject, cmp.Or(of.Purchase, of.Invoice)))
	return []string{key, key + ":"}
}

// moneySteps returns the steps that book money with a known account: payments without invoice and checkout session,
// checkout sessions that a person assigned to an account, and all refunds, disputes and credit notes.
func moneySteps(subject fact.Subject, s fold.State) []*Step {
	var steps []*Step
	if p := s.Payment; p != nil && p.Purchase == p.ID && p.Status == "succeeded" && p.Account != "" {
		entry := bookedFor(subject, activities.PaymentEntry, p.ID, p.Ref)
		entry.Amount, entry.Currency, entry.Method = p.Amount, p.Currency, activities.ByCharge
		entry.OccurredAt = p.SucceededAt
		steps = append(steps, captureSteps(subject, entry, p.Captures)...)
	}
	if c := s.Checkout; sold(c) && c.Account != "" {
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

// captureSteps returns the steps that book a payment, one for each capture. total is the entry of the whole payment.
// The key of the first entry contains the object. The keys of later entries also contain the captured sum.
func captureSteps(subject fact.Subject, total activities.Entry, captures []fold.Capture) (steps []*Step) {
	of, before := Object(subject, total.Object), int64(0)
	if len(captures) < 2 {
		return []*Step{FinanceExport.Step(of, total)}
	}
	for n, c := range captures {
		entry := total
		entry.Amount = c.Sum - before
		entry.Tax = fold.TaxOf(c.Sum, total.Amount, total.Tax) - fold.TaxOf(before, total.Amount, total.Tax)
		if before = c.Sum; n == 0 {
			steps = append(steps, FinanceExport.Step(of, entry))
			continue
		}
		entry.OccurredAt = c.At
		later := FinanceExport.Step(of+":"+strconv.FormatInt(c.Sum, 10), entry)
		steps = append(steps, later.comesAfter(steps[0].Key))
	}
	return steps
}

// laterCaptures returns the steps that book the captures of an order after the first one. Every plan contains them,
// because any event of the payment can report another capture.
func laterCaptures(c fold.Change) []*Step {
	now, before := c.After.Checkout, c.Before.Checkout
	if !sold(now) || !sold(before) || now.Account == "" || len(now.Captures) <= len(before.Captures) {
		return nil
	}
	return captureSteps(c.Subject, orderEntry(c.Subject, *now), now.Captures)
}

// correctionSteps returns the steps that book the corrections that a person requested. A correction is booked after the
// corrected entry and after earlier corrections. Its date is the day of the decision.
func correctionSteps(subject fact.Subject, list []fold.Correction) (steps []*Step) {
	var before []string
	for _, c := range list {
		s := FinanceCorrection.Step(strings.TrimPrefix(c.Key, FinanceCorrection.Key("")), activities.Entry{
			Kind: activities.CorrectionEntry, Mode: subject.Mode,
			Account: c.Account, ProviderAccount: c.ProviderAccount,
			Object: c.Object, Invoice: c.Invoice, Amount: c.Amount, Tax: c.Tax, Currency: c.Currency, OccurredAt: c.At,
			Corrects: c.Corrects,
		})
		steps = append(steps, s.comesAfter(c.Corrects, c.Corrects+":").comesAfter(before...))
		before = append(before, s.Key)
	}
	return steps
}

func bookedFor(subject fact.Subject, kind activities.EntryKind, id string, of fold.Ref) activities.Entry {
	return activities.Entry{
		Kind: kind, Mode: subject.Mode, Account: of.Account, ProviderAccount: subject.ProviderAccount,
		Object: id, Invoice: of.Invoice, Subscription: of.Subscription,
	}
}

// bookPayments calls book for each payment of an invoice. The payments may add up to more than the amount due. The date
// of an entry is the date of the payment. The key of the first entry contains the invoice; the keys of later entries
// also contain the sum.
func bookPayments(subject fact.Subject, i fold.Invoice, book func(of string, entry activities.Entry)) {
	of, before := Object(subject, i.ID), int64(0)
	for n, sum := range i.PaidSums {
		entry := activities.Entry{
			Kind: activities.PaymentEntry, Mode: subject.Mode, Account: i.Account,
			ProviderAccount: subject.ProviderAccount,
			Object:          i.ID, Invoice: i.ID, Subscription: i.Subscription, Plan: i.Plan,
			Amount: sum - before, Due: max(0, i.Due-before), Currency: i.Currency,
			Method:      cmp.Or(i.How, activities.Unknown),
			Tax:         fold.TaxOf(sum, i.Due, i.Tax) - fold.TaxOf(before, i.Due, i.Tax),
			PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidTime(n),
		}
		if by := i.PartPaidBy(n); by.OutOfBand {
			entry.Method = activities.OutOfBand
		} else if by.Payment != "" {
			entry.Method, entry.Payment = activities.ByCharge, by.Payment
		}
		if sum == 0 { // the customer's balance paid the invoice, or nothing was due
			entry.Method = activities.ByBalance
		}
		if n == 0 {
			entry.Balance = i.Balance
			book(of, entry)
		} else {
			book(of+":"+strconv.FormatInt(sum, 10), entry)
		}
		before = sum
	}
}

// reversal returns the entry that reverses a payment entry.
func reversal(of activities.Entry) activities.Entry {
	of.Kind = activities.ReversalEntry
	return of
}

// paymentSteps books the payments of the changed invoice.
func paymentSteps(c fold.Change) (steps []*Step) {
	bookPayments(c.Subject, *c.After.Invoice, func(of string, entry activities.Entry) {
		if entry.Amount > 0 {
			steps = append(steps, paymentStep(c.Subject, of, entry))
		}
	})
	return steps
}

// partSteps returns the steps that book partial payments of an open invoice. Every plan contains them, because any
// event of the invoice or of a payment can report another partial payment.
func partSteps(c fold.Change) []*Step {
	now, before := c.After.Invoice, c.Before.Invoice
	if now == nil || now.Status != "open" || before != nil && len(before.PaidSums) == len(now.PaidSums) {
		return nil
	}
	return paymentSteps(c)
}

// paymentStep books one payment of an invoice. A later payment is booked after the first one.
func paymentStep(subject fact.Subject, of string, entry activities.Entry) *Step {
	s := FinanceExport.Step(of, entry)
	if first := Object(subject, entry.Invoice); of != first {
		s.comesAfter(FinanceExport.Key(first))
	}
	return s
}

// MoneyMoved plans events about money that has moved. Their effects cannot be compensated. The policy may end access;
// if the sink refuses that, a person reviews the refusal. A refunded charge can be the first event that reports the
// capture of a charge, and with it the payment of a checkout session.
func MoneyMoved(c fold.Change, planning activities.Planning) Plan {
	p := Plan{Steps: movedWorkspaces(c)}
	if sold(c.After.Checkout) && !sold(c.Before.Checkout) {
		p = CheckoutPaid(c, planning)
	}
	for _, s := range p.Steps {
		s.RefusalUndoesAll = false
	}
	return p
}
