package workflows

import (
	"cmp"

	"github.com/pawlhq/pawl/activities"
)

// relay delivers an event to the consumers of its source. It is the flow of every event without a flow of its own.
// Consumers are independent: if one is down, the others still get the event, and the run parks when the retries of
// that consumer end.
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

// loadRelay reads the consumers of the event and parks while the list is empty. It returns a reason if a person
// dismissed the event.
func (f *flow) loadRelay() (deliveries []*step, dismissed reason, err error) {
	for {
		var loaded activities.LoadRelayResult
		if err := f.execute(attempt{
			name: "load", activity: consumers.LoadRelay, input: activities.LoadRelayInput{Ref: f.in.Ref},
		}, &loaded); err != nil {
			return nil, reason{}, err
		}
		f.settings = loaded.Sinks
		f.beforeEffects(loaded.Withhold)
		if loaded.Code == "" {
			return f.deliveries(loaded.Consumers), reason{}, nil
		}
		if dismissed, err := f.review(reason{loaded.Code, loaded.Reason}); err != nil || dismissed != (reason{}) {
			return nil, dismissed, err
		}
	}
}

// eventObject returns the event's part of a key: <provider>:<mode>[:<account>]:<event>.
func (in EventInput) eventObject() string {
	return in.Provider + ":" + in.Mode + ":" + bounded(in.name())
}
