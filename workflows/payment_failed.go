package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planPaymentFailed is what happens when a payment was tried in vain, waits for the customer, or is overdue: the
// customer is told where to pay, once for each attempt. Access stays for the time of grace.
func planPaymentFailed(c billing.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c), review: reviewOf(c)}
	i, before, s := c.After.Invoice, c.Before.Invoice, c.After.Subscription
	if i == nil || !i.Failing() || s != nil && s.Ended() {
		return p
	}
	p.steps = append(p.steps, actionRequired(c.Subject, *i))
	if before == nil || before.AtCheckout || !slices.Contains(before.Failures, i.NewestFailure()) {
		p.told = i.ID
	}
	return p
}
