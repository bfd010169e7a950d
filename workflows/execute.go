package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities/effect"
)

// attempt is one activity to execute.
type attempt struct {
	// name is the summary in the Temporal UI and the ID of the regular activity.
	name string
	// activity and input are those of an activity that keeps records. start replaces them for an effect, and byHand is the
	// effect's step where a person says that it has happened.
	activity any
	input    any
	start    func(workflow.Context, starter) workflow.Future
	byHand   *step
	// timeout bounds one try; zero takes the default.
	timeout time.Duration
	// regularOnly leaves out the local try.
	regularOnly bool
}

const (
	// defaultTimeout bounds a try that only talks to our own database.
	defaultTimeout = 10 * time.Second
	// grace is what a try may need beyond its own time-out to get a place at its sink, to claim and to record.
	grace = 7 * time.Second
	// patience is the wait that the escalation to a regular activity stands in for. A longer one, of the sink's retries or
	// asked for with Retry-After, is a timer.
	patience = time.Second
)

// bound is how long one try may take: its own time-out, and what it needs before and after.
func (a attempt) bound() time.Duration { return cmp.Or(a.timeout, defaultTimeout) + grace }

// begin starts the activity.
func (a attempt) begin(ctx workflow.Context, start starter) workflow.Future {
	if a.start != nil {
		return a.start(ctx, start)
	}
	return start(ctx, a.activity, a.input)
}

// execute tries the activity at once as a local one and escalates to a regular one that is tried until
// it succeeds. A local try costs the server nothing; a regular one can be seen, paused and reset. It
// returns only what no retry can mend: cancellation, or a fault in our own code.
func (f *flow) execute(ctx workflow.Context, a attempt, result any) error {
	if f.preview != nil {
		return f.preview.execute(a, result)
	}
	defer func() { f.resetBegins = false }()
	err := f.try(ctx, a).Get(ctx, result)
	if err == nil || effect.NotDone(err, result) {
		return nil
	}
	return f.escalate(ctx, a, err, result)
}

// try starts the one local try.
func (f *flow) try(ctx workflow.Context, a attempt) workflow.Future {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: a.bound(), ScheduleToCloseTimeout: a.bound(), Summary: a.name,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return a.begin(local, workflow.ExecuteLocalActivity)
}

// escalate goes on after a local try that ended with err.
func (f *flow) escalate(ctx workflow.Context, a attempt, err error, result any) error {
	if temporal.IsCanceledError(err) {
		return err
	}
	if err := f.waitAsTold(ctx, a.name, err); err != nil {
		return err
	}
	return f.insist(ctx, a, result)
}

// insist runs the regular activity.
func (f *flow) insist(ctx workflow.Context, a attempt, result any) error {
	regular := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: a.name, Summary: a.name, StartToCloseTimeout: a.bound(),
		// A try that is under way when the run is cancelled says what it came to; one that waits for its next try ends.
		WaitForCancellation: true,
		// Without a limit: the ledger counts the tries of an effect, and their time, and ends them.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2,
			MaximumInterval: time.Minute},
	})
	err := a.begin(regular, workflow.ExecuteActivity).Get(ctx, result)
	if effect.NotDone(err, result) {
		return nil
	}
	return err
}

// waitAsTold waits for as long as the local try said.
func (f *flow) waitAsTold(ctx workflow.Context, name string, err error) error {
	var told *temporal.ApplicationError
	if !errors.As(err, &told) || told.NextRetryDelay() < patience {
		return nil
	}
	return workflow.NewTimerWithOptions(ctx, told.NextRetryDelay(), workflow.TimerOptions{
		Summary: fmt.Sprintf("%s: next try in %s", name, told.NextRetryDelay().Round(time.Second)),
	}).Get(ctx, nil)
}
