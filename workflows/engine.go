package workflows

import (
	"time"

	"github.com/pawlhq/pawl/activities/effect"
)

// engine is what a flow stands on: Temporal and the activities in a [run], the ledger and forecasts in a [preview] and
// an [outline]. The flow itself is the same on each.
type engine interface {
	// execute runs an activity that keeps records, until it succeeds. It returns only what no retry can mend.
	execute(a attempt, result any) error
	// attemptAll tries the steps that are to be tried, side by side, and returns when each has come to something.
	attemptAll(steps []*step) error
	// waitForPerson shows on the receipt that a person must decide, and waits until one has. It returns the zero
	// decision when the wait is over without one: others have settled the run's effects, or it was cancelled.
	waitForPerson(status string, why reason) (decision, error)
	// pause waits, and reports whether the run shall look again: a preview does not wait, nor does a cancelled run.
	pause(d time.Duration) (again bool)
	// cancelled reports whether the run was cancelled.
	cancelled() bool
	// asOf is when the work at hand began. Its writes carry that time, so that older work changes nothing any more.
	asOf() time.Time
	// details shows a person how the flow stands.
	details(text string)
}

// attempt is one activity to execute.
type attempt struct {
	// name is the summary in the Temporal UI and the ID of the regular activity.
	name string
	// activity and input are those of an activity that keeps records. work and call replace them for an effect.
	activity any
	input    any
	work     worker
	call     effect.Call
	// timeout bounds one try; zero takes the default.
	timeout time.Duration
	// regularOnly leaves out the local try.
	regularOnly bool
}
