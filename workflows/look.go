package workflows

import (
	"fmt"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// look brings the steps up to what the ledger holds. While a run was parked, another one for the same
// fact may have done what this one has not, or taken back what this one saw done: the first is then not
// done again, and for the second look returns the reason to take back the rest, too. Only a run that
// was parked looks, and one that a reset made and that is about to park; one that goes well has no need to.
func (f *flow) look() (whyUndo string, err error) {
	if f.irreversible || f.undoing {
		return "", nil
	}
	return f.compare(f.steps)
}

// lookAfterReset looks before a run parks that a reset made, for relays, too. What the history up to the point of
// the reset says of an effect may long be past: the run before went on from there, by a retry that is not applied
// again.
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

// compare is a look at what the ledger holds of steps.
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
