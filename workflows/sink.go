package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// waitToTry waits for the delay in the result of the step, or until a signal arrives, and then tries again. The step
// waits because its sink is down, another effect must finish first, or the state that an e-mail reports may still
// change. The timer in the Temporal UI shows the reason. Waiting does not count as an attempt. calls is the number of
// signals before the last attempt; if more have arrived since then, waitToTry does not wait.
func (r *run) waitToTry(ctx workflow.Context, s *step, calls int) error {
	for s.result.State == effect.Waits {
		r.listenForCalls()
		if s.waitingSince.IsZero() && s.result.First == "" {
			s.waitingSince = r.asOf()
		}
		r.f.held = r.f.held || s.result.Held
		r.f.show(s.result.Reason)
		why := s.result.Reason
		if s.result.First == "" {
			why = "waits: " + why
		}
		options := workflow.AwaitOptions{Timeout: s.result.Wait,
			TimerOptions: workflow.TimerOptions{Summary: s.Kind + " " + why}}
		if _, err := workflow.AwaitWithOptions(ctx, options, func() bool { return r.calls != calls }); err != nil {
			return err
		}
		calls = r.calls
		a := r.f.attempt(s)
		s.result = effect.Result{}
		execute := r.executeIn
		if a.regularOnly {
			execute = r.insist
		}
		if err := execute(ctx, a, &s.result); err != nil {
			return err
		}
	}
	return nil
}

// listenForCalls starts to count the signals to try again. It also counts the signals that arrived earlier.
func (r *run) listenForCalls() {
	if r.listening {
		return
	}
	r.listening = true
	workflow.GoNamed(r.ctx, "calls", func(ctx workflow.Context) {
		for workflow.GetSignalChannel(ctx, activities.SignalTryAgain).Receive(ctx, nil) {
			r.calls++
		}
	})
}
