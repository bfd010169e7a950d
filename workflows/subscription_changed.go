package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// SubscriptionChanged is what happens when a subscription begins, or changes its plan, its seats or its status: access
// and workspace are brought to what it grants now, and the customer is told of another plan, other seats or a planned
// end.
func SubscriptionChanged(ctx workflow.Context, in EventInput) (EventResult, error) {
	return subscriptionChanged.run(ctx, in)
}

var subscriptionChanged = billingPlan{flow: "SubscriptionChanged", make: planSubscriptionChanged}

func planSubscriptionChanged(c billing.Change, _ activities.Planning) plan {
	return plan{steps: slices.Concat(workspaceSteps(c), changedSteps(c), lateEnd(c)), review: reviewOf(c)}
}
