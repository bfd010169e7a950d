package workflows

import (
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows/plan"
)

// engine executes the decisions of a flow. A [run] executes activities in Temporal. A [preview] and an [outline] read
// the ledger and compute forecasts. All three use the same code of the flow.
type engine interface {
	// execute runs an activity that is not an effect, and retries it until it succeeds. It returns only errors that a
	// retry cannot fix.
	execute(a attempt, result any) error
	// attemptAll attempts the open steps in parallel and returns when each of them has a result.
	attemptAll(steps []*step) error
	// waitForPerson parks the receipt and waits for a decision. It returns the zero decision if other runs have settled
	// the effects, or if this run was cancelled.
	waitForPerson(status string, why reason) (decision, error)
	// pause waits, and reports whether to check again. A preview or a cancelled run does not wait and returns false.
	pause(d time.Duration) (again bool)
	// cancelled reports whether the run was cancelled.
	cancelled() bool
	// asOf returns the start of the current workflow task. Each write contains this time, so that an older task cannot
	// overwrite the state of a newer task.
	asOf() time.Time
	// details shows a text in the Temporal UI of the run.
	details(text string)
}

// attempt is one activity to execute.
type attempt struct {
	// name is the summary in the Temporal UI and the ID of the regular activity.
	name string
	// activity and input are set for an activity that is not an effect. For an effect, step and call are set instead.
	activity any
	input    any
	step     *plan.Step
	call     effect.Call
	// timeout bounds one attempt. Zero means the default.
	timeout time.Duration
	// regularOnly skips the local activity.
	regularOnly bool
}
