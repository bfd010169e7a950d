package workflows

import (
	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// refresh brings the steps up to what the ledger holds. Another run for the same fact may have done an effect
// meanwhile, which is then not done again; or taken one back that this run saw done: refresh then returns the reason
// to take back the rest as well.
func (f *flow) refresh() (whyUndo string, err error) {
	if f.undoing {
		return "", nil
	}
	return f.refreshSteps(f.steps)
}

// refreshSteps takes over what the ledger holds of steps. It returns a reason when everything that was done is to be
// taken back.
func (f *flow) refreshSteps(steps []*step) (whyUndo string, err error) {
	in := activities.ReadEffectsInput{EventID: f.in.EventID, Keys: keysOf(steps)}
	for _, s := range steps {
		if s.undo != nil {
			in.Undos = append(in.Undos, s.undo(s.result).key)
		}
	}
	var found activities.ReadEffectsResult
	if err := f.execute(attempt{name: "refresh", activity: runs.ReadEffects, input: in}, &found); err != nil {
		return "", err
	}
	for _, s := range steps {
		if now, ok := found.Settled[s.key]; ok && (now.State == effect.Compensated || !s.settled()) {
			s.result = now
		}
	}
	if found.Undoing != "" {
		return "another run has begun to take back: " + found.Undoing, nil
	}
	return undoneBefore(steps), nil
}
