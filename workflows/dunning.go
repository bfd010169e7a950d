package workflows

import (
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// actionRequired tells a customer to pay an invoice, once for each attempt that failed. Two events tell of one attempt.
func actionRequired(subject billing.Subject, i billing.Invoice) *step {
	attempt := i.Failures[len(i.Failures)-1]
	letter := invoiceLetter("action-required", subject, i)
	letter.Amount, letter.OccurredAt = i.Remaining, subject.OccurredAt
	letter.Notice = &activities.Notice{While: activities.WhileUnpaid, Invoice: i.ID, Subscription: i.Subscription,
		Attempt: attempt, Series: invoiceSeries(subject, i.ID)}
	if attempt == 0 {
		letter.DueAt = i.DueAt
	}
	return actionNotice.step(object(subject, i.ID)+":"+strconv.Itoa(attempt), letter)
}

// reminder reminds a customer of an invoice: once for each step, and of the newest alone.
func reminder(subject billing.Subject, d billing.Due) *step {
	letter := invoiceLetter("dunning", subject, *d.Invoice)
	letter.Amount, letter.OccurredAt = d.Invoice.Remaining, d.At
	letter.Notice = &activities.Notice{While: activities.WhileOpen, Invoice: d.Object,
		Subscription: d.Invoice.Subscription, Until: d.Until, Series: invoiceSeries(subject, d.Object)}
	return dunningNotice.step(object(subject, d.Object)+":"+strconv.Itoa(d.Step), letter)
}

// invoiceSeries are the letters that ask for the payment of an invoice: attempts and reminders.
func invoiceSeries(subject billing.Subject, invoice string) []string {
	of := object(subject, invoice) + ":"
	return []string{actionNotice.key(of), dunningNotice.key(of)}
}
