package workflows

import "go.temporal.io/sdk/workflow"

// CreditNoteIssued is what happens when a credit note is issued, or voided: what of it is no refund is booked. Refunds
// have events of their own.
func CreditNoteIssued(ctx workflow.Context, in EventInput) (EventResult, error) {
	return creditNoteIssued.run(ctx, in)
}

var creditNoteIssued = billingPlan{flow: "CreditNoteIssued", make: planMoney, forGood: true}
