package operator

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

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Evidence is everything about one event, with the next step, the safety of a replay, and the verbs that work.
type Evidence struct {
	timeline.Event
	Next   Next   `json:"next"`
	Replay Replay `json:"replay"`
	// Verdict summarizes the event in one sentence.
	Verdict string   `json:"verdict"`
	Choices []Choice `json:"choices"`
	// PendingDecisions lists the decisions about the event that wait for a second person.
	PendingDecisions []pending.Decision `json:"pending_decisions"`
	// Unbooked is the event's money while no account is known for it: a row of pawl money unclaimed. It is nil if the
	// money is booked.
	Unbooked *billing.Money `json:"unbooked,omitempty"`
}

// Next is the next step that pawl takes without a decision.
type Next struct {
	// At is the time of the step. It is nil if there is no such step or if its time is unknown. Says describes the
	// step.
	At   *time.Time `json:"at"`
	Says string     `json:"says"`
	// Tries lists the effects that Temporal runs or retries at this moment.
	Tries []Try `json:"tries"`
	// Pending lists the effects of the plan that have not started.
	Pending []workflows.PreviewedEffect `json:"pending"`
	// Due lists the scheduled actions that the event has caused.
	Due []timeline.Due `json:"due"`
	// Unknown lists the parts that could not be read, each with the reason. It is empty if all parts were read.
	Unknown string `json:"unknown,omitempty"`
}

// Try is a running or retried effect.
type Try struct {
	Key string `json:"key"`
	// Attempt is the number of the current or next attempt. At is its start. It is null while the attempt runs.
	Attempt int        `json:"attempt"`
	At      *time.Time `json:"at"`
	Paused  bool       `json:"paused,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// Replay reports whether the event can be run again without repeating an effect.
type Replay struct {
	// Safe is "yes", "no", or "not_now" if the current state does not allow a replay.
	Safe string `json:"safe"`
	Says string `json:"says"`
	// Preview is absent if the event cannot be replayed.
	Preview *workflows.Previewed `json:"preview,omitempty"`
}

// temporalPatience is the timeout for Temporal while a person waits for a page or a command.
const temporalPatience = 3 * time.Second

// Examine returns the evidence about the event that id names. It also queries Temporal. If Temporal does not respond in
// time, Next.Unknown lists the missing parts. The error is an error of [FindEvent].
func (o *Operator) Examine(ctx context.Context, id string) (*Evidence, error) {
	if o.Remote {
		e, err := remote[Evidence](ctx, o, remoteExamine, remoteInput{ID: id})
		if IsFault(err, Later) {
			return o.withoutWorker().Examine(ctx, id)
		}
		return e, err
	}
	event, err := ShowEvent(ctx, o.DB, id)
	if err != nil {
		return nil, err
	}
	if id != event.Receipt.ID {
		id = event.Receipt.EventID
	}
	e := &Evidence{Event: *event, Choices: append([]Choice{}, o.Choices(id, &event.Receipt)...)}
	if e.Next, err = o.next(ctx, event); err != nil {
		return nil, err
	}
	e.Replay = o.replaySafe(ctx, event)
	if e.PendingDecisions, err = pending.About(ctx, o.DB, event.Receipt.ID); err != nil {
		return nil, err
	}
	for _, p := range e.PendingDecisions {
		e.Choices = append(e.Choices, withdraws(p))
	}
	if err := o.readUnbooked(ctx, e); err != nil {
		return nil, err
	}
	e.Verdict = verdict(e)
	return e, nil
}

// readUnbooked reads whether the money of the event is booked, from the same rows as pawl money unclaimed.
func (o *Operator) readUnbooked(ctx context.Context, e *Evidence) error {
	found, err := billing.New(o.DB).Money(ctx, e.Receipt.Mode, e.Receipt.ObjectID)
	for _, m := range found {
		if m.Unclaimed {
			e.Unbooked = &m
			e.Choices = append(e.Choices, choose(VerbClaim, m.ID, "", "assigns its money to an account, and books it"))
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

// next returns the next automatic step of the event.
func (o *Operator) next(ctx context.Context, e *timeline.Event) (n Next, err error) {
	n = Next{Tries: []Try{}, Pending: []workflows.PreviewedEffect{}}
	r := e.Receipt
	if n.Due, err = timeline.DueOf(ctx, o.DB, r); err != nil {
		return n, err
	}
	if open(r) {
		pending, err := o.outlined(ctx, e)
		n.Pending = append(n.Pending, pending...)
		if err != nil {
			n.Unknown = "what is not begun: " + err.Error()
		}
	}
	switch {
	case r.Status == string(receipt.Received):
		n.At, n.Says = r.StartAt, "a running ingress starts its run"
	case r.Status == string(receipt.Processing), r.Status == string(receipt.Retrying):
		o.ask(ctx, &n, r)
	case waitsForPerson(r):
		n.Says = "nothing by itself: it waits for you"
	case len(n.Due) > 0:
		n.At, n.Says = &n.Due[0].At, n.Due[0].String()
	default:
		n.Says = "nothing: it is at rest"
	}
	return n, nil
}

// outlined returns the effects of the run's plan that have not started.
func (o *Operator) outlined(ctx context.Context, e *timeline.Event) (pending []workflows.PreviewedEffect, err error) {
	outlook, done, err := o.Outlook(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	in := inputOf(&e.Receipt)
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

// ask adds to n the state of the run in Temporal.
func (o *Operator) ask(ctx context.Context, n *Next, r timeline.Receipt) {
	n.Says = "its run is at work"
	if r.Status == string(receipt.Retrying) {
		n.Says = "it is tried again by itself"
	}
	switch r.ReasonCode {
	case receipt.SinkOut:
		n.Says = "it goes on by itself when the sink answers again: see pawl sinks"
	case receipt.WaitsForEntry:
		n.Says = "it goes on by itself when the entry that comes first is settled"
	case receipt.Paused:
		n.Says = "it goes on by itself when what is paused is resumed: see pawl sinks"
	}
	ctx, stop := context.WithTimeout(ctx, temporalPatience)
	defer stop()
	found, why := o.describeRun(ctx, r.WorkflowID)
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
			n.At, n.Says = try.At, fmt.Sprintf("%s is tried again, attempt %d", try.Key, try.Attempt)
		}
	}
}

// describeRun returns Temporal's description of the run. It returns nil and the reason if Temporal has no such run or
// cannot be reached.
func (o *Operator) describeRun(ctx context.Context,
	workflowID string) (found *workflowservice.DescribeWorkflowExecutionResponse, why string) {
	switch {
	case workflowID == "":
		return nil, "no run is recorded"
	case o.Temporal == nil:
		return nil, "Temporal cannot be asked: it is not configured"
	}
	found, err := o.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil, "Temporal has no run " + workflowID
	}
	if err != nil {
		return nil, "Temporal cannot be asked: " + firstLine(err)
	}
	return found, ""
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// replaySafe reports whether a replay of the event would repeat an effect.
func (o *Operator) replaySafe(ctx context.Context, e *timeline.Event) Replay {
	r := &e.Receipt
	switch {
	case r.Status == string(receipt.Received):
		return Replay{Safe: "not_now", Says: "not now: it has not run yet"}
	case r.Status == string(receipt.Processing), r.Status == string(receipt.Retrying):
		return Replay{Safe: "not_now", Says: "not while it runs"}
	}
	verb := VerbReplay
	if r.WorkflowID == "" {
		verb = VerbRun
	}
	made, err := o.Preview(ctx, Decision{Verb: verb, Target: r.ID})
	switch {
	case err != nil:
		return Replay{Safe: "not_now", Says: "it cannot be told: " + firstLine(err)}
	case made.Refused != "" && waitsForPerson(*r):
		return Replay{Safe: "not_now", Says: "not now: its run waits for a decision, and goes on with that"}
	case made.Refused != "":
		return Replay{Safe: "not_now", Says: "not as it stands: " + made.Refused}
	}
	return safety(made)
}

// safety derives the answer from the preview of a replay.
func safety(made *Preview) Replay {
	replay := Replay{Safe: "yes", Preview: &made.Previewed}
	var runs, asks []string
	for _, e := range made.Effects {
		switch e.Will {
		case workflows.WillRun, workflows.WillRunLater, workflows.WillRunAndTakeBack:
			runs = append(runs, e.Kind)
		case workflows.WillAsk, workflows.WillRefuse, workflows.WillNotBeDone:
			asks = append(asks, e.Kind)
		}
	}
	stay := made.Counts[workflows.WillStay] + made.Counts[workflows.WasSkipped] + made.Counts[workflows.WasTakenBack]
	stays := fmt.Sprintf("%d effects stay", stay)
	if stay == 1 {
		stays = "1 effect stays"
	}
	switch {
	case len(runs) > 0:
		replay.Safe, replay.Says = "no", "it would do what is not done: "+strings.Join(runs, ", ")+"; "+stays
	case len(asks) > 0:
		replay.Says = "yes: nothing would be done again; it would park and ask about " + strings.Join(asks, ", ") +
			"; " + stays
	default:
		replay.Says = "yes: nothing would be done again, " + stays
	}
	if made.Asks {
		replay.Safe, replay.Says = "no",
			replay.Says+"; Stripe would be asked first, and what follows may change with its answer"
	}
	return replay
}

// verdict summarizes the state of an event in one sentence.
func verdict(e *Evidence) string {
	r := e.Receipt
	var done, undone, doubtful, skipped []string
	for _, f := range e.Effects {
		switch f.State {
		case "done":
			done = append(done, f.Kind)
		case "skipped":
			skipped = append(skipped, f.Kind)
		case "uncertain":
			doubtful = append(doubtful, f.Kind)
		case "failed", "claimed":
			undone = append(undone, f.Kind)
		}
	}
	for _, f := range e.Next.Pending {
		undone = append(undone, f.Kind)
	}
	var text string
	switch receipt.Status(r.Status) {
	case receipt.Received:
		text = "It is kept and has not run yet"
	case receipt.Processing:
		text = "It is being worked on"
	case receipt.Retrying:
		text = "It goes on by itself: " + cmp.Or(r.Reason, e.Next.Says)
	case receipt.NeedsReview, receipt.Dead:
		text = "It waits for you: " + cmp.Or(r.Reason, r.LastError, r.Status)
	case receipt.Processed:
		text = "It is done" + because(r.Open())
		if e.Unbooked != nil {
			text += "; its money is not booked: " + e.Unbooked.Why()
		}
	case receipt.Compensated:
		text = "It was taken back" + because(strings.TrimPrefix(r.Reason, r.Status+": "))
	case receipt.Ignored:
		text = "Nothing was done about it" + because(r.Reason)
	default:
		text = "It is " + r.Status
	}
	for _, part := range []struct {
		kinds []string
		is    string
	}{{done, "done"}, {undone, "not done"}, {doubtful, "may have happened"}, {skipped, "skipped"}} {
		if len(part.kinds) > 0 && (part.is != "done" || open(r) || len(skipped) > 0) {
			slices.Sort(part.kinds)
			text += "; " + part.is + ": " + strings.Join(slices.Compact(part.kinds), ", ")
		}
	}
	if len(e.Undelivered) > 0 {
		text += "; " + undelivered(e.Undelivered)
	}
	for _, p := range e.PendingDecisions {
		text += "; " + p.Verb + ", which " + p.AskedBy + " has asked for, waits for a second person"
	}
	return strings.TrimRight(text, ".") + "."
}

// undelivered lists the types of the published events that a subscriber has not received, and the oldest time.
func undelivered(list []timeline.Undelivered) string {
	oldest := list[0]
	types := make([]string, len(list))
	for i, u := range list {
		types[i] = u.Type
		if u.Since.Before(oldest.Since) {
			oldest = u
		}
	}
	slices.Sort(types)
	to := cmp.Or(oldest.OnlyTo, "every subscriber")
	if name, why, found := strings.Cut(strings.TrimPrefix(oldest.Error, "subscriber "), ": "); found {
		return fmt.Sprintf("not yet delivered to %s since %s: %s (%s)", name, oldest.Since.UTC().Format(time.RFC3339),
			strings.Join(slices.Compact(types), ", "), why)
	}
	return fmt.Sprintf("not yet delivered to %s since %s: %s", to, oldest.Since.UTC().Format(time.RFC3339),
		strings.Join(slices.Compact(types), ", "))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
