package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Record plans events that usually have no effects. Such an event may be the first to report the account, the payment
// of an invoice, or the capture of a checkout session's payment. Such an event gets the plan of the event type that
// usually reports this information.
func Record(c fold.Change, planning activities.Planning) Plan {
	switch now, before := c.After.Invoice, c.Before.Invoice; {
	case sold(c.After.Checkout) && !sold(c.Before.Checkout):
		return CheckoutPaid(c, planning)
	case now != nil && now.Closed() && (before == nil || len(now.PaidSums) > len(before.PaidSums)):
		return InvoiceClosed(c, planning)
	case now == nil || now.Status != "paid":
	case before == nil || before.Status != "paid":
		return InvoicePaid(c, planning)
	case len(now.PaidSums) > len(before.PaidSums):
		return Plan{Steps: append(movedWorkspaces(c), paymentSteps(c)...)}
	}
	return Plan{Steps: movedWorkspaces(c)}
}
