package workflows

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows/plan"
)

// Outlined returns the known effects of an event's run: the executed effects and the pending effects. It assumes that
// no effect is refused and that the run does not park.
func Outlined(ctx context.Context, outlook Outlook, in EventInput) (Previewed, error) {
	o := outline{newPreview(ctx, outlook, Asked{In: in})}
	return o.of(o)
}

// outline is the engine of a preview in which every effect succeeds and none is executed.
type outline struct{ *preview }

func (o outline) attemptAll(steps []*step) error {
	err := o.each(steps, o.attempt)
	// A review is closed only if a person approves it.
	o.seen = slices.DeleteFunc(o.seen,
		func(s *step) bool { return s.Kind == plan.CloseReview.Name && o.states[s.Key].State == "" })
	return err
}

func (o outline) attempt(s *step) error {
	s.begun = true
	switch state := o.states[s.Key]; {
	case state.UnderWay():
		s.result = effect.Result{State: effect.AlreadyDone, By: state.EventID}
		return nil
	case state.Settled():
		s.result = effect.Recorded(state, o.In.EventID)
		return nil
	}
	forecast, err := o.forecast(s)
	o.forecasts[s.Key] = forecast
	if s.result = forecast.Result; !s.settled() { // assume that a person settles it
		s.result = effect.Result{State: effect.Done}
	}
	return err
}

// waitForPerson approves a review that opens after the effects.
func (o outline) waitForPerson(status string, why reason) (decision, error) {
	if why.code != "" && len(o.f.steps) > 0 {
		return decision{action: UpdateRetry}, nil
	}
	return o.preview.waitForPerson(status, why)
}
