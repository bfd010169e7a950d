package plan

import (
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// actionRequired returns the step that e-mails the customer to pay an invoice, once per failed attempt. Attempt 0 means
// that the due date has passed.
func actionRequired(subject fact.Subject, i fold.Invoice) *Step {
	attempt := i.NewestFailure()
	letter := invoiceLetter("action-required", subject, i)
	letter.Amount, letter.OccurredAt = i.Remaining, subject.OccurredAt
	letter.Notice = &activities.Notice{While: activities.WhileUnpaid, Invoice: i.ID, Subscription: i.Subscription,
		Attempt: attempt, Series: invoiceSeries(subject, i.ID)}
	if attempt == 0 {
		letter.DueAt = i.DueAt
	}
	return ActionNotice.Step(Object(subject, i.ID)+":"+strconv.Itoa(attempt), letter)
}

// reminder returns the step that e-mails a reminder to pay an invoice, once per step of the schedule. A newer reminder
// supersedes older reminders.
func reminder(subject fact.Subject, d fold.Due) *Step {
	letter := invoiceLetter("dunning", subject, *d.Invoice)
	letter.Amount, letter.OccurredAt = d.Invoice.Remaining, d.At
	letter.Notice = &activities.Notice{While: activities.WhileOpen, Invoice: d.Object,
		Subscription: d.Invoice.Subscription, Until: d.Until, Series: invoiceSeries(subject, d.Object)}
	return DunningNotice.Step(Object(subject, d.Object)+":"+strconv.Itoa(d.Step), letter)
}

// invoiceSeries returns the key prefixes of the e-mails that ask for payment of an invoice: failed attempts and
// reminders.
func invoiceSeries(subject fact.Subject, invoice string) []string {
	of := Object(subject, invoice) + ":"
	return []string{ActionNotice.Key(of), DunningNotice.Key(of)}
}
