package workflows

import "slices"

// compensate takes back what was done, last first, each by an effect with a key of its own. An undo
// that is refused or in doubt parks the run like any other effect; it is never passed over in silence.
//
// Until the first undo stands in the ledger, another run for the same fact may still do an effect that this run has
// not done. So a run that was parked looks after its undos, and takes back what it finds done by then. A run that does
// such an effect later sees the undos, and takes it back itself.
func (f *flow) compensate() error {
	parked := f.decided != nil
	f.undoing = true
	left := slices.Clone(f.steps)
	slices.Reverse(left)
	for {
		for _, s := range left {
			if err := f.undo(s); err != nil {
				return err
			}
		}
		// What is left is neither settled nor possibly done by this run: another one may have done it.
		left = slices.DeleteFunc(left, func(s *step) bool { return s.undo == nil || s.settled() || s.result.MayHaveHappened() })
		if !parked || len(left) == 0 || !f.knows("look-after-undo") {
			return nil
		}
		if _, err := f.compare(left); err != nil {
			return err
		}
		if !slices.ContainsFunc(left, func(s *step) bool { return s.result.MayHaveHappened() }) {
			return nil
		}
	}
}

// undo takes back one step, where it may have happened.
func (f *flow) undo(s *step) error {
	if s.undo == nil || s.skipped || !s.result.MayHaveHappened() {
		return nil
	}
	for undo := s.undo(s.result); undo != nil; {
		undo.compensates = s.key
		if err := f.takeBack(undo); err != nil {
			return err
		}
		if undo.then == nil || undo.skipped {
			break
		}
		undo = undo.then(undo.result)
	}
	return nil
}

// takeBack settles an undo. One whose activity was completed by hand may say of itself that it was taken back: it is
// settled, too.
func (f *flow) takeBack(undo *step) error {
	for {
		whyUndo, err := f.settle(undo)
		if err != nil || whyUndo == "" || undo.settled() {
			return err
		}
		// A person has decided to compensate, which is being done already: try it again.
		undo.retry()
	}
}
