package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// parkedStatuses lists the receipt statuses of events with a parked run.
var parkedStatuses = []string{string(receipt.Dead), string(receipt.NeedsReview)}

// checkParked refuses a decision that the parked run does not accept, according to the receipt.
func checkParked(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
	switch s := situationOf(d.Operator, r); s {
	case parked:
	case stuck: // if a repaired worker has replaced the old one, the run accepts decisions again
		run, err := describe(ctx, d, r.WorkflowID)
		if err != nil {
			return nil, err
		}
		if run.GetPendingWorkflowTask().GetAttempt() >= stuckAfter {
			return nil, refuseEvent(d, r, "has a run with a failing workflow task: the log of the workers contains the cause")
		}
	default:
		return nil, refuseEvent(d, r, "%s", s.words(r, d.Verb+" is for a run that waits for a decision"))
	}
	after := map[string]any{"status": receipt.Processing}
	c := changeOf(r, after)
	if r.Waits == nil {
		return c, nil
	}
	if !slices.Contains(r.Waits.Decisions, d.Verb) {
		return nil, refuseEvent(d, r, "is %s, and its run does not accept %s in this state", statusOf(r), d.Verb)
	}
	about, err := workflows.CheckDecision(r.Waits.Effects, d.Verb, inputOfUpdate(d, r))
	if err != nil {
		return nil, refuseEvent(d, r, "is parked, and %s", messageOf(err))
	}
	open := r.Waits.Keys()
	c.Before["effects_open"] = open
	for name, value := range map[string]string{"effect": d.Effect, "reference": d.Reference} {
		if value != "" {
			after[name] = value
		}
	}
	if len(about) > 0 {
		after["effects"] = about
	}
	var late string
	c.Do = func(ctx context.Context, tx pgx.Tx) (err error) {
		if late, err = activities.DoneMeanwhileIn(ctx, tx, r.EventID, open); err == nil && late != "" {
			err = refuseEvent(d, r, "is parked, and %s", late)
		}
		return err
	}
	c.Refused = func(ctx context.Context) {
		if late != "" { // wake the run, so that it notices that another run has completed its effects, and ends
			_ = d.Operator.Temporal.SignalWorkflow(ctx, r.WorkflowID, "", activities.SignalSettled, nil)
		}
	}
	return c, nil
}

// inputOfUpdate returns the input of the update. A preview fills in the fields that the person would type.
func inputOfUpdate(d *decide.Decision, r *timeline.Receipt) workflows.DecisionInput {
	in := workflows.DecisionInput{Actor: d.Actor, Reason: d.Reason, Effect: d.Effect, Reference: d.Reference,
		Confirm: d.Confirm}
	if !d.DryRun {
		return in
	}
	if key, ok := Doubtful(r, d.Effect); ok && d.Verb == workflows.UpdateResend {
		in.Confirm = cmp.Or(in.Confirm, key)
	}
	if d.Verb == workflows.UpdateDone {
		in.Reference = cmp.Or(in.Reference, "a preview")
	}
	return in
}

// decideTimeout is the timeout of the update. A parked run accepts it within milliseconds. decideTimeout is shorter
// than a command's timeout for the database, so that the error names the right cause.
const decideTimeout = 20 * time.Second

// The run marks its receipt as parked shortly before it accepts decisions. If a run is not ready yet, the update is
// therefore repeated every beginPoll, for at most beginWithin.
const (
	beginPoll   = 200 * time.Millisecond
	beginWithin = 5 * time.Second
)

// tellRun sends a recorded decision to the parked run as an update. The ID of the update is the ID of the request, so
// that a repeated call has no effect. tellRun waits until the run has processed the update. If the run rejects it, the
// refusal is recorded, and a repeated request returns at once.
func tellRun(ctx context.Context, d *decide.Decision, r *timeline.Receipt, rec decide.Recorded) error {
	refusal := rec.Key + "/refused"
	if rec.Repeated {
		if known, err := d.Operator.Audit.Recorded(ctx, refusal); err != nil || known != nil {
			return err
		}
	}
	err := update(ctx, d, r)
	if refused, ok := errors.AsType[*decide.RefusedError](err); ok {
		return errors.Join(d.Operator.Audit.Append(ctx, audit.Action{
			RequestID: refusal, Actor: "pawl", Action: "refuse-" + d.Verb, Target: r.EventID, Reason: refused.Reason,
			Before: map[string]any{"receipt": r.ID, "request": d.Request},
		}), err)
	}
	return err
}

func update(ctx context.Context, d *decide.Decision, r *timeline.Receipt) error {
	// Without a worker the update gets no response, and the SDK would wait forever.
	asking, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if d.Operator.Unstick != nil {
		_ = d.Operator.Unstick(asking, r.WorkflowID) // if this fails, the update only needs a second attempt
	}
	err := send(asking, d, r)
	until := time.Now().Add(beginWithin)
	for notParked(err) && time.Now().Before(until) && stillParked(asking, d.Operator, r) {
		select {
		case <-asking.Done():
		case <-time.After(beginPoll):
		}
		err = send(asking, d, r)
	}
	var refused *temporal.ApplicationError
	var gone *serviceerror.NotFound
	var failing *serviceerror.WorkflowNotReady
	again := func(why string) error {
		return &decide.RefusedError{Target: d.Target, Verb: d.Verb, Reason: why,
			Try: []decide.Choice{replayChoice(d.Operator, d.Target,
				r)}}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone):
		return again("has a run that has ended in Temporal; pawl updates the event shortly")
	case notParked(err):
		return cameSecond(ctx, d, r)
	case errors.As(err, &refused) && refused.Type() == workflows.ErrTypeInvalidDecision:
		return refuseEvent(d, r, "is parked, and %s", refused.Message())
	case errors.Is(asking.Err(), context.DeadlineExceeded):
		return decide.Faultf(decide.Later, "%s of %s: no response within %s. Check with pawl doctor that a worker runs and that Temporal responds. pawl may still execute the decision: repeat the command with --request-id %s, which does not decide a second time",
			d.Verb, r.WorkflowID, decideTimeout, d.Request)
	case errors.As(err, &failing):
		return again("has a run with a failing workflow task: the log of the workers contains the cause")
	case errors.As(err, &refused):
		return errors.New(refused.Message())
	}
	return fmt.Errorf("%s of %s: %w", d.Verb, r.WorkflowID, err)
}

// send sends the update and waits for its result.
func send(ctx context.Context, d *decide.Decision, r *timeline.Receipt) error {
	handle, err := d.Operator.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.WorkflowID, UpdateID: d.RequestID(), UpdateName: d.Verb, Args: []any{inputOfUpdate(d, r)},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}

// messageOf returns the message with which a run rejected a decision.
func messageOf(err error) string {
	if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return refused.Message()
	}
	return err.Error()
}

// notParked reports whether the run rejected the update because the run waits for no decision.
func notParked(err error) bool {
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && refused.Type() == workflows.ErrTypeNotParked
}

// stillParked reports whether status and reason of the receipt are unchanged.
func stillParked(ctx context.Context, o *decide.Operator, r *timeline.Receipt) bool {
	now, err := Find(ctx, o.DB, r.ID)
	return err == nil && now.Status == r.Status && now.Reason == r.Reason
}

// cameSecond refuses a decision if another decision has reached the run first. If the receipt is still parked, the
// outcome is unknown, and the error asks the caller to repeat the request.
func cameSecond(ctx context.Context, d *decide.Decision, r *timeline.Receipt) error {
	if !stillParked(ctx, d.Operator, r) {
		return came(ctx, d, r, receipt.ErrMoved)
	}
	return decide.Faultf(decide.Later, "%s of %s: the run processes another decision, or is about to park. "+
		"Repeat the command with --request-id %s, which does not decide a second time", d.Verb, r.WorkflowID, d.Request)
}

func flagEffect(otherwise string) decide.Flag {
	return decide.Flag{Name: "effect", Usage: "`key` or kind of one effect (default: " + otherwise + ")",
		Value: func(a *decide.Args) *string { return &a.Effect }}
}
