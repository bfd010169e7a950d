package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// SubscriptionChanged is what happens when a subscription begins, or changes its plan, its seats or its status: access
// and workspace follow its present grant, and the customer is told of another plan, other seats or a planned end.
func SubscriptionChanged(ctx workflow.Context, in EventInput) (EventResult, error) {
	return subscriptionChanged.run(ctx, in)
}

var subscriptionChanged = billingPlan{flow: "SubscriptionChanged", make: planSubscriptionChanged}

func planSubscriptionChanged(c billing.Change, _ activities.Planning) plan {
	return plan{steps: append(workspaceSteps(c), lateEnd(c)...), letters: changedSteps(c), review: reviewOf(c)}
}
