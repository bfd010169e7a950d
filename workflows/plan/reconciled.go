package plan

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// EventLost plans the object of an event that Stripe could not generate. It combines the plan of a reconciliation with
// the plan for money that moved.
func EventLost(c fold.Change, p activities.Planning) Plan {
	a := c.After
	if len(a.Refunds)+len(a.Disputes)+len(a.Credits)+len(a.Warnings) > 0 {
		made := MoneyMoved(c, p)
		made.notByEvent = true
		return made
	}
	return Reconciled(c, p)
}

// Reconciled plans a fetched object that differs from pawl's rows. It executes the effects of the missing events
// with the same keys, so that an event that arrives later does not repeat them.
//
// It sends no e-mail, because the change may have happened long ago. Reminders of an open invoice are scheduled
// actions, so they are still sent.
func Reconciled(c fold.Change, p activities.Planning) Plan {
	made := reconciledObject(c, p)
	made.Steps = slices.DeleteFunc(made.Steps, func(s *Step) bool { return s.Sink == SinkMail })
	made.Letters, made.notByEvent = nil, true
	return made
}

// reconciledObject returns the plan of the event that would have reported the same state.
func reconciledObject(c fold.Change, p activities.Planning) Plan {
	switch i, s := c.After.Invoice, c.After.Subscription; {
	case i != nil && i.Status == "paid":
		return InvoicePaid(c, p)
	case i != nil && i.Closed():
		return InvoiceClosed(c, p)
	case i != nil:
		return Record(c, p)
	case s != nil && s.Ended():
		return SubscriptionEnded(c, p)
	case s == nil && c.After.Checkout != nil:
		return CheckoutPaid(c, p)
	}
	return Plan{Steps: workspaceSteps(c)}
}
