package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities/effect"
)

const (
	// defaultTimeout bounds an attempt that uses only pawl's own database.
	defaultTimeout = 10 * time.Second
	// grace is the time that an attempt may need in addition to its timeout: to wait for a slot of its sink, to claim
	// the effect, and to record the outcome.
	grace = 7 * time.Second
	// patience is the longest delay before a retry for which the run sets no timer. For a shorter delay, the run starts
	// the regular activity at once.
	patience = time.Second
)

// bound returns the activity timeout of one attempt.
func (a attempt) bound() time.Duration { return cmp.Or(a.timeout, defaultTimeout) + grace }

func (a attempt) begin(ctx workflow.Context, start starter) workflow.Future {
	if a.step != nil {
		return executors[a.step.Kind].start(ctx, start, a.call, a.step.Input)
	}
	return start(ctx, a.activity, a.input)
}

// execute first runs the activity as a local activity, which costs the server nothing. If that fails, it runs a regular
// activity, which Temporal retries until it succeeds, and which the Temporal UI shows. execute returns only errors that
// a retry cannot fix: a cancellation, or a fault in pawl's code.
func (r *run) execute(a attempt, result any) error { return r.executeIn(r.ctx, a, result) }

// executeIn is execute with the context of another coroutine.
func (r *run) executeIn(ctx workflow.Context, a attempt, result any) error {
	defer func() { r.resetBegins = false }()
	err := r.try(ctx, a).Get(ctx, result)
	if err == nil || effect.NotDone(err, result) {
		return nil
	}
	return r.escalate(ctx, a, err, result)
}

func (r *run) try(ctx workflow.Context, a attempt) workflow.Future {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: a.bound(), ScheduleToCloseTimeout: a.bound(), Summary: a.name,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return a.begin(local, workflow.ExecuteLocalActivity)
}

// escalate continues after a local activity that failed with err. It first waits as long as err requests.
func (r *run) escalate(ctx workflow.Context, a attempt, err error, result any) error {
	if temporal.IsCanceledError(err) {
		return err
	}
	if failure, ok := errors.AsType[*temporal.ApplicationError](err); ok && failure.NextRetryDelay() >= patience {
		if err := workflow.NewTimerWithOptions(ctx, failure.NextRetryDelay(), workflow.TimerOptions{
			Summary: fmt.Sprintf("%s: next try in %s", a.name, failure.NextRetryDelay().Round(time.Second)),
		}).Get(ctx, nil); err != nil {
			return err
		}
	}
	return r.insist(ctx, a, result)
}

func (r *run) insist(ctx workflow.Context, a attempt, result any) error {
	regular := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: a.name, Summary: a.name, StartToCloseTimeout: a.bound(),
		// If the run is cancelled during an attempt, wait for the outcome of the attempt. Between two attempts, the
		// activity ends.
		WaitForCancellation: true,
		// Temporal sets no limit, because the ledger counts the attempts and the retry time.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2,
			MaximumInterval: time.Minute},
	})
	err := a.begin(regular, workflow.ExecuteActivity).Get(ctx, result)
	if effect.NotDone(err, result) {
		return nil
	}
	return err
}

// attemptAll runs the unsettled steps in parallel, in one workflow task if all of them succeed. Only a step that
// needs more than its local activity gets a coroutine, because the end of every step wakes each waiting coroutine.
//
// A cancelled run starts none of them. Retries in progress stop.
func (r *run) attemptAll(steps []*step) error {
	if r.f.isCancelled() {
		for _, s := range r.f.toTry(steps) {
			s.setResult(effect.Failed, "not begun: the run was cancelled")
		}
		return nil
	}
	attempts, stop := r.untilCancelled()
	defer stop()
	more := &escalation{run: r, attempts: attempts, calls: r.calls}
	begun := map[*step]bool{}
	open := func() []*step {
		return slices.DeleteFunc(r.f.toTry(steps), func(s *step) bool {
			return begun[s] || len(begun) > 0 && (s.result.State != "" || r.f.isCancelled())
		})
	}
	for now := open(); len(now) > 0; now = open() {
		for _, s := range now {
			begun[s] = true
		}
		r.tryEach(now, more)
		// A step that waits for other steps begins when these are settled, even if others are still being retried.
		if err := workflow.Await(r.ctx, func() bool { return more.running == 0 || len(open()) > 0 }); err != nil {
			return err
		}
	}
	if more.failed != nil {
		return more.failed
	}
	for _, s := range steps {
		if begun[s] && !s.result.State.Known() { // the Temporal UI and CLI complete an activity with any result
			s.setResult(effect.Uncertain, "its activity was completed by hand with a result that has no known state")
		}
	}
	return nil
}

// tryEach tries steps as local activities, in parallel. The steps that need more continue in more.
func (r *run) tryEach(steps []*step, more *escalation) {
	tries := workflow.NewSelector(r.ctx)
	tried := 0
	for _, s := range steps {
		a := r.f.attempt(s)
		s.begun = true
		s.result = effect.Result{} // otherwise old fields would remain after decoding
		if a.regularOnly {
			more.begin(s, func(ctx workflow.Context) error { return r.insist(ctx, a, &s.result) })
			continue
		}
		tried++
		tries.AddFuture(r.try(r.ctx, a), func(local workflow.Future) {
			switch err := local.Get(r.ctx, &s.result); {
			case effect.NotDone(err, &s.result): // the flow handles it after all steps have ended
			case err != nil:
				more.begin(s, func(ctx workflow.Context) error { return r.escalate(ctx, a, err, &s.result) })
			case s.result.State == effect.Waits:
				more.begin(s, func(workflow.Context) error { return nil })
			}
		})
	}
	for range tried {
		tries.Select(r.ctx)
	}
}

// untilCancelled returns a context that is cancelled with the run. The caller must call over when the attempts have
// ended.
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

// escalation runs the steps that need more than their local activity, in parallel.
type escalation struct {
	run      *run
	attempts workflow.Context
	calls    int
	// running is the number of steps in progress.
	running int
	// failed is the first error of the flow itself. The failure of a step is part of its result.
	failed error
}

// begin starts a coroutine that executes a step and waits for its sink if necessary.
func (e *escalation) begin(s *step, execute func(workflow.Context) error) {
	e.running++
	workflow.GoNamed(e.attempts, s.Key, func(ctx workflow.Context) {
		defer func() { e.running-- }()
		err := execute(ctx)
		if err == nil {
			err = e.run.waitToTry(ctx, s, e.calls)
		}
		if temporal.IsCanceledError(err) && e.run.f.isCancelled() {
			s.setResult(effect.Failed, "not done when the run was cancelled")
			err = e.run.cancelStep(ctx, s)
		}
		if err != nil && e.failed == nil {
			e.failed = fmt.Errorf("%s: %w", s.Key, err)
		}
	})
}

// cancelStep cancels the workflow of the user that the step of a cancelled run has started.
func (r *run) cancelStep(ctx workflow.Context, s *step) error {
	a := r.f.attempt(s)
	if a.name, a.step = "cancel "+s.Key, s.Cancelled(); a.step == nil {
		return nil
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return r.executeIn(ctx, a, &s.result)
}

// setResult sets a result that no activity has returned.
func (s *step) setResult(state effect.State, reason string) {
	s.result = effect.Result{State: state, Round: s.result.Round, Reason: reason, Unanswered: s.result.Unanswered}
}
