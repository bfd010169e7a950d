package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/label"
	"github.com/pawlhq/pawl/cmd/internal/operator/money"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Evidence is all information about one event, including the next step, the safety of a replay, and the verbs that
// work.
type Evidence struct {
	timeline.Event
	// Subject names the customer, the invoice and the amount of the event.
	Subject timeline.Subject `json:"subject"`
	// Attempts lists the attempts of the event to execute its effects, oldest first.
	Attempts []timeline.Attempt `json:"attempts"`
	Next     Next               `json:"next"`
	Replay   ReplaySafety       `json:"replay"`
	// Verdict summarizes the event in a few sentences.
	Verdict string          `json:"verdict"`
	Choices []decide.Choice `json:"choices"`
	// PendingDecisions lists the decisions about the event that wait for a second person.
	PendingDecisions []pending.Decision `json:"pending_decisions"`
	// Unbooked is the event's money if its account is unknown: a row of `pawl payments unassigned`. It is nil if the
	// money is booked.
	Unbooked *billing.Money `json:"unbooked,omitempty"`
	// UnmappedPrices lists the prices without a plan in the order that the event is about.
	UnmappedPrices []account.UnmappedPrice `json:"unmapped_prices,omitempty"`
}

// Next is the next step that pawl takes without a decision.
type Next struct {
	// At is the time of the step. It is nil if there is no such step or if its time is unknown. Message describes the
	// step.
	At      *time.Time `json:"due_at"`
	Message string     `json:"message"`
	// Tries lists the effects that Temporal is running or retrying.
	Tries []Try `json:"tries"`
	// Pending lists the effects of the plan that have not started.
	Pending []workflows.PreviewedEffect `json:"pending"`
	// Due lists the scheduled actions that the event has caused.
	Due []timeline.Due `json:"due"`
	// Unknown lists the parts that could not be read, each with the reason. It is empty if all parts were read.
	Unknown string `json:"unknown,omitempty"`
}

// Try is an effect that is running or will be retried.
type Try struct {
	Key string `json:"key"`
	// Attempt is the number of the current or next attempt. At is when the attempt starts. It is null while the
	// attempt is running.
	Attempt int        `json:"attempt"`
	At      *time.Time `json:"next_attempt_at"`
	Paused  bool       `json:"paused,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// ReplaySafety reports whether the event can be run again without repeating an effect.
type ReplaySafety struct {
	// Safe is "yes", "no", or "not_now" if the current state does not allow a replay.
	Safe    string `json:"safe"`
	Message string `json:"message"`
	// Preview is absent if the event cannot be replayed.
	Preview *workflows.Previewed `json:"preview,omitempty"`
}

// temporalPatience is the timeout for Temporal while a person waits for a page or a command.
const temporalPatience = 3 * time.Second

// Examine returns all information about the event that id identifies. It also queries Temporal. If Temporal does not
// respond in time, Next.Unknown lists the missing parts. The error is an error of [Find].
func Examine(ctx context.Context, o *decide.Operator, id string) (*Evidence, error) {
	if o.Remote {
		e, err := decide.CallWorker[Evidence](ctx, o, ExamineCall.Name, ExamineCall.Within, id)
		if decide.IsFault(err, decide.Later) {
			return examine(ctx, o.WithoutWorker(), id)
		}
		return e, err
	}
	return examine(ctx, o, id)
}

// examine is [Examine] without the use of a worker.
func examine(ctx context.Context, o *decide.Operator, id string) (*Evidence, error) {
	event, err := Show(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	if id != event.Receipt.ID {
		id = event.Receipt.EventID
	}
	e := &Evidence{Event: *event, Choices: append([]decide.Choice{}, Choices(o, id, &event.Receipt)...)}
	if event.Receipt.ReasonCode == activities.CodeAccountNotMapped {
		e.Choices = mappingChoices(o, &event.Receipt, e.Choices)
	}
	if e.Subject, err = timeline.SubjectOf(ctx, o.DB, event.Receipt.ID); err != nil {
		return nil, err
	}
	if e.Attempts, err = timeline.AttemptsOf(ctx, o.DB, event.Receipt.ID); err != nil {
		return nil, err
	}
	if e.Next, err = nextStep(ctx, o, event); err != nil {
		return nil, err
	}
	e.Replay = replaySafe(ctx, o, event)
	if e.PendingDecisions, err = pending.About(ctx, o.DB, event.Receipt.ID); err != nil {
		return nil, err
	}
	for _, p := range e.PendingDecisions {
		e.Choices = append(e.Choices, decide.WithdrawChoice(p))
	}
	if err := readUnbooked(ctx, o, e); err != nil {
		return nil, err
	}
	if e.UnmappedPrices, err = account.UnmappedPrices(ctx, o.DB, event.Receipt.Mode, event.Receipt.ID); err != nil {
		return nil, err
	}
	e.Verdict = verdict(e)
	return e, nil
}

// pageWithin is the timeout of a console for the worker's response. It is short, because the console can show an
// event's page without it.
const pageWithin = 4 * time.Second

// ExamineCall is the call by which a console executes [Examine] on a worker.
var ExamineCall = decide.NewCall("examine", pageWithin, func(ctx context.Context, o *decide.Operator,
	id string) (*Evidence, error) {
	return examine(ctx, o, id)
})

// Omitted implements [decide.Omitting].
func (e *Evidence) Omitted() []any { return decide.OmittedDecisions(e.Choices) }

// readUnbooked reads whether the money of the event is booked, from the same rows as `pawl payments unassigned`.
func readUnbooked(ctx context.Context, o *decide.Operator, e *Evidence) error {
	found, err := billing.New(o.DB).Money(ctx, e.Receipt.Mode, e.Receipt.ObjectID)
	for _, m := range found {
		if m.Unassigned {
			e.Unbooked = &m
			does := "assigns its money to an account, and books it"
			if e.Parked() && e.Receipt.ReasonCode == money.ReviewUnknown {
				does = "assigns its money to an account, approves the review, and books it"
			}
			e.Choices = append(e.Choices, decide.Choose(&money.Assign, m.ID, "", does))
		}
	}
	return err
}

// Parked reports whether the event waits for a person.
func (e *Evidence) Parked() bool { return waitsForPerson(e.Receipt) }

// open reports whether the event is not in a final status yet.
func open(r timeline.Receipt) bool {
	return !slices.Contains([]string{string(receipt.Processed), string(receipt.Compensated), string(receipt.Ignored)},
		r.Status)
}

// nextStep returns the next automatic step of the event.
func nextStep(ctx context.Context, o *decide.Operator, e *timeline.Event) (n Next, err error) {
	n = Next{Tries: []Try{}, Pending: []workflows.PreviewedEffect{}}
	r := e.Receipt
	if n.Due, err = timeline.DueOf(ctx, o.DB, r); err != nil {
		return n, err
	}
	if open(r) {
		pending, err := outlined(ctx, o, e)
		n.Pending = append(n.Pending, pending...)
		if err != nil {
			n.Unknown = "effects that have not started: " + err.Error()
		}
	}
	switch {
	case r.Status == string(receipt.Received):
		n.At, n.Message = r.StartAt, "a running ingress starts its run"
	case r.Status == string(receipt.Processing), r.Status == string(receipt.Retrying):
		askTemporal(ctx, o, &n, r)
	case waitsForPerson(r):
		n.Message = "nothing before a decision"
	case len(n.Due) > 0:
		n.At, n.Message = &n.Due[0].At, n.Due[0].String()
	default:
		n.Message = "nothing, it is finished"
	}
	return n, nil
}

// outlined returns the effects of the run's plan that have not started.
func outlined(ctx context.Context, o *decide.Operator, e *timeline.Event) (pending []workflows.PreviewedEffect,
	err error) {
	outlook, done, err := o.Outlook(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	in := decide.InputOf(&e.Receipt)
	in.Due, _ = workflows.DueOf(e.Receipt.WorkflowID)
	outlined, err := workflows.Outlined(ctx, outlook, in)
	for _, f := range outlined.Effects {
		begun := slices.ContainsFunc(e.Effects, func(begun timeline.Effect) bool { return begun.Key == f.Key })
		if !begun && f.Will == workflows.WillWait {
			pending = append(pending, f)
		}
	}
	return pending, err
}

// askTemporal adds the state of the run in Temporal to n.
func askTemporal(ctx context.Context, o *decide.Operator, n *Next, r timeline.Receipt) {
	n.Message = "its run is in progress"
	if r.Status == string(receipt.Retrying) {
		n.Message = "pawl retries it automatically"
	}
	switch r.ReasonCode {
	case receipt.SinkDown:
		n.Message = "it continues automatically when the sink responds again"
	case receipt.WaitingForEntry:
		n.Message = "it continues automatically when the earlier entry is done or skipped"
	case receipt.WaitingForWorkflow:
		n.Message = "it continues automatically when your workflow has ended"
	case receipt.WorkflowStuck:
		n.Message = "it continues automatically when a worker executes your workflow"
	case receipt.Paused:
		n.Message = "it continues automatically when the pause ends"
	}
	ctx, stop := context.WithTimeout(ctx, temporalPatience)
	defer stop()
	found, why := describeRun(ctx, o, r.WorkflowID)
	if why != "" {
		if n.Unknown != "" {
			n.Unknown += "; "
		}
		n.Unknown += "when: " + why
		return
	}
	for _, pending := range found.GetPendingActivities() {
		try := Try{Key: pending.GetActivityId(), Attempt: int(pending.GetAttempt()), Paused: pending.GetPaused(),
			Error: pending.GetLastFailure().GetMessage()}
		if at := pending.GetNextAttemptScheduleTime(); at != nil {
			next := at.AsTime()
			try.At = &next
		}
		n.Tries = append(n.Tries, try)
	}
	slices.SortFunc(n.Tries, func(a, b Try) int { return cmp.Compare(a.Key, b.Key) })
	for _, try := range n.Tries {
		if try.At != nil && (n.At == nil || try.At.Before(*n.At)) {
			kind, _, _ := strings.Cut(try.Key, ":")
			n.At = try.At
			n.Message = fmt.Sprintf("pawl tries %s again, attempt %d", label.StepOf(kind, try.Key).Name, try.Attempt)
		}
	}
}

// describeRun returns Temporal's description of the run. It returns nil and the reason if Temporal has no such run or
// cannot be reached.
func describeRun(ctx context.Context, o *decide.Operator,
	workflowID string) (found *workflowservice.DescribeWorkflowExecutionResponse, why string) {
	switch {
	case workflowID == "":
		return nil, "it has no run"
	case o.Temporal == nil:
		return nil, "Temporal is not configured"
	}
	found, err := o.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil, "Temporal has no run " + workflowID
	}
	if err != nil {
		return nil, "Temporal does not respond: " + firstLine(err)
	}
	return found, ""
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// replaySafe reports whether a replay of the event would repeat an effect.
func replaySafe(ctx context.Context, o *decide.Operator, e *timeline.Event) ReplaySafety {
	r := &e.Receipt
	switch {
	case r.Status == string(receipt.Received):
		return ReplaySafety{Safe: "not_now", Message: "not now: it has not run yet"}
	case r.Status == string(receipt.Processing), r.Status == string(receipt.Retrying):
		return ReplaySafety{Safe: "not_now", Message: "not while it runs"}
	}
	verb := verbReplay
	if r.WorkflowID == "" {
		verb = verbRun
	}
	made, err := o.Preview(ctx, decide.Decision{Verb: verb, Target: r.ID})
	switch {
	case err != nil:
		return ReplaySafety{Safe: "not_now", Message: "unknown: " + firstLine(err)}
	case made.Refused != "" && waitsForPerson(*r):
		return ReplaySafety{Safe: "not_now", Message: "not now: its run waits for a decision"}
	case made.Refused != "":
		return ReplaySafety{Safe: "not_now", Message: "not in this state: " + made.Refused}
	}
	return safety(made)
}

// safety derives the answer from the preview of a replay.
func safety(made *decide.Preview) ReplaySafety {
	replay := ReplaySafety{Safe: "yes", Preview: &made.Previewed}
	var runs, asks []string
	for _, e := range made.Effects {
		switch e.Will {
		case workflows.WillRun, workflows.WillRunLater, workflows.WillRunAndTakeBack:
			runs = append(runs, label.StepOf(e.Kind, e.Key).Name)
		case workflows.WillAsk, workflows.WillRefuse, workflows.WillNotBeDone:
			asks = append(asks, label.StepOf(e.Kind, e.Key).Name)
		}
	}
	stay := made.Counts[workflows.WillStay] + made.Counts[workflows.WasSkipped] + made.Counts[workflows.WasTakenBack]
	stays := fmt.Sprintf("%d steps are done and stay", stay)
	if stay == 1 {
		stays = "1 step is done and stays"
	}
	switch {
	case len(runs) > 0:
		replay.Safe = "no"
		replay.Message = "it would execute the steps that are not done: " + strings.Join(runs, ", ") + "; " + stays
	case len(asks) > 0:
		replay.Message = "yes: no step would be repeated; the run would wait for a decision about " +
			strings.Join(asks, ", ") + "; " + stays
	default:
		replay.Message = "yes: no step would be repeated, " + stays
	}
	if made.Asks {
		replay.Safe, replay.Message = "no",
			replay.Message+"; the run first fetches from Stripe, and the result may change the steps"
	}
	return replay
}
