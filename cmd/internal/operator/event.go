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

// findEvent finds the event that a decision is about.
func findEvent(ctx context.Context, d *Decision) (*timeline.Receipt, string, error) {
	r, err := FindEvent(ctx, d.o.DB, d.Target)
	if err != nil {
		return nil, "", err
	}
	// Commands that are printed name the event, whatever it was found by.
	if d.Target != r.ID {
		d.Target = r.EventID
	}
	return r, r.ID, nil
}

// eventRule decides about an event. A decision about its parked run is recorded first: the run takes only one that the
// audit trail holds.
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
		// Nobody runs it by an ID: what one endpoint's secret signed would run as another one's event.
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

// forecastEvent follows the run that a decision leads to.
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
	if found, ok := pause.Find(paused, pause.Source, r.Source); ok { // a new run is not started then
		p.WaitsFor = "source " + r.Source + " " + found.Words()
	}
	return err
}

// refuseEvent says that a verb does nothing as an event stands, and lists what does.
func (d *Decision) refuseEvent(r *timeline.Receipt, format string, args ...any) error {
	return &RefusedError{Target: d.Target, Verb: d.Verb, Why: fmt.Sprintf(format, args...),
		Try: d.o.Choices(d.Target, r)}
}

// came returns the error of a change to a receipt: a refusal where another decision came first.
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
