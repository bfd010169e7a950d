package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// run is the engine of a flow that runs on Temporal.
type run struct {
	f *flow
	// ctx is not cancelled when the run is cancelled, because a cancelled run parks. cancellable is the context of the
	// run itself.
	ctx, cancellable workflow.Context

	// parked is set while the run accepts decisions. decided is the decision of the current park, or nil. recorded is
	// set once the run has found the decision in the audit trail.
	parked   bool
	decided  *decision
	recorded bool
	// settledMeanwhile is set if other runs have settled every effect that this parked run waits for.
	settledMeanwhile bool
	// marked is the current PawlStatus, or "".
	marked string

	// calls counts the received signals to try again. listening is set once the run counts them.
	calls     int
	listening bool

	// resetBegins is set if a reset created this run and its first activity has not ended. firstTask is the history
	// length in its first workflow task. Decisions in that task are re-applied by the reset, and kept holds them until
	// the run parks again.
	resetBegins bool
	firstTask   int
	kept        []decision

	// task is the history length at the start of the current workflow task. taskBegun is the time of this start; see
	// asOf.
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
		f.begun = workflow.Now(ctx) // after a reset, the start event has the time of the first run
	}
	// asOf must run at the start of each task, before a local activity advances the clock of the workflow. Temporal
	// evaluates the condition of this coroutine whenever the workflow continues. The condition calls asOf and is never
	// true.
	workflow.GoNamed(r.ctx, "tasks", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { r.asOf(); return false })
	})
	return r, r.listen()
}

// asOf returns the start of the current workflow task by Temporal's clock. The writes of a task contain this time, so
// that an older task cannot overwrite newer state. For example, a suspended worker may resume a task that another
// worker has taken over.
//
// The history length is not sufficient, because a retried task has the same length. [workflow.Now] is not sufficient
// either: it advances with each local activity by the worker's own clock, and in a suspended worker it may pass the
// start of the task that took over.
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
