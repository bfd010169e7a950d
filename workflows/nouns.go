package workflows

import (
	"cmp"
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// bookPayments calls book for each payment of an invoice. The payments may add up to more than the amount due. The date
// of an entry is the date of the payment. The key of the first entry contains the invoice; the keys of later entries
// also contain the sum.
func bookPayments(subject fact.Subject, i fold.Invoice, book func(of string, entry activities.Entry)) {
	of, before := object(subject, i.ID), int64(0)
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
