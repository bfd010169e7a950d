package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planInvoicePaid is what happens when an invoice has been paid: access and workspace follow the paid plan, the payment
// is booked, a receipt mailed, and for some plans an onboarding task opened.
//
// When provisioning is refused for good, the customer has paid in vain: the grant is withheld, the entry reversed, and
// the run ends compensated.
func planInvoicePaid(c billing.Change, p activities.Planning) plan {
	invoice := c.After.Invoice
	if invoice == nil || invoice.Status != "paid" {
		return plan{steps: workspaceSteps(c), review: reviewOf(c)}
	}
	of := invoiceObject(c, invoice.ID)
	steps := workspaceSteps(c)
	bookPayments(c.Subject, *invoice, func(of string, entry activities.Entry) {
		if entry.Amount > 0 || entry.Balance != 0 || p.BookZero {
			s := paymentStep(c.Subject, of, entry)
			steps = append(steps, s.undoneBy(reverseEntry.step(of, reversal(entry))))
		}
	})
	if invoice.Due > 0 {
		steps = append(steps, receiptEmail.step(of, invoiceLetter("receipt", c.Subject, *invoice)).undoneBy(
			correctionNotice.step(of, invoiceLetter("correction", c.Subject, *invoice))))
	}
	// Once for each subscription and plan.
	if p.Onboards(invoice.Plan) && (invoice.Order().Granted() || invoice.Subscription != "") {
		task := activities.Task{
			Kind: activities.TaskOnboarding, Mode: c.Subject.Mode, Account: invoice.Account,
			Object: invoice.Bought() + ":" + invoice.Plan, Subscription: invoice.Subscription, Plan: invoice.Plan,
			Title: "Welcome " + invoice.Account + " on " + invoice.Plan,
		}
		bought := object(c.Subject, task.Object)
		steps = append(steps, onboardingTask.step(bought, task).undoneBy(cancelOnboarding.step(bought, task)))
	}
	made := plan{steps: append(steps, lateEnd(c)...), review: reviewOf(c)}
	if before := c.Before.Subscription; before != nil && !before.Evidence { // an order from before is granted
		made.letters = changedSteps(c)
	}
	return made
}
