package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// waitToTry waits for as long as a step is told to, and tries it again: after the wait that the last try was told, or
// when a worker says so. It may be that the sink is out, that another effect comes first, or that a letter waits
// until its state has settled. The timer in the Temporal UI says why. A wait spends no try. calls is how many signals
// had come when the last try began: one that came since may be about what that try has not seen.
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
			TimerOptions: workflow.TimerOptions{Summary: s.kind + " " + why}}
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

// listenForCalls counts the signals to try again, from the first wait on. One that came before is spent on it.
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
