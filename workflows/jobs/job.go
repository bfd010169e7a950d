// Package jobs contains the workflow of a bulk job, which decides many events at a limited rate.
package jobs

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/workflows/markdown"
	"github.com/pawlhq/pawl/workflows/workflowid"
)

// Input names a bulk job.
type Input struct{ ID string }

// WorkflowID returns the workflow ID of the job.
func (in Input) WorkflowID() string { return workflowid.Bound("job:" + workflowid.Escape(in.ID, "")) }

// These are the names of a job's activities, which package operator implements, and of the signal that the job was
// paused, resumed or cancelled.
const (
	ActivityWork  = "WorkOnJob"
	ActivityStop  = "StopJob"
	SignalChanged = "changed"
)

// These are the states of a job; see schema/job.
const (
	running = "running"
	paused  = "paused"
)

// Progress is the progress of a job.
type Progress struct {
	State string
	// Note describes who paused or cancelled the job, and why.
	Note                         string `json:",omitempty"`
	Items, Done, Refused, Failed int
}

// String formats the progress as Markdown for the Temporal UI.
func (p Progress) String() string {
	return fmt.Sprintf("**%s**\n\n| of %d | |\n|---|---|\n| done | %d |\n| refused | %d |\n| failed | %d |\n| left | %d |\n",
		markdown.Text(cmp.Or(p.Note, p.State)), p.Items, p.Done, p.Refused, p.Failed, p.Items-p.Done-p.Refused-p.Failed)
}

// stretchesOfARun is the number of activities after which the run continues as new. Each activity adds six events to
// the history, and Temporal recommends a new run at 4,096 events.
const stretchesOfARun = 500

// Job runs a bulk job. Each activity processes items at the rate of the job and ends after a while. Postgres stores the
// outcome of each item; the run only starts the next activity. While the job is paused, the run waits for a signal.
// Cancelling the run cancels the job.
func Job(ctx workflow.Context, in Input) (Progress, error) {
	changed := workflow.GetSignalChannel(ctx, SignalChanged)
	working := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		Summary: in.ID, StartToCloseTimeout: 10 * time.Minute, HeartbeatTimeout: 20 * time.Second,
		// A cancelled run does not wait for the activity. The activity notices within a second that the job is
		// cancelled, and finishes the items in progress.
		WaitForCancellation: false,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2,
			MaximumInterval: time.Minute},
	})
	for range stretchesOfARun {
		drain(changed) // the activity reads the state of the job
		var p Progress
		err := workflow.ExecuteActivity(working, ActivityWork, in).Get(ctx, &p)
		if err == nil {
			workflow.SetCurrentDetails(ctx, p.String())
		}
		if err == nil && p.State == paused {
			err = workflow.Await(ctx, func() bool { return changed.Len() > 0 })
		}
		if ctx.Err() != nil {
			return stopJob(ctx, in)
		}
		if err != nil || p.State != running && p.State != paused {
			return p, err
		}
	}
	drain(changed)
	return Progress{}, workflow.NewContinueAsNewError(ctx, Job, in)
}

// drain discards the received signals. The next activity reads the state of the job from the database.
func drain(c workflow.ReceiveChannel) {
	for c.ReceiveAsync(nil) {
	}
}

// stopTimeout bounds the activity that cancels the job. It uses only the database.
const stopTimeout = 10 * time.Second

// stopJob cancels the job of a cancelled run.
func stopJob(ctx workflow.Context, in Input) (p Progress, err error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	stopping := workflow.WithActivityOptions(ctx,
		workflow.ActivityOptions{Summary: in.ID, StartToCloseTimeout: stopTimeout})
	err = workflow.ExecuteActivity(stopping, ActivityStop, in).Get(ctx, &p)
	return p, err
}
