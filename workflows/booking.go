package workflows

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// bookings returns the entries for refunds, disputes and credit notes. They depend on all facts of the object, and
// their keys name the object, so refund.created, charge.refunded and charge.refund.updated share one key. They are
// part of every plan, because any event can be the first to reveal the account or the purchase. If the purchase is
// unknown, a scheduled action books them. If the invoice is unknown, they wait for its account and its tax.
func bookings(c fold.Change) []*step {
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

// bookedBefore returns the keys of the payment's entries, including partial payments. Entries about the payment come
// after them.
func bookedBefore(subject fact.Subject, of fold.Ref) []string {
	key := financeExport.key(object(subject, cmp.Or(of.Purchase, of.Invoice)))
	return []string{key, key + ":"}
}

// moneySteps returns the entries for money with a known account: a payment without invoice and checkout session, a
// checkout session that a person assigned to an account (a scheduled action books it together with its refunds and
// disputes), and all refunds, disputes and credit notes.
func moneySteps(subject fact.Subject, s fold.State) []*step {
	var steps []*step
	if p := s.Payment; p != nil && p.Purchase == p.ID && p.Status == "succeeded" && p.Account != "" {
		entry := bookedFor(subject, activities.PaymentEntry, p.ID, p.Ref)
		entry.Amount, entry.Currency, entry.How = p.Amount, p.Currency, activities.ByCharge
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

// captureSteps book a payment: one entry for each of its captures. total is the entry of the payment as a whole. The
// key of the first entry is the object; the keys of later entries end with the captured sum.
func captureSteps(subject fact.Subject, total activities.Entry, captures []fold.Capture) (steps []*step) {
	of, before := object(subject, total.Object), int64(0)
	if len(captures) < 2 {
		return []*step{financeExport.step(of, total)}
	}
	for n, c := range captures {
		entry := total
		entry.Amount = c.Sum - before
		entry.Tax = fold.TaxOf(c.Sum, total.Amount, total.Tax) - fold.TaxOf(before, total.Amount, total.Tax)
		if before = c.Sum; n == 0 {
			steps = append(steps, financeExport.step(of, entry))
			continue
		}
		entry.OccurredAt = c.At
		later := financeExport.step(of+":"+strconv.FormatInt(c.Sum, 10), entry)
		steps = append(steps, later.comesAfter(steps[0].key))
	}
	return steps
}

// laterCaptures book the captures of an order that came after the first one. They are part of every plan: any event of
// the payment can report a further capture.
func laterCaptures(c fold.Change) []*step {
	now, before := c.After.Checkout, c.Before.Checkout
	if !sold(now) || !sold(before) || now.Account == "" || len(now.Captures) <= len(before.Captures) {
		return nil
	}
	return captureSteps(c.Subject, orderEntry(c.Subject, *now), now.Captures)
}

// correctionSteps books the corrections that a person requested. Each one follows the corrected entry and the earlier
// corrections. It is dated at the day of the decision.
func correctionSteps(subject fact.Subject, list []fold.Correction) (steps []*step) {
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

// paymentSteps books the payments of the changed invoice.
func paymentSteps(c fold.Change) (steps []*step) {
	bookPayments(c.Subject, *c.After.Invoice, func(of string, entry activities.Entry) {
		if entry.Amount > 0 {
			steps = append(steps, paymentStep(c.Subject, of, entry))
		}
	})
	return steps
}

// partSteps books partial payments of an open invoice. It is part of every plan, because any event of the invoice or
// of a payment can report another part.
func partSteps(c fold.Change) []*step {
	now, before := c.After.Invoice, c.Before.Invoice
	if now == nil || now.Status != "open" || before != nil && len(before.PaidSums) == len(now.PaidSums) {
		return nil
	}
	return paymentSteps(c)
}

// paymentStep books one payment of an invoice. A later payment is booked after the first one.
func paymentStep(subject fact.Subject, of string, entry activities.Entry) *step {
	s := financeExport.step(of, entry)
	if first := object(subject, entry.Invoice); of != first {
		s.comesAfter(financeExport.key(first))
	}
	return s
}

func bookedFor(subject fact.Subject, kind activities.EntryKind, id string, of fold.Ref) activities.Entry {
	return activities.Entry{
		Kind: kind, Mode: subject.Mode, Account: of.Account, ProviderAccount: subject.ProviderAccount,
		Object: id, Invoice: of.Invoice, Subscription: of.Subscription,
	}
}

// planMoney plans events about money that has moved. The effects cannot be compensated. The policy may end access,
// which the sink can refuse; a person then reviews the refusal. A refunded charge can be the first event that reports
// its capture, which pays the checkout session.
func planMoney(c fold.Change, planning activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c)}
	if sold(c.After.Checkout) && !sold(c.Before.Checkout) {
		p = planCheckoutPaid(c, planning)
	}
	for _, s := range p.steps {
		s.refusalUndoesAll = false
	}
	return p
}
