package workflows

import (
	"cmp"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/workflows/plan"
	"github.com/pawlhq/pawl/workflows/workflowid"
)

// relay delivers an event to the destinations of its source. It is the flow of every event without a flow of its own.
// If one destination is down, the others still get the event, and the run parks when the retries for that destination
// end.
//
// It also runs the steps of the flow in the configuration that handles the event. A refused step undoes the completed
// steps. A delivery cannot be compensated, so a parked run without a flow does not accept compensate.
func (f *flow) relay() (EventResult, error) {
	f.irreversible = true
	steps, left, err := f.loadRelay()
	if err != nil {
		return EventResult{}, err
	}
	if f.withholds {
		if err := f.withhold(steps, ""); err != nil {
			return EventResult{}, err
		}
		return f.finish(processed, cmp.Or(left, withheld()))
	}
	whyUndo, err := f.settle(steps...)
	if err == nil && whyUndo != "" {
		err = f.compensate()
	}
	switch {
	case err != nil:
		return EventResult{}, err
	case whyUndo != "":
		return f.finish(compensated, reason{codeCompensated, whyUndo})
	}
	return f.finish(processed, left)
}

// loadRelay reads the destinations and the flow of the event. If the event has neither, it parks the run. left is the
// reason if a person dismissed the event, or if the flow or all destinations exclude it.
func (f *flow) loadRelay() (steps []*step, left reason, err error) {
	for {
		var loaded activities.LoadRelayResult
		if err := f.execute(attempt{
			name: "load", activity: destinations.LoadRelay, input: activities.LoadRelayInput{Ref: f.in.Ref},
		}, &loaded); err != nil {
			return nil, reason{}, err
		}
		f.settings = loaded.Sinks
		f.beforeEffects(loaded.Withhold)
		if loaded.Code == "" {
			steps = f.deliveries(loaded.Destinations, loaded.Undecided)
			if loaded.Flow != nil {
				f.irreversible = len(loaded.Flow.Steps) == 0
				steps = append(steps, newSteps(plan.Configured(*loaded.Flow, f.in.Ref))...)
			}
			return steps, reason{loaded.Left.Code, loaded.Left.Reason}, nil
		}
		if dismissed, err := f.review(reason{loaded.Code, loaded.Reason}); err != nil || dismissed != (reason{}) {
			return nil, dismissed, err
		}
	}
}

// eventObject returns the part of an effect key that identifies the event: <provider>:<mode>[:<account>]:<event>.
func (in EventInput) eventObject() string {
	return in.Provider + ":" + in.Mode + ":" + workflowid.Bound(in.name())
}
