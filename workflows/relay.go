package workflows

import (
	"cmp"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/workflows/workflowid"
)

// relay delivers an event to the destinations of its source. It is the flow of every event without a flow of its own.
// If one destination is down, the others still get the event, and the run parks when the retries for that destination
// end.
//
// A delivery cannot be compensated, so a parked run does not accept compensate.
func (f *flow) relay() (EventResult, error) {
	f.irreversible = true
	deliveries, dismissed, err := f.loadRelay()
	if err != nil {
		return EventResult{}, err
	}
	if f.withholds {
		if err := f.withhold(deliveries, ""); err != nil {
			return EventResult{}, err
		}
		return f.finish(processed, cmp.Or(dismissed, withheld()))
	}
	if _, err := f.settle(deliveries...); err != nil {
		return EventResult{}, err
	}
	return f.finish(processed, dismissed)
}

// loadRelay reads the destinations of the event. If the event has no destination, it parks the run. It returns a reason
// if a person dismissed the event.
func (f *flow) loadRelay() (deliveries []*step, dismissed reason, err error) {
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
			return f.deliveries(loaded.Destinations), reason{}, nil
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
