package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// SubscriptionEnded plans the end of a subscription: access ends, the workspace is suspended unless something
// else grants access, and the customer gets an e-mail.
func SubscriptionEnded(c fold.Change, _ activities.Planning) Plan {
	steps := workspaceSteps(c)
	if len(lateEnd(c)) == 0 { // if lateEnd returns a step, plan.with adds it
		steps = append(steps, endedSteps(c, c.Subject, c.After.Subscription)...)
	}
	return Plan{Steps: steps}
}
