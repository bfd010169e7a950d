package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// run is the engine of a flow that runs on Temporal.
type run struct {
	f *flow
	// ctx is not cancelled with the run: a cancelled run parks. cancellable is the run's own context.
	ctx, cancellable workflow.Context

	// parked is set while the run takes a decision. decided is the last one that it took, nil from a park until the
	// next; recorded is set when that stands in the audit trail, so that the run may go on.
	parked   bool
	decided  *decision
	recorded bool
	// settledMeanwhile is set when others have settled all that the parked run waits for.
	settledMeanwhile bool
	// marked is the run's PawlStatus, "" while it has none.
	marked string

	// calls counts the signals to try again; listening is set once they are listened to.
	calls     int
	listening bool

	// resetBegins: a workflow reset made this run, and its first activity has not ended. The decisions that come with
	// its first task are those that the reset re-applies; firstTask, the length of the history then, tells that task.
	// They are kept for when the run parks again.
	resetBegins bool
	firstTask   int
	kept        []decision

	// task is the workflow task at work, told by the length of the history that it began with, and taskBegun when it
	// began; see asOf.
	task      int
	taskBegun time.Time
}

func newRun(ctx workflow.Context, name string, in EventInput) (*run, error) {
	info := workflow.GetInfo(ctx)
	f := &flow{name: name, in: in, begun: info.WorkflowStartTime}
	r := &run{f: f, cancellable: ctx, firstTask: info.GetCurrentHistoryLength()}
	f.engine = r
	r.ctx, _ = workflow.NewDisconnectedContext(ctx)
	if info.OriginalRunID != info.WorkflowExecution.RunID {
		r.resetBegins, f.resetOf = true, info.OriginalRunID
		f.begun = workflow.Now(ctx) // the start event is a copy of the first run's, its time included
	}
	// asOf has to be asked in each task before a local activity moves the workflow's clock. This coroutine does nothing
	// else: its condition never holds, and is evaluated whenever the workflow goes on.
	workflow.GoNamed(r.ctx, "tasks", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { r.asOf(); return false })
	})
	return r, r.listen()
}

// asOf returns when the workflow task at work began, by Temporal's clock. The writes of a task carry it, so that a task
// that began earlier changes nothing any more: a worker that was stopped goes on with a task that another worker has
// taken over, or with a run that was reset since.
//
// The length of the history would not do, because a later try of a task has the same. Nor would [workflow.Now], which
// moves on with each local activity, by the worker's own clock: in a worker that was stopped it may pass the begin
// of the task that took over.
func (r *run) asOf() time.Time {
	if task := workflow.GetInfo(r.ctx).GetCurrentHistoryLength(); task != r.task {
		r.task, r.taskBegun = task, workflow.Now(r.ctx)
	}
	return r.taskBegun
}

func (r *run) pause(d time.Duration) (again bool) {
	over, err := workflow.AwaitWithTimeout(r.ctx, d, r.cancelled)
	return err == nil && !over
}

func (r *run) cancelled() bool { return r.cancellable.Err() != nil }

// details shows a text under "Current Details" in the Temporal UI. It costs no event, and nobody can ask for it without
// a worker: what must last stands in the ledger.
func (r *run) details(text string) { workflow.SetCurrentDetails(r.ctx, text) }
