package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// InvoicePaid is what happens when an invoice has been paid: access and workspace are brought to what is paid for, the
// payment is booked, a receipt mailed, and for some plans an onboarding task opened.
//
// When provisioning is refused for good, the customer cannot get what was paid for: the grant is withheld, the entry
// reversed, and the run ends compensated.
func InvoicePaid(ctx workflow.Context, in EventInput) (EventResult, error) {
	return invoicePaid.run(ctx, in)
}

var invoicePaid = billingPlan{flow: "InvoicePaid", make: planInvoicePaid}

func planInvoicePaid(c billing.Change, p activities.Planning) plan {
	invoice := c.After.Invoice
	if invoice == nil || invoice.Status != "paid" {
		return plan{steps: workspaceSteps(c), review: reviewOf(c)}
	}
	of := invoiceObject(c, invoice.ID)
	steps := workspaceSteps(c)
	if before := c.Before.Invoice; before != nil && before.Closed() && before.Paid > 0 {
		// What was paid before it was given up is booked already.
		rest := restPayment(c.Subject, *before, *invoice)
		steps = append(steps, financeExport.step(of+":rest",
			rest).undoneBy(reverseEntry.step(of+":rest", reversal(rest))))
	} else if invoice.Paid > 0 || invoice.Balance != 0 || p.BookZero {
		entry := payment(c.Subject, *invoice)
		steps = append(steps, financeExport.step(of, entry).undoneBy(reverseEntry.step(of, reversal(entry))))
	}
	if invoice.Due > 0 {
		steps = append(steps, receiptEmail.step(of, invoiceLetter("receipt", c.Subject, *invoice)).undoneBy(
			correctionNotice.step(of, invoiceLetter("correction", c.Subject, *invoice))))
	}
	if p.Onboards(invoice.Plan) && !c.After.Subscription.Refuses(invoice.Plan) { // once for each subscription and plan
		task := onboarding(c.Subject, *invoice)
		bought := object(c.Subject, task.Object)
		steps = append(steps, onboardingTask.step(bought, task).undoneBy(cancelOnboarding.step(bought, task)))
	}
	return plan{steps: append(steps, lateEnd(c)...), review: reviewOf(c)}
}
