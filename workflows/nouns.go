package workflows

import (
	"cmp"
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// bookPayments books the payments of an invoice, which can add up to more than was due: one entry for each payment,
// dated when it was made. The key of the first entry is the invoice; the keys of later entries end with the sum.
func bookPayments(subject fact.Subject, i fold.Invoice, book func(of string, entry activities.Entry)) {
	of, before := object(subject, i.ID), int64(0)
	for n, sum := range i.PaidSums {
		entry := activities.Entry{
			Kind: activities.PaymentEntry, Mode: subject.Mode, Account: i.Account,
			ProviderAccount: subject.ProviderAccount,
			Object:          i.ID, Invoice: i.ID, Subscription: i.Subscription, Plan: i.Plan,
			Amount: sum - before, Due: max(0, i.Due-before), Currency: i.Currency,
			How:         cmp.Or(i.How, activities.Unknown),
			Tax:         fold.TaxOf(sum, i.Due, i.Tax) - fold.TaxOf(before, i.Due, i.Tax),
			PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidTime(n),
		}
		if by := i.PartPaidBy(n); by.OutOfBand {
			entry.How = activities.OutOfBand
		} else if by.Payment != "" {
			entry.How, entry.Payment = activities.ByCharge, by.Payment
		}
		if sum == 0 { // the customer's balance paid it, or nothing was due
			entry.How = activities.ByBalance
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
