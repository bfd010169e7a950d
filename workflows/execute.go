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

const (
	// defaultTimeout bounds a try that only talks to our own database.
	defaultTimeout = 10 * time.Second
	// grace is what a try may need beyond its own time-out to get a place at its sink, to claim and to record.
	grace = 7 * time.Second
	// patience is the wait that the escalation to a regular activity stands in for. A longer one, of the sink's retries
	// or asked for with Retry-After, is a timer.
	patience = time.Second
)

// bound is how long one try may take: its own time-out and grace.
func (a attempt) bound() time.Duration { return cmp.Or(a.timeout, defaultTimeout) + grace }

func (a attempt) begin(ctx workflow.Context, start starter) workflow.Future {
	if a.work != nil {
		return a.work.start(ctx, start, a.call)
	}
	return start(ctx, a.activity, a.input)
}

// execute tries the activity at once as a local one and escalates to a regular one that is tried until
// it succeeds. A local try costs the server nothing; a regular one can be seen, paused and reset. It
// returns only what no retry can mend: cancellation, or a fault in our own code.
func (r *run) execute(a attempt, result any) error { return r.executeIn(r.ctx, a, result) }

// executeIn is execute in a coroutine of its own.
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

// escalate goes on after a local try that ended with err: after a wait for as long as that says.
func (r *run) escalate(ctx workflow.Context, a attempt, err error, result any) error {
	if temporal.IsCanceledError(err) {
		return err
	}
	if told, ok := errors.AsType[*temporal.ApplicationError](err); ok && told.NextRetryDelay() >= patience {
		if err := workflow.NewTimerWithOptions(ctx, told.NextRetryDelay(), workflow.TimerOptions{
			Summary: fmt.Sprintf("%s: next try in %s", a.name, told.NextRetryDelay().Round(time.Second)),
		}).Get(ctx, nil); err != nil {
			return err
		}
	}
	return r.insist(ctx, a, result)
}

func (r *run) insist(ctx workflow.Context, a attempt, result any) error {
	regular := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: a.name, Summary: a.name, StartToCloseTimeout: a.bound(),
		// A try that is under way when the run is cancelled tells its outcome; one that waits for its next try ends.
		WaitForCancellation: true,
		// No limit here: the ledger counts the tries of an effect, and their time, and ends them.
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2,
			MaximumInterval: time.Minute},
	})
	err := a.begin(regular, workflow.ExecuteActivity).Get(ctx, result)
	if effect.NotDone(err, result) {
		return nil
	}
	return err
}

// attemptAll runs the unsettled steps side by side, all in one workflow task while they go well. Only a step that needs
// more than its local try gets a coroutine: each one that waits is woken, in vain, by the end of every other step.
//
// A run that is cancelled begins none of them. Those that are being retried end where they are.
func (r *run) attemptAll(steps []*step) error {
	open := r.f.toTry(steps)
	if r.f.isCancelled() {
		for _, s := range open {
			s.cameTo(effect.Failed, "not begun: the run was cancelled")
		}
		return nil
	}
	attempts, stop := r.untilCancelled()
	defer stop()
	more := escalation{run: r, attempts: attempts, group: workflow.NewWaitGroup(r.ctx), calls: r.calls}
	tries := workflow.NewSelector(r.ctx)
	tried := 0
	for _, s := range open {
		a := r.f.attempt(s)
		s.begun = true
		s.result = effect.Result{} // a result is decoded into what stands there: an old reason would stay
		if a.regularOnly {
			more.begin(s, func(ctx workflow.Context) error { return r.insist(ctx, a, &s.result) })
			continue
		}
		tried++
		tries.AddFuture(r.try(r.ctx, a), func(local workflow.Future) {
			switch err := local.Get(r.ctx, &s.result); {
			case effect.NotDone(err, &s.result): // a person, or the rest of the flow, has to do with it
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
	more.group.Wait(r.ctx)
	if more.failed != nil {
		return more.failed
	}
	for _, s := range open {
		if !s.result.State.Known() { // the Temporal UI and CLI complete an activity with any result
			s.cameTo(effect.Uncertain, "its activity was completed by hand, and its result does not say what it came to")
		}
	}
	return nil
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

// escalation is what goes on, side by side, with steps that need more than their local try.
type escalation struct {
	run      *run
	attempts workflow.Context
	group    workflow.WaitGroup
	calls    int
	// failed is the first failure of the flow itself: a step's failure is its result.
	failed error
}

// begin goes on with a step, and waits with it for its sink.
func (e *escalation) begin(s *step, execute func(workflow.Context) error) {
	e.group.Add(1)
	workflow.GoNamed(e.attempts, s.key, func(ctx workflow.Context) {
		defer e.group.Done()
		err := execute(ctx)
		if err == nil {
			err = e.run.waitToTry(ctx, s, e.calls)
		}
		if temporal.IsCanceledError(err) && e.run.f.isCancelled() {
			s.cameTo(effect.Failed, "not done when the run was cancelled")
		} else if err != nil && e.failed == nil {
			e.failed = fmt.Errorf("%s: %w", s.key, err)
		}
	})
}

// cameTo gives the step a result that no activity has told.
func (s *step) cameTo(state effect.State, reason string) {
	s.result = effect.Result{State: state, Round: s.result.Round, Reason: reason, Unanswered: s.result.Unanswered}
}
