package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities/effect"
)

// SignalSinkBack tells a run that waits for a sink that one is back. It takes nothing and decides nothing: the run
// tries again, and learns from that.
const SignalSinkBack = "sink-back"

// waitForSink waits for as long as the sink of a step is out, and tries the step when it may be back: after the wait
// that the last try was told, or when a worker says so. A letter waits in the same way until its state has settled. The
// timer in the Temporal UI says why. A wait spends no try.
func (r *run) waitForSink(ctx workflow.Context, s *step) error {
	for s.result.State == effect.Waits {
		r.listenForSinks()
		if s.waitingSince.IsZero() {
			s.waitingSince = r.asOf()
			r.f.show(s.result.Reason)
		}
		back := r.sinksBack
		options := workflow.AwaitOptions{Timeout: s.result.Wait,
			TimerOptions: workflow.TimerOptions{Summary: s.kind + " waits: " + s.result.Reason}}
		if _, err := workflow.AwaitWithOptions(ctx, options, func() bool { return r.sinksBack != back }); err != nil {
			return err
		}
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

// listenForSinks counts the signals that a sink is back, from the first wait on. One that came before is spent on it.
func (r *run) listenForSinks() {
	if r.listening {
		return
	}
	r.listening = true
	workflow.GoNamed(r.ctx, "sinks", func(ctx workflow.Context) {
		for workflow.GetSignalChannel(ctx, SignalSinkBack).Receive(ctx, nil) {
			r.sinksBack++
		}
	})
}
