package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// ReconciledFlow is the workflow type of receipts of [ReconciledType]: objects that a person had fetched.
const (
	ReconciledFlow = "Reconciled"
	ReconciledType = activities.Reconciled
)

// reconciledFlows are the flows of receipts of fetched objects, by the receipt's type. Money that has moved has the
// flow of its events: that mails nothing, and cannot be taken back either.
var reconciledFlows = map[string]string{
	ReconciledType: ReconciledFlow, ReconciledType + ".charge": "RefundChanged",
	ReconciledType + ".refund":  "RefundChanged",
	ReconciledType + ".dispute": "DisputeChanged", ReconciledType + ".early_fraud_warning": "DisputeChanged",
	ReconciledType + ".credit_note": "CreditNoteIssued",
}

// planReconciled is what happens when a person has had an object fetched that is not as our rows say. It does the
// effects of the lost events, by their keys: should one of them come after all, it finds them done.
//
// It mails nothing: this may be old news to the customer. The reminders of an open invoice are the clock's, and are
// true.
func planReconciled(c billing.Change, p activities.Planning) plan {
	made := planReconciledObject(c, p)
	made.steps = slices.DeleteFunc(made.steps, func(s *step) bool { return s.sink == SinkMail })
	made.letters = nil
	return made
}

// planReconciledObject is the plan of the event that would have told the same.
func planReconciledObject(c billing.Change, p activities.Planning) plan {
	switch i, s := c.After.Invoice, c.After.Subscription; {
	case i != nil && i.Status == "paid":
		return planInvoicePaid(c, p)
	case i != nil && i.Closed():
		return planInvoiceClosed(c, p)
	case i != nil:
		return planRecord(c, p)
	case s != nil && s.Ended():
		return planSubscriptionEnded(c, p)
	case s == nil && c.After.Checkout != nil:
		return planCheckoutPaid(c, p)
	}
	return plan{steps: workspaceSteps(c), review: reviewOf(c)}
}
