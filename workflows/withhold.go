package workflows

import (
	"github.com/pawlhq/pawl/activities"
)

// CodeBeforeEffects is the reason code of an event that occurred before the effects of its mode began.
const CodeBeforeEffects = "before_effects"

// releases reports whether a person has released the effects of the event.
func (f *flow) releases() bool { return f.in.Replay != nil && f.in.Replay.Release }

// beforeEffects sets whether the effects are withheld because the event occurred before effects began.
func (f *flow) beforeEffects(withhold bool) { f.withholds = withhold && !f.releases() }

// withhold records the effects of steps instead of executing them.
func (f *flow) withhold(steps []*step, account string) error {
	in := activities.WithholdEffectsInput{Ref: f.in.Ref}
	for _, s := range steps {
		e := activities.WithheldEffect{Key: s.Key, Kind: s.Kind, Account: account}
		if entry := s.Entry(); entry != nil {
			e.Account, e.Amount, e.Currency = entry.Account, &entry.Amount, entry.Currency
		}
		in.Effects = append(in.Effects, e)
	}
	if len(in.Effects) == 0 {
		return nil
	}
	return f.execute(attempt{name: "withhold", activity: runs.WithholdEffects, input: in}, nil)
}

// withheld returns the reason of an event with withheld effects.
func withheld() reason {
	return reason{CodeBeforeEffects, "it occurred before effects began: its effects are withheld"}
}
