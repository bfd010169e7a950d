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
			PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: firstPaid(i),
		}
		if sum == 0 { // the customer's balance has paid it, or nothing had to be paid
			entry.How = activities.ByBalance
		}
		if n == 0 {
			entry.Balance = i.Balance
			book(of, entry)
		} else {
			entry.OccurredAt = latest(i.PaidAt, subject.OccurredAt)
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

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// reversal takes back what a payment was booked for.
func reversal(of activities.Entry) activities.Entry {
	of.Kind = activities.ReversalEntry
	return of
}

// onboarding is the task to welcome an account on a plan.
func onboarding(subject billing.Subject, i billing.Invoice) activities.Task {
	return activities.Task{
		Kind: activities.TaskOnboarding, Mode: subject.Mode, Account: i.Account, Object: i.Bought() + ":" + i.Plan,
		Subscription: i.Subscription, Plan: i.Plan,
		Title: "Welcome " + i.Account + " on " + i.Plan,
	}
}

// orderPayment is the entry for a session's payment.
func orderPayment(subject billing.Subject, c billing.Checkout) activities.Entry {
	return activities.Entry{
		Kind: activities.PaymentEntry, Mode: subject.Mode, Account: c.Account, ProviderAccount: subject.ProviderAccount,
		Object: c.ID, Plan: c.Plan, Amount: c.Amount, Tax: c.Tax, Currency: c.Currency, How: activities.ByCharge,
		OccurredAt: c.PaidAt,
	}
}
