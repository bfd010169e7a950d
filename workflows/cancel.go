package workflows

import "go.temporal.io/sdk/workflow"

// Cancelling a run is the main button of a parked one in the Temporal UI, one click away. It begins no more
// effects and parks the run for a person. Effects that are done stay done, unless configuration says otherwise.

// isCancelled reports whether the run was cancelled and nobody has decided about that yet.
func (f *flow) isCancelled() bool {
	return !f.cancelSeen && !f.undoing && f.cancelled()
}

// untilCancelled returns a context for attempts that a cancellation of the run ends, and what to call when they are
// over.
func (r *run) untilCancelled() (attempts workflow.Context, over func()) {
	if r.f.cancelSeen || r.f.undoing {
		return r.ctx, func() {}
	}
	attempts, cancel := workflow.WithCancel(r.ctx)
	done := false
	workflow.GoNamed(r.ctx, "cancellation", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { return done || r.cancelled() })
		cancel()
	})
	return attempts, func() { done = true }
}
