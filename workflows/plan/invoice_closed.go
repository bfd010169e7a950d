package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// InvoiceClosed plans an invoice that was voided or marked uncollectible. Reminders end, and partial payments are
// booked. The unpaid amount is not booked, because entries record only cash.
func InvoiceClosed(c fold.Change, _ activities.Planning) Plan {
	p := Plan{Steps: movedWorkspaces(c)}
	if i := c.After.Invoice; i != nil && i.Closed() {
		p.Steps = append(p.Steps, paymentSteps(c)...)
	}
	return p
}
