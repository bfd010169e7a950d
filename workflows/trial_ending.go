package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// planTrialEnding plans the notice some days before a trial ends. The customer gets no e-mail if the trial is already
// over or the subscription ends with it.
func planTrialEnding(c fold.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c)}
	if s := c.After.Subscription; s != nil && s.TrialEndsOn(s.TrialEnd) {
		p.steps = append(p.steps, trialNotice(c.Subject, *s))
	}
	return p
}
