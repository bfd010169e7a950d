package plan

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// PaymentFailed plans a payment that failed, requires an action of the customer, or is overdue: the customer gets
// an e-mail with a payment link, once per attempt. Access continues during the grace period.
func PaymentFailed(c fold.Change, _ activities.Planning) Plan {
	p := Plan{Steps: movedWorkspaces(c)}
	i, before, s := c.After.Invoice, c.Before.Invoice, c.After.Subscription
	if i == nil || !i.Failing() || s != nil && s.Ended() {
		return p
	}
	p.Steps = append(p.Steps, actionRequired(c.Subject, *i))
	if before == nil || before.AtCheckout || !slices.Contains(before.Failures, i.NewestFailure()) {
		p.notified = i.ID
	}
	return p
}
