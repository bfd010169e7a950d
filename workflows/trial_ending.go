package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// planTrialEnding is what happens some days before a trial ends: the customer is told, unless the trial is over by
// then, or the subscription ends with it.
func planTrialEnding(c billing.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c), review: reviewOf(c)}
	if s := c.After.Subscription; s != nil && s.TrialEndsOn(s.TrialEnd) {
		p.steps = append(p.steps, trialNotice(c.Subject, *s))
	}
	return p
}
