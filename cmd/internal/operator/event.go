package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

// EventResult is what came of a decision about an event.
type EventResult struct {
	EventID string `json:"event_id"`
	Receipt string `json:"receipt"`
	// Effects are the keys that were not done when it was decided, and About those of them that it is about.
	Effects []string `json:"effects"`
	About   []string `json:"about,omitempty"`
	// WorkflowID and PreviousRun are set for a replay: where it runs, and after which run.
	WorkflowID  string `json:"workflow_id,omitempty"`
	PreviousRun string `json:"previous_run,omitempty"`
}

// eventBefore and eventAfter are what the audit trail holds of a decision about an event.
// [activities.RecordDecisionInput] is compared with them.
type (
	eventBefore struct {
		Updated string   `json:"updated_at"`
		Effects []string `json:"effects_open"`
	}
	eventAfter struct {
		Status      string   `json:"status"`
		Effects     []string `json:"effects"`
		WorkflowID  string   `json:"workflow_id"`
		PreviousRun string   `json:"previous_run"`
	}
)

// findEvent finds the event that a decision is about.
func findEvent(ctx context.Context, o *Operator, d *Decision) (*timeline.Receipt, string, error) {
	r, err := FindEvent(ctx, o.DB, d.Target)
	if err != nil {
		return nil, "", err
	}
	// Commands that are printed name the event, whatever it was found by.
	if d.Target != r.ID {
		d.Target = r.EventID
	}
	return r, r.ID, nil
}

// eventChange is a change of an event.
func eventChange(r *timeline.Receipt, after map[string]any) *change {
	return &change{
		target: r.EventID, after: after,
		before: map[string]any{"receipt": r.ID, "status": r.Status, "reason": r.Reason,
			"updated_at": timeText(r.UpdatedAt)},
	}
}

// answerEvent says what a decision about an event came to. A parked run is told of its decision, and a run at work of
// its end, if that was not done yet.
func answerEvent(ctx context.Context, o *Operator, d *Decision, r *timeline.Receipt, rec recorded) (says string,
	result *EventResult, err error) {
	before, after := new(eventBefore), new(eventAfter)
	if err := rec.read(before, after); err != nil {
		return "", nil, err
	}
	res := &EventResult{
		EventID: r.EventID, Receipt: r.ID, Effects: append([]string{}, before.Effects...), About: after.Effects,
		WorkflowID: after.WorkflowID, PreviousRun: after.PreviousRun,
	}
	switch {
	case d.Verb == VerbCancel && situationOf(o, r) == working:
		return "its run stops, and parks for a decision", res, o.cancelRun(ctx, d, r)
	case after.Status == string(receipt.Processing) && before.Updated == timeText(r.UpdatedAt):
		return "the run goes on", res, o.tellRun(ctx, d, r, rec)
	case rec.repeated:
		return r.EventID + " is " + r.Status + " now", res, nil
	}
	return o.saysOf(d, r, after), res, nil
}

// saysOf says what comes of a decision that is done with its record.
func (o *Operator) saysOf(d *Decision, r *timeline.Receipt, after *eventAfter) string {
	in := inputOf(r)
	relays := o.Relays[r.Source]
	switch {
	case after.Status == string(receipt.Ignored):
		return "it is ignored, and nothing is done"
	case after.WorkflowID != "" && r.Status == string(receipt.Compensated):
		return "it will run again; what was taken back stays so, and it ends as compensated"
	case after.WorkflowID != "" && situationOf(o, r) == stuck:
		return "its run, which no worker can go on with, is ended, and it will run again; what the ledger has as done or skipped stays so"
	case after.WorkflowID != "":
		return "it will run again; what the ledger has as done or skipped stays so, and what had failed is tried again"
	case in.OnlyRelays() && len(relays) == 0:
		return fmt.Sprintf("it is received and will be run; no flow is written for %s, and source %s relays to nobody: it will park", r.Type, r.Source)
	case in.OnlyRelays():
		return fmt.Sprintf("it is received; no flow is written for %s, so it is delivered to %s and nothing else", r.Type, strings.Join(relays, ", "))
	}
	return "it is received and will be run"
}

// refuseEvent says that a verb does nothing as an event stands, and lists what does.
func (o *Operator) refuseEvent(ctx context.Context, d *Decision, r *timeline.Receipt, format string,
	args ...any) error {
	return &RefusedError{Target: d.Target, Verb: d.Verb, Why: fmt.Sprintf(format, args...),
		Try: o.Choices(ctx, d.Target, r)}
}

// processable refuses every verb on an event that nothing can come of.
func (o *Operator) processable(ctx context.Context, d *Decision, r *timeline.Receipt) error {
	switch situationOf(o, r) {
	case notEntitled:
		// Nobody runs it by an ID: what one endpoint's secret signed would run as another one's event.
		return o.refuseEvent(ctx, d, r, "was signed for source %s, which may not speak for it (%s): mend the source's mode or accounts where they are wrong, and have the provider send it again",
			r.Source, r.Reason)
	case noConsumer:
		return o.refuseEvent(ctx, d, r, "cannot be processed: %s; set sources.%s.relay to have it delivered",
			o.goesNowhere(r), r.Source)
	}
	return nil
}

// came returns the error of a change to a receipt: a refusal where another decision came first.
func (o *Operator) came(ctx context.Context, d *Decision, r *timeline.Receipt, err error) error {
	if !errors.Is(err, receipt.ErrMoved) {
		return err
	}
	now, err := FindEvent(ctx, o.DB, r.ID)
	if err != nil {
		return err
	}
	return o.refuseEvent(ctx, d, now, "was %s, and is %s by now: another decision came first", r.Status, now.Status)
}
