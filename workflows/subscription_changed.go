package workflows

import (
	"slices"

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
	p := plan{steps: slices.Concat(workspaceSteps(c), takenSteps(c, c.Subject, c.After.Subscription), lateEnd(c)),
		review: reviewOf(c)}
	if s := c.After.Subscription; s != nil && s.Holds(c.Before.Subscription) {
		p.letters = changedSteps(c)
	}
	return p
}
