package workflows

import "go.temporal.io/sdk/workflow"

// CreditNoteIssued is what happens when a credit note is issued, or voided: what of it is no refund is booked. Refunds
// have events of their own.
func CreditNoteIssued(ctx workflow.Context, in EventInput) (EventResult, error) {
	return runForGood(ctx, "CreditNoteIssued", in, planMoney)
}
