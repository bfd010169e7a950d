package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planInvoiceClosed is what happens when an invoice is voided, or given up as uncollectible: nobody is reminded of it
// any more. The part that was paid is booked. The rest is not written off: entries are cash.
func planInvoiceClosed(c billing.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c), review: reviewOf(c)}
	if i := c.After.Invoice; i != nil && i.Closed() {
		p.steps = append(p.steps, paymentSteps(c)...)
	}
	return p
}
