package workflows

import (
	"slices"

	"github.com/pawlhq/pawl/activities/effect"
)

// compensate undoes the effects that are done, in reverse order. Each undo is an effect with a key of its own. An
// undo that is refused or uncertain parks the run.
//
// Until the ledger contains the first undo, another run for the same fact may still execute an effect that this run has
// not executed. So an interrupted run first reads the ledger, and also compensates the effects that other runs have
// executed before that time. If the other run executes an effect later, it finds the undos in the ledger and
// compensates the effect itself.
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
			func(s *step) bool { return s.Undo == nil || s.settled() || s.result.MayHaveHappened() })
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

// undo compensates a step if its effect may have happened. If the step is already compensated and its undo has a
// follow-up step, undo runs both again: an earlier attempt may have stopped between the two.
func (f *flow) undo(s *step) error {
	if s.Undo == nil || s.skipped {
		return nil
	}
	undo := newStep(s.Undo(s.result))
	if !s.result.MayHaveHappened() && (s.result.State != effect.Compensated || undo.Then == nil) {
		return nil
	}
	undo.Compensates = s.Key
	return f.takeBack(undo)
}

// takeBack runs an undo and its follow-up steps. If a person completed the activity of the undo by hand with the state
// compensated, takeBack treats the undo as done.
func (f *flow) takeBack(undo *step) error {
	_, err := f.settle(undo)
	return err
}
