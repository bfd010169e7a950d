package workflows

import (
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// engine executes the decisions of a flow. A [run] uses Temporal and the activities, a [preview] and an [outline] use
// the ledger and forecasts. The flow is the same in each case.
type engine interface {
	// execute runs an activity that keeps records until it succeeds. It returns only errors that a retry cannot fix.
	execute(a attempt, result any) error
	// attemptAll attempts the open steps in parallel and returns when each of them has a result.
	attemptAll(steps []*step) error
	// waitForPerson shows on the receipt that a person must decide, and waits for a decision. It returns the zero
	// decision if the wait ended without one: other runs have settled the effects, or this run was cancelled.
	waitForPerson(status string, why reason) (decision, error)
	// pause waits, and reports whether to check again. A preview or a cancelled run does not wait and returns false.
	pause(d time.Duration) (again bool)
	// cancelled reports whether the run was cancelled.
	cancelled() bool
	// asOf returns the start of the current work. Its writes carry that time, so that older work cannot overwrite
	// newer state.
	asOf() time.Time
	// details shows a text to a person who looks at the run.
	details(text string)
}

// attempt is one activity to execute.
type attempt struct {
	// name is the summary in the Temporal UI and the ID of the regular activity.
	name string
	// activity and input belong to an activity that keeps records. For an effect, work and call are set instead.
	activity any
	input    any
	work     worker
	call     effect.Call
	// timeout bounds one attempt. Zero means the default.
	timeout time.Duration
	// regularOnly skips the local activity.
	regularOnly bool
}
