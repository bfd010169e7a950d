package workflows

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// JobInput names a bulk job.
type JobInput struct{ ID string }

// WorkflowID is the workflow ID of the job.
func (in JobInput) WorkflowID() string { return bounded("job:" + printable(in.ID, "")) }

// The activities of a job, and the signal that tells its run that the job has changed: it was paused, resumed or
// cancelled. They are in package operator, whose use cases each item goes through.
const (
	ActivityWorkOnJob = "WorkOnJob"
	ActivityStopJob   = "StopJob"
	SignalJobChanged  = "changed"
)

// The states of a job as its run knows them; see schema/job.
const (
	jobRunning = "running"
	jobPaused  = "paused"
)

// JobProgress is how a job stands.
type JobProgress struct {
	State string
	// Note says who has paused or cancelled it, and why.
	Note                         string `json:",omitempty"`
	Items, Done, Refused, Failed int
}

// String is how the Temporal UI shows it.
func (p JobProgress) String() string {
	return fmt.Sprintf("**%s**\n\n| of %d | |\n|---|---|\n| done | %d |\n| refused | %d |\n| failed | %d |\n| left | %d |\n",
		cmp.Or(p.Note, p.State), p.Items, p.Done, p.Refused, p.Failed, p.Items-p.Done-p.Refused-p.Failed)
}

// stretchesOfARun is how often a run of a job lets an activity work for a while before it goes on as a new run: each
// costs six events, and Temporal asks for a new run at 4,096.
const stretchesOfARun = 500

// Job works through a bulk job: an activity at a time, which takes item after item at the job's rate and ends after a
// while. How the job stands, and what came of each item, is in Postgres; the run keeps it going. While the job is
// paused the run waits for a signal. Cancelling the run cancels the job.
func Job(ctx workflow.Context, in JobInput) (JobProgress, error) {
	changed := workflow.GetSignalChannel(ctx, SignalJobChanged)
	working := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary: in.ID, StartToCloseTimeout: 10 * time.Minute, HeartbeatTimeout: 20 * time.Second,
		// A cancelled run does not wait for the activity. The activity sees within a second that the job is cancelled,
		// and lets the items end that are under way.
		WaitForCancellation: false,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2,
			MaximumInterval: time.Minute},
	})
	for range stretchesOfARun {
		drain(changed) // the activity reads how it stands
		var p JobProgress
		err := workflow.ExecuteActivity(working, ActivityWorkOnJob, in).Get(ctx, &p)
		if err == nil {
			workflow.SetCurrentDetails(ctx, p.String())
		}
		if err == nil && p.State == jobPaused {
			err = workflow.Await(ctx, func() bool { return changed.Len() > 0 })
		}
		if ctx.Err() != nil {
			return stopJob(ctx, in)
		}
		if err != nil || p.State != jobRunning && p.State != jobPaused {
			return p, err
		}
	}
	drain(changed)
	return JobProgress{}, workflow.NewContinueAsNewError(ctx, Job, in)
}

// drain takes the waiting signals. The next reading of the job sees the changes that they were sent for.
func drain(c workflow.ReceiveChannel) {
	for c.ReceiveAsync(nil) {
	}
}

// stopJob cancels the job of a run that was cancelled.
func stopJob(ctx workflow.Context, in JobInput) (p JobProgress, err error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	stopping := workflow.WithActivityOptions(ctx,
		workflow.ActivityOptions{Summary: in.ID, StartToCloseTimeout: defaultTimeout})
	err = workflow.ExecuteActivity(stopping, ActivityStopJob, in).Get(ctx, &p)
	return p, err
}
