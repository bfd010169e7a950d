package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities/effect"
)

// compensate takes back the effects that are done, last first, each by an effect with a key of its own. An undo
// that is refused or in doubt parks the run like any other effect; it is never passed over in silence.
//
// Until the first undo stands in the ledger, another run for the same fact may still do an effect that this run has not
// done. So a run that was interrupted refreshes its undos, and takes back the effects that are done by then. A run that
// does such an effect later sees the undos, and takes it back itself.
func (f *flow) compensate() error {
	f.undoing, f.undone = true, true
	left := slices.Clone(f.steps)
	slices.Reverse(left)
	for {
		for _, s := range left {
			if err := f.undo(s); err != nil {
				return err
			}
		}
		// The rest is neither settled nor possibly done by this run: another one may have done it.
		left = slices.DeleteFunc(left,
			func(s *step) bool { return s.undo == nil || s.settled() || s.result.MayHaveHappened() })
		if !f.interrupted || len(left) == 0 {
			return nil
		}
		if _, err := f.refreshSteps(left); err != nil {
			return err
		}
		if !slices.ContainsFunc(left, func(s *step) bool { return s.result.MayHaveHappened() }) {
			return nil
		}
	}
}

// undo takes back one step, where it may have happened. One that was taken back before may have been so by a try of
// this run that was cut off before it had done what the undo asks for.
func (f *flow) undo(s *step) error {
	if s.undo == nil || s.skipped {
		return nil
	}
	undo := s.undo(s.result)
	if !s.result.MayHaveHappened() && (s.result.State != effect.Compensated || undo.then == nil) {
		return nil
	}
	undo.compensates = s.key
	return f.takeBack(undo)
}

// takeBack settles an undo, and the steps that it asks for in turn. One whose activity was completed by hand may say of
// itself that it was taken back: it is settled, too.
func (f *flow) takeBack(undo *step) error {
	_, err := f.settle(undo)
	return err
}
