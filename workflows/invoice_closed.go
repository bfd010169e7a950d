package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// planInvoiceClosed plans an invoice that was voided or marked uncollectible: reminders stop, and paid parts are
// booked. The rest is not written off, because entries record cash.
func planInvoiceClosed(c fold.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c)}
	if i := c.After.Invoice; i != nil && i.Closed() {
		p.steps = append(p.steps, paymentSteps(c)...)
	}
	return p
}
