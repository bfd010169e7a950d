// Package event implements what operators read and decide about events: evidence, choices, retries, reviews, replays,
// payloads and withheld effects. Each verb has its own file.
package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Result is the result of a decision about an event.
type Result struct {
	EventID string `json:"event_id"`
	Receipt string `json:"receipt"`
	// Effects lists the effects that were open before the decision. About lists the effects that the decision
	// affects.
	Effects []string `json:"effects"`
	About   []string `json:"about,omitempty"`
	// WorkflowID and PreviousRun are set for a replay: the workflow ID, and the run ID of the last run.
	WorkflowID  string `json:"workflow_id,omitempty"`
	PreviousRun string `json:"previous_run,omitempty"`
}

// find returns the event of a decision.
func find(ctx context.Context, d *decide.Decision) (*timeline.Receipt, string, error) {
	r, err := Find(ctx, d.Operator.DB, d.Target)
	if err != nil {
		return nil, "", err
	}
	// Printed commands contain the event ID, even if another ID was used to find the event.
	if d.Target != r.ID {
		d.Target = r.EventID
	}
	return r, r.ID, nil
}

// ruleOf returns the rule of a verb about an event. check returns the change of the database. The audit record is
// written first, because a parked run accepts only a recorded decision.
func ruleOf(check func(context.Context, *decide.Decision, *timeline.Receipt) (*decide.Change, error),
	forecast func(context.Context, *decide.Decision, *timeline.Receipt,
		*decide.Preview) error) decide.Rule[*timeline.Receipt,
	*Result] {
	return decide.Rule[*timeline.Receipt, *Result]{Find: find, Act: act, Forecast: forecast,
		Check: func(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
			if err := runnable(d, r); err != nil {
				return nil, err
			}
			c, err := check(ctx, d, r)
			if err == nil {
				err = d.Changed(r.UpdatedAt)
			}
			if err != nil {
				return nil, err
			}
			c.Judges = d.JudgesEvent(liveMoney(r), reviewed(r))
			if r.Amount != nil {
				c.Money = map[string]int64{r.Currency: *r.Amount}
			}
			c.Moved = func(ctx context.Context) error {
				now, err := Find(ctx, d.Operator.DB, r.ID)
				if err == nil && now.UpdatedAt.Equal(r.UpdatedAt) {
					return nil
				}
				return came(ctx, d, r, receipt.ErrMoved)
			}
			return c, nil
		},
	}
}

// runnable refuses a decision about an event that pawl never runs.
func runnable(d *decide.Decision, r *timeline.Receipt) error {
	switch situationOf(d.Operator, r) {
	case notEntitled:
		// pawl never runs an event from an untrusted source, because the secret of one endpoint could then forge
		// events of another endpoint.
		return refuseEvent(d, r, "was delivered to source %s, which does not accept it (%s): correct mode or accounts of the source, and let the provider send the event again",
			r.Source, r.Reason)
	case noDestination:
		return refuseEvent(d, r, "has no flow and no destination: %s; to relay it, add %s to the sources of a destination, and its type to their types if it lists any",
			goesNowhere(d.Operator, r), r.Source)
	}
	return nil
}

// liveMoney reports whether an event is about live money. pawl does not parse the amount of an event that it only
// relays.
func liveMoney(r *timeline.Receipt) bool {
	return r.Mode == decide.Live && !decide.InputOf(r).OnlyRelays()
}

// reviewed reports whether a person must review an event, or has rejected it.
func reviewed(r *timeline.Receipt) bool {
	_, review := reviewOf(r)
	return review || r.ReasonCode == receipt.Dismissed
}

// changeOf returns a change that stores the state of the event in the audit record.
func changeOf(r *timeline.Receipt, after map[string]any) *decide.Change {
	return &decide.Change{
		Target: r.EventID, After: after,
		Before: map[string]any{"receipt": r.ID, "status": r.Status, "reason": r.Reason,
			"updated_at": timeText(r.UpdatedAt)},
	}
}

// recordedEvent is the state in the audit record of a decision about an event.
type recordedEvent struct {
	before struct {
		Updated string   `json:"updated_at"`
		Effects []string `json:"effects_open"`
	}
	after struct {
		Status      string   `json:"status"`
		Effects     []string `json:"effects"`
		WorkflowID  string   `json:"workflow_id"`
		PreviousRun string   `json:"previous_run"`
	}
}

// readEvent decodes the audit record, and returns the result of the decision.
func readEvent(r *timeline.Receipt, rec decide.Recorded) (e recordedEvent, res *Result, err error) {
	err = cmp.Or(rec.Read(rec.Before, &e.before), rec.Read(rec.After, &e.after))
	return e, &Result{
		EventID: r.EventID, Receipt: r.ID, Effects: append([]string{}, e.before.Effects...), About: e.after.Effects,
		WorkflowID: e.after.WorkflowID, PreviousRun: e.after.PreviousRun,
	}, err
}

// act returns the message and the result of a decision about an event. If the decision continues a parked run, act
// sends the update to the run. If an earlier call has sent the update, the run ignores it.
func act(ctx context.Context, d *decide.Decision, r *timeline.Receipt, rec decide.Recorded) (string, *Result, error) {
	e, res, err := readEvent(r, rec)
	if err != nil {
		return "", nil, err
	}
	after, to := e.after, relays(d.Operator, r)
	switch {
	case after.Status == string(receipt.Processing) && e.before.Updated == timeText(r.UpdatedAt):
		return "the run continues", res, tellRun(ctx, d, r, rec)
	case rec.Repeated:
		return r.EventID + " is " + r.Status + " now", res, nil
	case after.Status == string(receipt.Ignored):
		return "the event is ignored, and no effect is executed", res, nil
	case after.WorkflowID != "" && r.Status == string(receipt.Compensated):
		return "it will run again; compensated effects stay compensated, and the event ends as compensated", res, nil
	case after.WorkflowID != "" && situationOf(d.Operator, r) == stuck:
		return "its run, which has a failing workflow task, is ended, and the event will run again; effects that are done or skipped are not repeated", res, nil
	case after.WorkflowID != "":
		return "it will run again; effects that are done or skipped are not repeated, and failed effects are retried", res, nil
	case configured(d.Operator, r) != "":
		return "it is received and will be run by flow " + configured(d.Operator, r), res, nil
	case decide.InputOf(r).OnlyRelays() && len(to) == 0:
		return fmt.Sprintf("it is received and will be run; no flow handles %s, and no destination of source %s receives it", r.Type, r.Source), res, nil
	case decide.InputOf(r).OnlyRelays():
		return fmt.Sprintf("it is received; no flow handles %s, so pawl only relays it to %s", r.Type,
			strings.Join(to, ", ")), res, nil
	}
	return "it is received and will be run", res, nil
}

// forecastRun simulates the first run of the event.
func forecastRun(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
	return simulate(ctx, d, r, p, workflows.Asked{In: decide.InputOf(r)})
}

// forecastReplay simulates another run of the event.
func forecastReplay(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
	return simulateReplay(ctx, d, r, p, false)
}

// simulateReplay simulates another run of the event. release is set if it also executes the withheld effects.
func simulateReplay(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview,
	release bool) error {
	asked := workflows.Asked{In: decide.InputOf(r)}
	asked.In.Replay = &workflows.ReplayInput{Request: "preview", Release: release}
	return simulate(ctx, d, r, p, asked)
}

// forecastParked simulates how the event's parked run continues after the decision.
func forecastParked(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
	asked := workflows.Asked{In: decide.InputOf(r), Action: d.Verb, Decision: inputOfUpdate(d, r),
		ReasonCode: r.ReasonCode,
		Reason:     r.Reason}
	asked.In.Due, _ = workflows.DueOf(r.WorkflowID)
	if r.Waits != nil {
		asked.Waits = *r.Waits
	}
	return simulate(ctx, d, r, p, asked)
}

// simulate adds the simulated run to the preview.
func simulate(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview,
	asked workflows.Asked) error {
	outlook, done, err := d.Operator.Outlook(ctx)
	if err != nil {
		return err
	}
	defer done()
	previewed, err := workflows.Preview(ctx, outlook, asked)
	if refused, ok := errors.AsType[*workflows.RefusedError](err); ok {
		return refuseEvent(d, r, "is parked, and %s", refused.Reason)
	}
	if err != nil {
		return fmt.Errorf("preview %s of %s: %w", d.Verb, r.EventID, err)
	}
	p.Previewed = previewed
	p.Count()
	if asked.Action != "" {
		return nil
	}
	paused, err := pause.Now(ctx, d.Operator.DB)
	if found, ok := pause.Find(paused, pause.Source, r.Source); ok { // if the source is paused, the run starts later
		p.WaitsFor = "source " + r.Source + " " + found.Words()
	}
	return err
}

// refuseEvent returns a [decide.RefusedError] with the verbs that the state of the event allows.
func refuseEvent(d *decide.Decision, r *timeline.Receipt, format string, args ...any) error {
	return &decide.RefusedError{Target: d.Target, Verb: d.Verb, Reason: fmt.Sprintf(format, args...),
		Try: Choices(d.Operator, d.Target, r)}
}

// came converts [receipt.ErrMoved] into a refusal, because another decision has changed the event first.
func came(ctx context.Context, d *decide.Decision, r *timeline.Receipt, err error) error {
	if !errors.Is(err, receipt.ErrMoved) {
		return err
	}
	now, err := Find(ctx, d.Operator.DB, r.ID)
	if err != nil {
		return err
	}
	return refuseEvent(d, now, "was %s, and is now %s: another decision was faster", r.Status, now.Status)
}
