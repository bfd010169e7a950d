package plan

import (
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
)

// Deliveries returns the deliveries of an event to destinations. object identifies the event.
func Deliveries(object string, destinations, undecided []string) (steps []*Step) {
	for _, name := range destinations {
		s := RelayEvent.Step(object+":"+name,
			activities.Delivery{Destination: name, Undecided: slices.Contains(undecided, name)})
		s.Sink = SinkDestinations + ":" + name
		steps = append(steps, s)
	}
	return steps
}

// Begun returns the destinations of an event for the preview of a parked run. A run selects its destinations once, so a
// change of the configuration removes no delivery that the run has begun.
func Begun(destinations, undecided []string, steps []activities.Step) (_, _ []string) {
	for _, s := range steps {
		if s.Kind != RelayEvent.Name {
			continue
		}
		name := s.Key[strings.LastIndex(s.Key, ":")+1:]
		if !slices.Contains(destinations, name) {
			destinations = append(destinations, name)
		}
		undecided = slices.DeleteFunc(undecided, func(o string) bool { return o == name })
		if s.Undecided {
			undecided = append(undecided, name)
		}
	}
	return destinations, undecided
}

// Relayed adds the destinations of [Begun] to the result of a preview.
func Relayed(r *activities.LoadRelayResult, steps []activities.Step) {
	r.Destinations, r.Undecided = Begun(r.Destinations, r.Undecided, steps)
	if r.Left.Code == activities.CodeNotSelected && len(r.Destinations) > 0 {
		r.Left = activities.Left{}
	}
}
