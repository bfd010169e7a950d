package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities/effect"
)

// compensate undoes the effects that are done, in reverse order. Each undo is an effect with a key of its own. An
// undo that is refused or uncertain parks the run.
//
// Until the ledger contains the first undo, another run for the same fact may still execute an effect that this run
// has not executed. So an interrupted run refreshes its undos and compensates the effects that are done by then. A
// run that executes such an effect later finds the undos in the ledger and compensates it.
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
		// The remaining steps may have been executed by another run, but not by this one.
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

// undo compensates one step if it may have happened. A step that is already compensated is undone again if its undo
// has a follow-up, because an earlier attempt of this run may have been cut off between the two.
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

// takeBack settles an undo and its follow-ups. If its activity was completed by hand with the state compensated, the
// undo counts as settled.
func (f *flow) takeBack(undo *step) error {
	_, err := f.settle(undo)
	return err
}
