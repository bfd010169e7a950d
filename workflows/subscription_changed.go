package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planSubscriptionChanged is what happens when a subscription begins, or changes its plan, its seats or its status:
// access and workspace follow its present grant, and the customer is told of another plan, other seats or a planned
// end.
func planSubscriptionChanged(c billing.Change, _ activities.Planning) plan {
	return plan{steps: append(workspaceSteps(c), lateEnd(c)...), letters: changedSteps(c), review: reviewOf(c)}
}
