package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// EventResult is the result of a decision about an event.
type EventResult struct {
	EventID string `json:"event_id"`
	Receipt string `json:"receipt"`
	// Effects lists the effects that were open before the decision. About lists the effects that the decision is about.
	Effects []string `json:"effects"`
	About   []string `json:"about,omitempty"`
	// WorkflowID and PreviousRun are set for a replay: the workflow ID, and the run ID of the last run.
	WorkflowID  string `json:"workflow_id,omitempty"`
	PreviousRun string `json:"previous_run,omitempty"`
}

// findEvent returns the event of a decision.
func findEvent(ctx context.Context, d *Decision) (*timeline.Receipt, string, error) {
	r, err := FindEvent(ctx, d.o.DB, d.Target)
	if err != nil {
		return nil, "", err
	}
	// Printed commands contain the event ID, also if the event was found by another ID.
	if d.Target != r.ID {
		d.Target = r.EventID
	}
	return r, r.ID, nil
}

// eventRule decides about an event. The audit record is written first, because a parked run accepts only a recorded
// decision.
var eventRule = rule[*timeline.Receipt, *EventResult]{find: findEvent, check: checkEvent, answer: answerEvent,
	forecast: forecastEvent}

func checkEvent(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
	c, err := changeEvent(ctx, d, r)
	if err == nil {
		err = d.changed(r.UpdatedAt)
	}
	if err != nil {
		return nil, err
	}
	c.judges = judgesEvent(d.Verb, liveMoney(r), reviewed(r))
	if r.Amount != nil {
		c.money = map[string]int64{r.Currency: *r.Amount}
	}
	return c, nil
}

func changeEvent(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
	switch situationOf(d.o, r) {
	case notEntitled:
		// An event of an untrusted source is never run, because the secret of one endpoint could then forge events of
		// another one.
		return nil, d.refuseEvent(r, "was signed for source %s, which may not speak for it (%s): mend the source's mode or accounts where they are wrong, and have the provider send it again",
			r.Source, r.Reason)
	case noConsumer:
		return nil, d.refuseEvent(r, "cannot be processed: %s; set sources.%s.relay to have it delivered",
			d.o.goesNowhere(r), r.Source)
	}
	switch before := askedBeforeRun(r); {
	case d.Verb == VerbCancel:
		return checkCancel(d, r)
	case d.Verb == VerbReplay:
		return checkReplay(ctx, d, r)
	case d.Verb == VerbRun, d.Verb == VerbApprove && before:
		return checkRun(ctx, d, r)
	case d.Verb == VerbReject && before:
		return dismissed(d, r), nil
	}
	return checkParked(ctx, d, r)
}

// eventChange returns a change that stores the state of the event in the audit record.
func eventChange(r *timeline.Receipt, after map[string]any) *change {
	return &change{
		target: r.EventID, after: after,
		before: map[string]any{"receipt": r.ID, "status": r.Status, "reason": r.Reason,
			"updated_at": timeText(r.UpdatedAt)},
	}
}

// answerEvent returns the result of a decision about an event. It sends the update to a parked run, or the cancellation
// to a running one, unless an earlier call has done so.
func answerEvent(ctx context.Context, d *Decision, r *timeline.Receipt, rec recorded) (string, *EventResult, error) {
	var before struct {
		Updated string   `json:"updated_at"`
		Effects []string `json:"effects_open"`
	}
	var after struct {
		Status      string   `json:"status"`
		Effects     []string `json:"effects"`
		WorkflowID  string   `json:"workflow_id"`
		PreviousRun string   `json:"previous_run"`
	}
	if err := cmp.Or(rec.read(rec.Before, &before), rec.read(rec.After, &after)); err != nil {
		return "", nil, err
	}
	res := &EventResult{
		EventID: r.EventID, Receipt: r.ID, Effects: append([]string{}, before.Effects...), About: after.Effects,
		WorkflowID: after.WorkflowID, PreviousRun: after.PreviousRun,
	}
	relays := d.o.Relays[r.Source]
	switch s := situationOf(d.o, r); {
	case d.Verb == VerbCancel && s == working:
		return "its run stops, and parks for a decision", res, d.cancelRun(ctx, r)
	case after.Status == string(receipt.Processing) && before.Updated == timeText(r.UpdatedAt):
		return "the run goes on", res, d.tellRun(ctx, r, rec)
	case rec.repeated:
		return r.EventID + " is " + r.Status + " now", res, nil
	case after.Status == string(receipt.Ignored):
		return "it is ignored, and nothing is done", res, nil
	case after.WorkflowID != "" && r.Status == string(receipt.Compensated):
		return "it will run again; what was taken back stays so, and it ends as compensated", res, nil
	case after.WorkflowID != "" && s == stuck:
		return "its run, which no worker can go on with, is ended, and it will run again; what the ledger has as done or skipped stays so", res, nil
	case after.WorkflowID != "":
		return "it will run again; what the ledger has as done or skipped stays so, and what had failed is tried again", res, nil
	case inputOf(r).OnlyRelays() && len(relays) == 0:
		return fmt.Sprintf("it is received and will be run; no flow is written for %s, and source %s relays to nobody: it will park", r.Type, r.Source), res, nil
	case inputOf(r).OnlyRelays():
		return fmt.Sprintf("it is received; no flow is written for %s, so it is delivered to %s and nothing else", r.Type, strings.Join(relays, ", ")), res, nil
	}
	return "it is received and will be run", res, nil
}

// forecastEvent simulates the run that follows the decision.
func forecastEvent(ctx context.Context, d *Decision, r *timeline.Receipt, p *Preview) error {
	asked := workflows.Asked{In: inputOf(r)}
	switch before := askedBeforeRun(r); {
	case d.Verb == VerbCancel:
		return nil
	case d.Verb == VerbReject && before:
		p.Outcome, p.Reason = string(receipt.Ignored), receipt.Dismissed
		return nil
	case d.Verb == VerbReplay, d.Verb == VerbRelease, d.Verb == VerbRun && situationOf(d.o, r) == closed:
		asked.In.Replay = &workflows.ReplayInput{Request: "preview", Release: d.Verb == VerbRelease}
	case d.Verb != VerbRun && !before:
		asked.Action, asked.Decision, asked.ReasonCode, asked.Reason = d.Verb, d.input(r), r.ReasonCode, r.Reason
		asked.In.Due, _ = workflows.DueOf(r.WorkflowID)
		if r.Waits != nil {
			asked.Waits = *r.Waits
		}
	}
	outlook, done, err := d.o.Outlook(ctx)
	if err != nil {
		return err
	}
	defer done()
	previewed, err := workflows.Preview(ctx, outlook, asked)
	if refused, ok := errors.AsType[*workflows.RefusedError](err); ok {
		return d.refuseEvent(r, "is parked, and %s", refused.Reason)
	}
	if err != nil {
		return fmt.Errorf("preview %s of %s: %w", d.Verb, r.EventID, err)
	}
	p.Previewed = previewed
	p.count()
	if asked.Action != "" {
		return nil
	}
	paused, err := pause.Now(ctx, d.o.DB)
	if found, ok := pause.Find(paused, pause.Source, r.Source); ok { // the run of a paused source starts later
		p.WaitsFor = "source " + r.Source + " " + found.Words()
	}
	return err
}

// refuseEvent returns a [RefusedError] with the verbs that the state of the event allows.
func (d *Decision) refuseEvent(r *timeline.Receipt, format string, args ...any) error {
	return &RefusedError{Target: d.Target, Verb: d.Verb, Why: fmt.Sprintf(format, args...),
		Try: d.o.Choices(d.Target, r)}
}

// came converts [receipt.ErrMoved] into a refusal: another decision changed the event first.
func (d *Decision) came(ctx context.Context, r *timeline.Receipt, err error) error {
	if !errors.Is(err, receipt.ErrMoved) {
		return err
	}
	now, err := FindEvent(ctx, d.o.DB, r.ID)
	if err != nil {
		return err
	}
	return d.refuseEvent(now, "was %s, and is %s by now: another decision came first", r.Status, now.Status)
}
