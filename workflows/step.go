package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities/effect"
)

// step is one effect of a flow: how it is done, how it is undone, and what came of it.
type step struct {
	kind string
	key  string
	// do starts the activity with the call; it is a method value of package activities and its input.
	activity any
	input    func(effect.Call) any
	// undo makes the step that takes this one back, nil where nothing is to be undone.
	undo func(done effect.Result) *step
	// refusalUndoesAll is set where a refusal for good means that the customer cannot get what was
	// paid for: everything that was done is then taken back.
	refusalUndoesAll bool
	// compensates is the key that an undo takes back.
	compensates string

	result effect.Result
	// skipped is set when an operator decided that the step shall not be done.
	skipped bool
}

func (s *step) settled() bool { return s.skipped || s.result.State.Settled() }

// happened reports whether the effect was done, or may have been: it then has to be taken back. A
// refusal, and tries that were all answered with an error, leave nothing to undo.
func (s *step) happened() bool {
	switch s.result.State {
	case effect.Done, effect.AlreadyDone, effect.Uncertain:
		return true
	case effect.Exhausted:
		var failed effect.Failed
		return json.Unmarshal(s.result.Value, &failed) == nil && failed.Unanswered
	}
	return false
}

// call names the step to the effect runner.
func (s *step) call(in EventInput, round int) effect.Call {
	return effect.Call{Key: s.key, Kind: s.kind, Round: round, ReceiptID: in.ReceiptID, EventID: in.EventID, Compensates: s.compensates}
}

// run does the step: at once as a local activity, and when that does not finish it, with the same key
// as a regular one, which stands in the Temporal UI until it is done.
func (f *flow) run(ctx workflow.Context, s *step) error {
	how := f.settings[s.kind]
	return f.execute(ctx, attempt{
		name: s.key, activity: s.activity, input: s.input(s.call(f.in, f.round)),
		timeout: how.Timeout, regularOnly: how.ActivityOnly,
	}, &s.result)
}
