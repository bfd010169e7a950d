package workflows

import (
	"cmp"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// Outside systems take nouns of their own. Here stands what each is made of.

func workspaceFor(mode string, access billing.Access) activities.Workspace {
	t := access.Target
	return activities.Workspace{
		Account: access.Account, Mode: mode, Plan: t.Plan, Quantity: t.Quantity, Features: t.Features, State: t.State,
		Version: t.Version,
	}
}

// payment is the entry for an invoice's payments: cash that came in, which can be more than was due.
func payment(subject billing.Subject, i billing.Invoice) activities.Entry {
	return activities.Entry{
		Kind: activities.PaymentEntry, Mode: subject.Mode, Account: i.Account, ProviderAccount: subject.ProviderAccount,
		Object: i.ID, Invoice: i.ID, Subscription: i.Subscription, Plan: i.Plan,
		Amount: i.Paid, Due: i.Due, Balance: i.Balance, Tax: billing.TaxOf(i.Paid, i.Due, i.Tax), Currency: i.Currency,
		How: howOf(i), PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidAt,
	}
}

// howOf says how an invoice's payments have moved.
func howOf(i billing.Invoice) string {
	if i.Paid == 0 {
		return activities.ByBalance // the customer's balance has paid it, or nothing had to be paid
	}
	return cmp.Or(i.How, activities.Unknown)
}

// partPayment is the entry for the payments of an invoice that was given up, with their part of the tax.
func partPayment(subject billing.Subject, i billing.Invoice) activities.Entry {
	entry := payment(subject, i)
	entry.OccurredAt = i.ClosedAt
	return entry
}

// restPayment is the entry for an invoice's payments after it had been given up, or had been paid.
func restPayment(subject billing.Subject, before, i billing.Invoice) activities.Entry {
	entry, part := payment(subject, i), partPayment(subject, before)
	entry.Amount, entry.Tax, entry.Balance = entry.Amount-part.Amount, entry.Tax-part.Tax, 0
	if entry.Due = max(0, i.Due-part.Amount); before.Status == "paid" {
		entry.OccurredAt = subject.OccurredAt
	}
	return entry
}

// reversal takes back what a payment was booked for.
func reversal(of activities.Entry) activities.Entry {
	of.Kind = activities.ReversalEntry
	return of
}

// invoiceLetter is a letter about an invoice. Its address is that of the event's invoice.
func invoiceLetter(template string, subject billing.Subject, i billing.Invoice) activities.Letter {
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: i.Account, Object: i.ID, ReceiptID: subject.ReceiptID,
		Amount: i.Due, Currency: i.Currency, Plan: i.Plan, PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd,
		OccurredAt: i.PaidAt,
	}
}

// subscriptionLetter is a letter about a subscription. No event about one holds an address: the customer's newest
// invoice does.
func subscriptionLetter(template string, subject billing.Subject, s billing.Subscription) activities.Letter {
	is := s.Given()
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: s.Account, Object: s.ID, Customer: s.Customer,
		ReceiptID: subject.ReceiptID,
		Plan:      is.Plan, Quantity: is.Quantity,
	}
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

// orderLetter is a letter about a purchase in a session. Its address is that of the event's session.
func orderLetter(template string, subject billing.Subject, c billing.Checkout) activities.Letter {
	l := activities.Letter{
		Template: template, Mode: subject.Mode, Account: c.Account, Object: c.ID, ReceiptID: subject.ReceiptID,
		Amount: c.Amount, Currency: c.Currency, Plan: c.Plan, OccurredAt: c.PaidAt,
	}
	if c.For > 0 {
		l.PeriodStart, l.PeriodEnd = c.PaidAt, c.PaidAt.Add(c.For)
	}
	return l
}
