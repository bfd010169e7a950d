package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planSubscriptionEnded is what happens when a subscription has ended for good: access ends, the workspace is suspended
// where nothing else grants it, and the customer is told.
func planSubscriptionEnded(c billing.Change, _ activities.Planning) plan {
	return plan{steps: append(workspaceSteps(c), endedSteps(c, c.Subject, c.After.Subscription)...),
		review: reviewOf(c)}
}
