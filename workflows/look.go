package workflows

import (
	"fmt"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// look brings the steps up to what the ledger holds. While a run was parked, another run for the same fact may have
// done an effect, which is then not done again; or taken one back that this run saw done: look then returns the
// reason to take back the rest as well. A run that was parked looks, and no other: one that goes well has no need to.
func (f *flow) look() (whyUndo string, err error) {
	if f.irreversible || f.undoing {
		return "", nil
	}
	return f.compare(f.steps)
}

// lookAfterReset is the look of a run that a reset made, before it parks; a relay's as well. Its history up to the
// point of the reset may be long out of date: the run before went on from there, after a retry that the reset does
// not apply again.
func (f *flow) lookAfterReset() (whyUndo string, err error) {
	if f.resetOf() == "" || f.undoing {
		return "", nil
	}
	// Each park has a version of its own: the history that a reset took over parks without a look.
	f.parks++
	if !f.knows(fmt.Sprintf("look-before-park-%d", f.parks)) {
		return "", nil
	}
	return f.compare(f.steps)
}

// compare takes over what the ledger holds of steps. It returns a reason when everything that was done is to be taken
// back.
func (f *flow) compare(steps []*step) (whyUndo string, err error) {
	in := activities.LookAtEffectsInput{EventID: f.in.EventID, Keys: keysOf(steps)}
	for _, s := range steps {
		if s.undo != nil {
			in.Undos = append(in.Undos, s.undo(s.result).key)
		}
	}
	var found activities.LookAtEffectsResult
	if err := f.execute(f.ctx, attempt{name: "look", activity: runs.LookAtEffects, input: in}, &found); err != nil {
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
