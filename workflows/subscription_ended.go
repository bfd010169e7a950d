package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// SubscriptionEnded is what happens when a subscription has ended for good: access ends, the workspace is suspended
// where nothing else grants it, and the customer is told.
func SubscriptionEnded(ctx workflow.Context, in EventInput) (EventResult, error) {
	return subscriptionEnding.run(ctx, in)
}

var subscriptionEnding = billingPlan{flow: "SubscriptionEnded", make: planSubscriptionEnded}

func planSubscriptionEnded(c billing.Change, _ activities.Planning) plan {
	steps := workspaceSteps(c)
	ended := c.After.Subscription
	if ended != nil && ended.Ended() && ended.EverGranted && len(c.After.Access.Grants) == 0 {
		steps = append(steps, endedLetter(c.Subject, *ended))
	}
	return plan{steps: steps, review: reviewOf(c)}
}
