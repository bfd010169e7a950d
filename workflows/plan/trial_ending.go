package plan

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// TrialEnding plans the notice some days before a trial ends. The customer gets no e-mail if the trial is already
// over or the subscription ends with it.
func TrialEnding(c fold.Change, _ activities.Planning) Plan {
	p := Plan{Steps: movedWorkspaces(c)}
	if s := c.After.Subscription; s != nil && s.TrialEndsOn(s.TrialEnd) {
		p.Steps = append(p.Steps, trialNotice(c.Subject, *s))
	}
	return p
}
