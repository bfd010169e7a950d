package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// ReconciledFlow is the workflow type for receipts of [ReconciledType]: objects that a person fetched.
const (
	ReconciledFlow = "Reconciled"
	ReconciledType = activities.Reconciled
)

// LostFlow is the workflow type for events that Stripe sends in place of an event that it could not generate.
const LostFlow = "EventLost"

// planLost plans the object of an event that Stripe could not generate. It combines the plan of a reconciliation with
// the plan for money that moved.
func planLost(c fold.Change, p activities.Planning) plan {
	a := c.After
	if len(a.Refunds)+len(a.Disputes)+len(a.Credits)+len(a.Warnings) > 0 {
		return planMoney(c, p)
	}
	return planReconciled(c, p)
}

// reconciledFlows maps the type of a receipt with a fetched object to its flow. Refunds, disputes and credit notes have
// the same flow as their events, because that flow sends no e-mail.
var reconciledFlows = map[string]string{
	ReconciledType: ReconciledFlow, ReconciledType + ".charge": "RefundChanged",
	ReconciledType + ".refund":  "RefundChanged",
	ReconciledType + ".dispute": "DisputeChanged", ReconciledType + ".early_fraud_warning": "DisputeChanged",
	ReconciledType + ".credit_note": "CreditNoteIssued",
}

// planReconciled plans a fetched object that differs from pawl's rows. It executes the effects of the missing events
// with the same keys, so that an event that arrives later does not repeat them.
//
// It sends no e-mail, because the change may have happened long ago. Reminders of an open invoice are scheduled
// actions, so they are still sent.
func planReconciled(c fold.Change, p activities.Planning) plan {
	made := planReconciledObject(c, p)
	made.steps = slices.DeleteFunc(made.steps, func(s *step) bool { return s.sink == SinkMail })
	made.letters = nil
	return made
}

// planReconciledObject returns the plan of the event that would have reported the same state.
func planReconciledObject(c fold.Change, p activities.Planning) plan {
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
	return plan{steps: workspaceSteps(c)}
}
