package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// planInvoiceClosed plans an invoice that was voided or marked uncollectible. Reminders end, and partial payments are
// booked. The unpaid amount is not booked, because entries record only cash.
func planInvoiceClosed(c fold.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c)}
	if i := c.After.Invoice; i != nil && i.Closed() {
		p.steps = append(p.steps, paymentSteps(c)...)
	}
	return p
}
