package workflows

import "github.com/pawlhq/pawl/activities"

// relay delivers an event to the consumers of its source. It is the flow of every event that has no other.
// Consumers are independent of each other: one that is down keeps nothing from the others, and parks the run when its
// tries are used up.
//
// A delivery cannot be taken back, so a parked run takes no decision to compensate.
func (f *flow) relay() (EventResult, error) {
	f.irreversible = true
	deliveries, dismissed, err := f.loadRelay()
	if err != nil {
		return EventResult{}, err
	}
	if _, err := f.settle(deliveries...); err != nil {
		return EventResult{}, err
	}
	return f.finish(processed, dismissed)
}

// loadRelay reads where the event goes, and parks while that is nowhere. It returns a reason when a person decided that
// it shall not go anywhere.
func (f *flow) loadRelay() (deliveries []*step, dismissed reason, err error) {
	for {
		var loaded activities.LoadRelayResult
		if err := f.execute(attempt{
			name: "load", activity: consumers.LoadRelay, input: activities.LoadRelayInput{Ref: f.in.Ref},
		}, &loaded); err != nil {
			return nil, reason{}, err
		}
		f.settings = loaded.Sinks
		if loaded.Code == "" {
			return f.deliveries(loaded.Consumers), reason{}, nil
		}
		if dismissed, err := f.review(reason{loaded.Code, loaded.Reason}); err != nil || dismissed != (reason{}) {
			return nil, dismissed, err
		}
	}
}

// eventObject names the event in keys: <provider>:<mode>[:<account>]:<event>.
func (in EventInput) eventObject() string {
	return in.Provider + ":" + in.Mode + ":" + bounded(in.name())
}
