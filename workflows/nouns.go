package workflows

import (
	"cmp"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// Outside systems take nouns of their own. Here stands what each is made of.

// bookPayments books what came in for an invoice, which can be more than was due: one entry for each time that more was
// told of. The first one has the key of the invoice, and that of a later one ends with the sum.
func bookPayments(subject billing.Subject, i billing.Invoice, book func(of string, entry activities.Entry)) {
	of, before := object(subject, i.ID), int64(0)
	for n, sum := range i.PaidSums {
		entry := activities.Entry{
			Kind: activities.PaymentEntry, Mode: subject.Mode, Account: i.Account,
			ProviderAccount: subject.ProviderAccount,
			Object:          i.ID, Invoice: i.ID, Subscription: i.Subscription, Plan: i.Plan,
			Amount: sum - before, Due: max(0, i.Due-before), Currency: i.Currency,
			How:         cmp.Or(i.How, activities.Unknown),
			Tax:         billing.TaxOf(sum, i.Due, i.Tax) - billing.TaxOf(before, i.Due, i.Tax),
			PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidAt,
		}
		if sum == 0 { // the customer's balance has paid it, or nothing had to be paid
			entry.How = activities.ByBalance
		}
		if n == 0 {
			entry.Balance, entry.OccurredAt = i.Balance, firstPaid(i)
			book(of, entry)
		} else {
			if subject.OccurredAt.After(i.PaidAt) {
				entry.OccurredAt = subject.OccurredAt
			}
			book(of+":"+strconv.FormatInt(sum, 10), entry)
		}
		before = sum
	}
}

// firstPaid is when the first of an invoice's payments is booked: once it was paid, or given up before that.
func firstPaid(i billing.Invoice) time.Time {
	if i.PaidAt.IsZero() || len(i.PaidSums) > 1 && !i.ClosedAt.IsZero() && i.ClosedAt.Before(i.PaidAt) {
		return i.ClosedAt
	}
	return i.PaidAt
}

// reversal takes back what a payment was booked for.
func reversal(of activities.Entry) activities.Entry {
	of.Kind = activities.ReversalEntry
	return of
}
