package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// InvoicePaid plans a paid invoice: access and workspace follow the paid plan, the payment is booked, a receipt
// is e-mailed, and some plans open an onboarding task.
//
// If the workspace permanently refuses the plan, the run withholds the grant, reverses the entry, and ends as
// compensated.
func InvoicePaid(c fold.Change, p activities.Planning) Plan {
	invoice := c.After.Invoice
	if invoice == nil || invoice.Status != "paid" {
		return Plan{Steps: workspaceSteps(c)}
	}
	steps := workspaceSteps(c)
	bookPayments(c.Subject, *invoice, func(of string, entry activities.Entry) {
		if entry.Amount > 0 || entry.Balance != 0 || p.BookZero {
			s := paymentStep(c.Subject, of, entry)
			steps = append(steps, s.UndoneBy(ReverseEntry.Step(of, reversal(entry))))
		}
	})
	if invoice.Paid > 0 {
		steps = append(steps, receiptStep(c.Subject, *invoice))
	}
	// One task per subscription and plan.
	if p.Onboards(invoice.Plan) && (invoice.Order().Granted() || invoice.Subscription != "") {
		task := activities.Task{
			Kind: activities.TaskOnboarding, Mode: c.Subject.Mode, Account: invoice.Account,
			Object: invoice.Bought() + ":" + invoice.Plan, Subscription: invoice.Subscription, Plan: invoice.Plan,
			Title: "Welcome " + invoice.Account + " on " + invoice.Plan,
		}
		bought := Object(c.Subject, task.Object)
		steps = append(steps, OnboardingTask.Step(bought, task).UndoneBy(CancelOnboarding.Step(bought, task)))
	}
	return Plan{Steps: steps}
}

// receiptStep e-mails the receipt of a paid invoice.
func receiptStep(subject fact.Subject, i fold.Invoice) *Step {
	of, letter := Object(subject, i.ID), invoiceLetter("receipt", subject, i)
	letter.Amount = i.Paid
	return ReceiptEmail.Step(of, letter).UndoneBy(correctionStep(subject, i, of))
}

// correctionStep e-mails a correction of the receipt.
func correctionStep(subject fact.Subject, i fold.Invoice, of string) *Step {
	letter := invoiceLetter("correction", subject, i)
	letter.Amount = i.Paid
	return CorrectionNotice.Step(of, letter)
}
