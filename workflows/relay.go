package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// Relay delivers an event to the consumers of its source. It is the flow of every event for which no
// other is written. Consumers are independent of each other: one that is down keeps nothing from the
// others, and parks the run when its tries are used up.
//
// A delivery cannot be taken back, so a parked run takes the decisions retry and skip only.
func Relay(ctx workflow.Context, in EventInput) (EventResult, error) {
	f, err := newFlow(ctx, "Relay", in)
	if err != nil {
		return EventResult{}, err
	}
	f.irreversible = true
	w := &relay{flow: f}
	return w.run()
}

type relay struct {
	*flow
	consumers []string
}

func (w *relay) run() (EventResult, error) {
	dismissed, err := w.load()
	if err != nil {
		return EventResult{}, err
	}
	if dismissed != "" {
		return w.finish(processed, dismissed)
	}
	if _, err := w.settle(w.deliveries()...); err != nil {
		return EventResult{}, err
	}
	return w.finish(processed, "")
}

// load reads where the event goes, and parks while that is nowhere. It returns a reason when a person
// decided that it shall not go anywhere.
func (w *relay) load() (dismissed string, err error) {
	for {
		var loaded activities.LoadRelayResult
		if err := w.execute(w.ctx, attempt{
			name: "load", activity: consumers.LoadRelay, input: activities.LoadRelayInput{ReceiptID: w.in.ReceiptID},
		}, &loaded); err != nil {
			return "", err
		}
		w.consumers, w.settings = loaded.Consumers, loaded.Effects
		if loaded.Review == "" {
			return "", nil
		}
		if dismissed, err := w.review(loaded.Review); err != nil || dismissed != "" {
			return dismissed, err
		}
	}
}

func (w *relay) deliveries() []*step {
	var steps []*step
	event := w.in.nameUnder(workflow.GetInfo(w.ctx).WorkflowExecution.ID)
	for _, name := range w.consumers {
		steps = append(steps, &step{
			kind: "relay", settings: "relay:" + name, key: w.in.relayKey(event, name),
			activity: consumers.RelayEvent,
			input:    func(c effect.Call) any { return activities.RelayEventInput{Effect: c, Consumer: name} },
		})
	}
	return steps
}

// relayKey names a delivery: relay:<provider>:<mode>[:<account>]:<event>:<consumer>. It names the event
// and not the provider's object: two events about one object are two messages.
func (in EventInput) relayKey(event, consumer string) string {
	return "relay:" + in.Provider + ":" + in.Mode + ":" + event + ":" + consumer
}
