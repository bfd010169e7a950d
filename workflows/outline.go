package workflows

import (
	"context"
	"slices"

	"github.com/pawlhq/pawl/activities/effect"
)

// Outlined lists the effects of an event's run as far as they are known: as they stand, and those that wait for their
// turn. No effect is refused in it, and no run parks.
func Outlined(ctx context.Context, outlook Outlook, in EventInput) (Previewed, error) {
	o := outline{newPreview(ctx, outlook, Asked{In: in})}
	return o.of(o)
}

// outline is the engine of a preview in which every effect goes well, and none is begun.
type outline struct{ *preview }

func (o outline) attemptAll(steps []*step) error {
	err := o.each(steps, o.attempt)
	// A person decides whether a review comes to its close.
	o.seen = slices.DeleteFunc(o.seen,
		func(s *step) bool { return s.kind == closeReview.Name && o.stands[s.key].State == "" })
	return err
}

func (o outline) attempt(s *step) error {
	s.begun = true
	switch stands := o.stands[s.key]; {
	case stands.UnderWay():
		s.result = effect.Result{State: effect.AlreadyDone, By: stands.EventID}
		return nil
	case stands.Settled():
		s.result = effect.Recorded(stands, o.In.EventID)
		return nil
	}
	forecast, err := o.forecast(s)
	o.foreseen[s.key] = forecast
	if s.result = forecast.Result; !s.settled() { // a person would settle it
		s.result = effect.Result{State: effect.Done}
	}
	return err
}

// waitForPerson lets stand what a rule asks about once effects are there.
func (o outline) waitForPerson(status string, why reason) (decision, error) {
	if why.code != "" && len(o.f.steps) > 0 {
		return decision{action: UpdateRetry}, nil
	}
	return o.preview.waitForPerson(status, why)
}
