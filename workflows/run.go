package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// run is the engine of a flow that runs on Temporal.
type run struct {
	f *flow
	// ctx is not cancelled with the run, because a cancelled run parks. cancellable is the run's own context.
	ctx, cancellable workflow.Context

	// parked is set while the run accepts decisions. decided is the decision of the current park, or nil. recorded is
	// set once the audit trail contains it, so that the run may continue.
	parked   bool
	decided  *decision
	recorded bool
	// settledMeanwhile is set if other runs have settled every effect that this parked run waits for.
	settledMeanwhile bool
	// marked is the current PawlStatus, or "".
	marked string

	// calls counts the signals to try again. listening is set once the run receives them.
	calls     int
	listening bool

	// resetBegins is set if a workflow reset made this run and its first activity has not ended. Decisions in the
	// first task are the ones that the reset re-applies; firstTask, the history length at that time, identifies the
	// task. kept holds them until the run parks again.
	resetBegins bool
	firstTask   int
	kept        []decision

	// task identifies the current workflow task by the history length at its start. taskBegun is its start; see asOf.
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
		f.begun = workflow.Now(ctx) // the start event, with its time, is a copy from the first run
	}
	// asOf must run in each task before a local activity advances the workflow's clock. This coroutine does only
	// that: its condition is never true, and is evaluated whenever the workflow continues.
	workflow.GoNamed(r.ctx, "tasks", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { r.asOf(); return false })
	})
	return r, r.listen()
}

// asOf returns the start of the current workflow task by Temporal's clock. The writes of a task carry it, so that an
// older task cannot overwrite newer state: a suspended worker may resume a task that another worker has taken over,
// or a run that was reset since.
//
// The history length is not sufficient, because a retried task has the same length. [workflow.Now] is not either: it
// advances with each local activity by the worker's own clock, and in a suspended worker it may pass the start of the
// task that took over.
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

// details shows a text under "Current Details" in the Temporal UI. It adds no event, and can be read only while a
// worker runs.
func (r *run) details(text string) { workflow.SetCurrentDetails(r.ctx, text) }
