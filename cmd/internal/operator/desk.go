package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// The verbs of an operator on one event. Those of [workflows.Decisions] are decisions about its parked run; approve and
// reject also answer what was asked before any run.
const (
	VerbRun        = "run"
	VerbReplay     = "replay"
	VerbRetry      = workflows.UpdateRetry
	VerbSkip       = workflows.UpdateSkip
	VerbCompensate = workflows.UpdateCompensate
	VerbDone       = workflows.UpdateDone
	VerbResend     = workflows.UpdateResend
	VerbApprove    = workflows.UpdateApprove
	VerbReject     = workflows.UpdateReject
)

// Verbs lists all verbs.
func Verbs() []string { return append(workflows.Decisions(), VerbRun, VerbReplay) }

// Temporal is what verbs need of Temporal; a client.Client.
type Temporal interface {
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// Desk is where an operator acts from: what the verbs need. DB, Temporal and Audit are required.
type Desk struct {
	DB       timeline.DB
	Temporal Temporal
	Audit    *audit.Store
	// Outlook begins a preview of a run; done ends it. Previews need it.
	Outlook func(context.Context) (outlook workflows.Outlook, done func(), err error)
	// Relays lists the consumers of each source that relays its events.
	Relays map[string][]string
	// Unstick has a run's next task go to any worker, with the run's whole history; see [Unstick]. nil leaves it out.
	Unstick func(ctx context.Context, workflowID string) error
}

// Unstick returns a [Desk]'s. Temporal sends the tasks of a run to the worker that had it in memory, and only what is new,
// also when that worker has long let go of it, since many others have parked after it. An update's task that comes so
// fails, for want of its own events, and is done at the second try (temporalio/temporal#7741): a decision takes longer
// then, and a task has failed for which nobody can do anything.
func Unstick(c client.Client, namespace string) func(ctx context.Context, workflowID string) error {
	return func(ctx context.Context, workflowID string) error {
		_, err := c.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
			Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
		})
		return err
	}
}

// Ask is what somebody wants done about an event.
type Ask struct {
	// Verb is one of [Verbs].
	Verb string
	// ID names the event, as [FindEvent] takes it.
	ID string
	// Who asks, and Why: both are required, and stand in the audit trail.
	Who, Why string
	// RequestID makes the call safe to repeat: the same ID about the same event is one decision, and the second call gets
	// what the first one came to, also after the run has gone on. "" has one made up. 1 to 100 printable ASCII characters.
	RequestID string
	// Effect, Reference and Confirm are those of [workflows.DecisionInput].
	Effect, Reference, Confirm string
}

// Answer is what came of an [Ask].
type Answer struct {
	Action    string `json:"action"`
	EventID   string `json:"event_id"`
	Receipt   string `json:"receipt"`
	RequestID string `json:"request_id"`
	// Effects are the keys that were not done when it was decided, and About those of them that it is about.
	Effects []string `json:"effects"`
	About   []string `json:"about,omitempty"`
	// WorkflowID and PreviousRun are set for a replay: where it runs, and after which run.
	WorkflowID  string `json:"workflow_id,omitempty"`
	PreviousRun string `json:"previous_run,omitempty"`
	// Says what comes of it, in one sentence.
	Says string `json:"says"`
	// Repeated is set where the request was decided before: nothing was done now.
	Repeated bool `json:"repeated,omitempty"`
}

// RefusedError says that a verb does nothing about an event as it stands, and what does. Nothing was changed, and nothing
// is in the audit trail.
type RefusedError struct {
	// EventID is the event's name as it was asked for.
	EventID, Verb string
	// Why it is refused, in one clause.
	Why string
	// Try are the choices that work as the event stands now; none where pawl has nothing to decide about it.
	Try []Choice
}

func (e *RefusedError) Error() string {
	text := e.EventID + " " + e.Why
	for i, c := range e.Try {
		if i == 0 {
			text += "\nwhat can be done:"
		}
		text += "\n  " + c.Line() + "  # " + c.Does
	}
	return text
}

// NotEntitledError means that an event came through a source that may not speak for it. Nobody runs it by an ID: what one
// endpoint's secret signed would run as another one's event.
type NotEntitledError struct{ ID, Source, Reason string }

func (e *NotEntitledError) Error() string {
	return fmt.Sprintf("%s was signed for source %s, which may not speak for it (%s): mend the source's mode or accounts where they are wrong, and have the provider send it again",
		e.ID, e.Source, e.Reason)
}

// Act does what is asked about one event: it is recorded in the audit trail, with who and why, before anything comes of
// it. A decision about a parked run has then been taken by the run, which goes on by itself; a run or a replay waits for
// the dispatcher of a running ingress.
//
// The error is a [*RefusedError] where the verb does nothing as the event stands, a [*NotEntitledError] for an event whose
// source may not speak for it, and one of [FindEvent]'s. After any other error the request may have been taken or not:
// the same call again, with the same RequestID, finds out and is still one decision.
func (d *Desk) Act(ctx context.Context, ask Ask) (*Answer, error) {
	if err := ask.check(); err != nil {
		return nil, err
	}
	if ask.RequestID == "" {
		ask.RequestID = uuid.NewString()
	}
	r, err := FindEvent(ctx, d.DB, ask.ID)
	if err != nil {
		return nil, err
	}
	if answer, err := d.repeated(ctx, ask, r); answer != nil || err != nil {
		return answer, err
	}
	if err := d.processable(ask, r); err != nil {
		return nil, err
	}
	switch {
	case ask.Verb == VerbReplay:
		return d.replay(ctx, ask, r)
	case ask.Verb == VerbRun, ask.Verb == VerbApprove && askedBeforeRun(r):
		return d.run(ctx, ask, r)
	case ask.Verb == VerbReject && askedBeforeRun(r):
		return d.dismiss(ctx, ask, r)
	}
	return d.decide(ctx, ask, r)
}

// processable refuses every verb on an event of which nothing can come.
func (d *Desk) processable(ask Ask, r *timeline.Receipt) error {
	switch d.standOf(r) {
	case unspoken:
		return &NotEntitledError{ID: ask.ID, Source: r.Source, Reason: r.Reason}
	case undertold:
		return d.refuse(ask, r, "cannot be processed: %s; set sources.%s.relay to have it delivered", d.goesNowhere(r), r.Source)
	}
	return nil
}

func (a Ask) check() error {
	if err := checkRequestID(a.RequestID); err != nil {
		return err
	}
	switch {
	case !slices.Contains(Verbs(), a.Verb):
		return fmt.Errorf("there is no verb %q: use one of %s", a.Verb, strings.Join(Verbs(), ", "))
	case len(a.Who) > 200 || len(a.Why) > 2000 || strings.Contains(a.Who+a.Why, "\x00"):
		return errors.New("who (200 bytes at most) and why (2000) must be text without NUL")
	}
	return accountable(a.Who, a.Why)
}

// checkRequestID refuses what cannot stand for a request. "" stands for a new one.
func checkRequestID(id string) error {
	if len(id) > 100 || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return fmt.Errorf("request ID %.100q: use 1 to 100 printable ASCII characters without spaces", id)
	}
	return nil
}

// accountable refuses what nobody answers for.
func accountable(who, why string) error {
	if strings.TrimSpace(who) == "" || strings.TrimSpace(why) == "" {
		return errors.New("who and why are required: both go into the audit trail")
	}
	return nil
}

func (a Ask) answer(r *timeline.Receipt) *Answer {
	return &Answer{Action: a.Verb, EventID: r.EventID, Receipt: r.ID, RequestID: a.RequestID, Effects: []string{}}
}

// refuse says that the verb does nothing, as the receipt stands.
func (d *Desk) refuse(ask Ask, r *timeline.Receipt, format string, args ...any) error {
	return &RefusedError{EventID: ask.ID, Verb: ask.Verb, Why: fmt.Sprintf(format, args...), Try: d.choices(ask.ID, r)}
}
