package operator

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
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// checkParked refuses a decision that the parked run does not accept, according to the receipt.
func checkParked(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
	switch s := situationOf(d.o, r); s {
	case parked:
	case stuck: // the run accepts decisions again if a repaired worker has replaced the old one
		run, err := d.describe(ctx, r.WorkflowID)
		if err != nil {
			return nil, err
		}
		if run.GetPendingWorkflowTask().GetAttempt() >= stuckAfter {
			return nil, d.refuseEvent(r, "has a run that no worker can go on with: its workflow task fails, and the workers' log says why")
		}
	default:
		return nil, d.refuseEvent(r, "%s", s.words(r, d.Verb+" is for a run that waits for a decision"))
	}
	after := map[string]any{"status": receipt.Processing}
	c := eventChange(r, after)
	if r.Waits == nil {
		return c, nil
	}
	if !slices.Contains(r.Waits.Decisions, d.Verb) {
		return nil, d.refuseEvent(r, "is %s, and its run takes no %s as it stands", statusOf(r), d.Verb)
	}
	about, err := workflows.CheckDecision(r.Waits.Effects, d.Verb, d.input(r))
	if err != nil {
		return nil, d.refuseEvent(r, "is parked, and %s", messageOf(err))
	}
	open := r.Waits.Keys()
	c.before["effects_open"] = open
	for name, value := range map[string]string{"effect": d.Effect, "reference": d.Reference} {
		if value != "" {
			after[name] = value
		}
	}
	if len(about) > 0 {
		after["effects"] = about
	}
	var late string
	c.do = func(ctx context.Context, tx pgx.Tx) (err error) {
		if late, err = activities.DoneMeanwhileIn(ctx, tx, r.EventID, open); err == nil && late != "" {
			err = d.refuseEvent(r, "is parked, and %s", late)
		}
		return err
	}
	c.refused = func(ctx context.Context) {
		if late != "" { // wake the run: it ends once it notices that another run completed its effects
			_ = d.o.Temporal.SignalWorkflow(ctx, r.WorkflowID, "", activities.SignalSettled, nil)
		}
	}
	return c, nil
}

// input returns the input of the update. A preview fills in the fields that the person would type.
func (d *Decision) input(r *timeline.Receipt) workflows.DecisionInput {
	in := workflows.DecisionInput{Who: d.Who, Why: d.Why, Effect: d.Effect, Reference: d.Reference, Confirm: d.Confirm}
	if !d.preview {
		return in
	}
	if key, ok := Doubtful(r, d.Effect); ok && d.Verb == VerbResend {
		in.Confirm = cmp.Or(in.Confirm, key)
	}
	if d.Verb == VerbDone {
		in.Reference = cmp.Or(in.Reference, "a preview")
	}
	return in
}

// decideTimeout is the timeout of the update. A parked run accepts it within milliseconds. It is shorter than the
// database timeout of a command, so that the error names the right cause.
const decideTimeout = 20 * time.Second

// The run marks its receipt as parked shortly before it accepts decisions. A run that is not ready yet is therefore
// tried again, every beginPoll for at most beginWithin.
const (
	beginPoll   = 200 * time.Millisecond
	beginWithin = 5 * time.Second
)

// tellRun sends a recorded decision to the parked run as an update. The update's ID is the request's, so that a
// repeated call has no effect. It waits until the run has processed the update. If the run rejects it, the refusal is
// recorded, and a repeated request returns at once.
func (d *Decision) tellRun(ctx context.Context, r *timeline.Receipt, rec recorded) error {
	refusal := rec.key + "/refused"
	if rec.repeated {
		if known, err := d.o.Audit.Recorded(ctx, refusal); err != nil || known != nil {
			return err
		}
	}
	err := d.update(ctx, r)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return errors.Join(d.o.Audit.Append(ctx, audit.Action{
			RequestID: refusal, Actor: "pawl", Action: "refuse-" + d.Verb, Target: r.EventID, Reason: refused.Why,
			Before: map[string]any{"receipt": r.ID, "request": d.Request},
		}), err)
	}
	return err
}

func (d *Decision) update(ctx context.Context, r *timeline.Receipt) error {
	// Without a worker the update gets no response, and the SDK would wait forever.
	asking, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if d.o.Unstick != nil {
		_ = d.o.Unstick(asking, r.WorkflowID) // a failure only costs the update a second attempt
	}
	err := d.send(asking, r)
	until := time.Now().Add(beginWithin)
	for notParked(err) && time.Now().Before(until) && d.o.stillParked(asking, r) {
		select {
		case <-asking.Done():
		case <-time.After(beginPoll):
		}
		err = d.send(asking, r)
	}
	var refused *temporal.ApplicationError
	var gone *serviceerror.NotFound
	var failing *serviceerror.WorkflowNotReady
	again := func(why string) error {
		return &RefusedError{Target: d.Target, Verb: d.Verb, Why: why, Try: []Choice{replays(d.Target, r)}}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gone):
		return again("has a run that has ended in Temporal, as pawl is about to notice")
	case notParked(err):
		return d.cameSecond(ctx, r)
	case errors.As(err, &refused) && refused.Type() == workflows.ErrTypeInvalidDecision:
		return d.refuseEvent(r, "is parked, and %s", refused.Message())
	case errors.Is(asking.Err(), context.DeadlineExceeded):
		return fault(Later, "%s of %s: no answer within %s: does a worker run, and is Temporal well? The decision may still be followed; the same command with --request-id %s asks again, and is one decision",
			d.Verb, r.WorkflowID, decideTimeout, d.Request)
	case errors.As(err, &failing):
		return again("has a run that no worker can go on with: its workflow task fails, and the workers' log says why")
	case errors.As(err, &refused):
		return errors.New(refused.Message())
	}
	return fmt.Errorf("%s of %s: %w", d.Verb, r.WorkflowID, err)
}

// send sends the update and waits for its result.
func (d *Decision) send(ctx context.Context, r *timeline.Receipt) error {
	handle, err := d.o.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.WorkflowID, UpdateID: d.requestID(), UpdateName: d.Verb, Args: []any{d.input(r)},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}

// messageOf returns the message with which a run rejects a decision.
func messageOf(err error) string {
	if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return refused.Message()
	}
	return err.Error()
}

// notParked reports whether the run rejected the update because it waits for no decision.
func notParked(err error) bool {
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && refused.Type() == workflows.ErrTypeNotParked
}

// stillParked reports whether status and reason of the receipt are unchanged.
func (o *Operator) stillParked(ctx context.Context, r *timeline.Receipt) bool {
	now, err := FindEvent(ctx, o.DB, r.ID)
	return err == nil && now.Status == r.Status && now.Reason == r.Reason
}

// cameSecond refuses a decision if another decision reached the run first. If the receipt is still parked, the outcome
// is unknown, and the error asks the caller to repeat the request.
func (d *Decision) cameSecond(ctx context.Context, r *timeline.Receipt) error {
	if !d.o.stillParked(ctx, r) {
		return d.came(ctx, r, receipt.ErrMoved)
	}
	return fault(Later, "%s of %s: the run takes another decision at this moment, or begins to wait for one: "+
		"the same command with --request-id %s asks again, and is one decision", d.Verb, r.WorkflowID, d.Request)
}
