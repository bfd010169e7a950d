package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// Outside systems take nouns of their own. Here stands what each is made of.

func workspaceFor(mode string, access billing.Access) activities.Workspace {
	t := access.Target
	return activities.Workspace{
		Account: access.Account, Mode: mode, Plan: t.Plan, Quantity: t.Quantity, Features: t.Features, State: t.State, Version: t.Version,
	}
}

// payment is the entry for what was received of an invoice: cash that came in.
func payment(subject billing.Subject, i billing.Invoice) activities.Entry {
	how := "charge"
	if i.OutOfBand {
		how = "out_of_band"
	}
	return activities.Entry{
		Kind: activities.PaymentEntry, Mode: subject.Mode, Account: i.Account, ProviderAccount: subject.ProviderAccount,
		Object: i.ID, Invoice: i.ID, Subscription: i.Subscription, Plan: i.Plan,
		Amount: i.Due, Tax: i.Tax, Currency: i.Currency, How: how,
		PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidAt,
	}
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
		Amount: i.Due, Currency: i.Currency, Plan: i.Plan, PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd, OccurredAt: i.PaidAt,
	}
}

// subscriptionLetter is a letter about a subscription. No event about one holds an address: the customer's newest
// invoice does.
func subscriptionLetter(template string, subject billing.Subject, s billing.Subscription) activities.Letter {
	return activities.Letter{
		Template: template, Mode: subject.Mode, Account: s.Account, Object: s.ID, Customer: s.Customer, ReceiptID: subject.ReceiptID,
		Plan: s.Plan, OccurredAt: s.EndedAt,
	}
}

// onboarding is the task to welcome an account on a plan.
func onboarding(subject billing.Subject, i billing.Invoice) activities.Task {
	return activities.Task{
		Kind: activities.TaskOnboarding, Mode: subject.Mode, Account: i.Account, Object: i.Bought() + ":" + i.Plan,
		Title: "Welcome " + i.Account + " on " + i.Plan,
	}
}
