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

// checkParked refuses a decision that the receipt's run does not take, as far as the receipt tells.
func checkParked(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
	switch s := situationOf(d.o, r); s {
	case parked:
	case stuck: // a worker that is mended meanwhile goes on with it
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
		if late != "" { // the run ends by itself; it may not have heard of that
			_ = d.o.Temporal.SignalWorkflow(ctx, r.WorkflowID, "", activities.SignalSettled, nil)
		}
	}
	return c, nil
}

// input is what the run is told. A preview stands for whoever would give the reference, and confirm.
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

// decideTimeout bounds how long a run may take to take a decision: a parked one takes milliseconds. It is less than a
// command's time for the database, which would be blamed for it.
const decideTimeout = 20 * time.Second

// A receipt says that its run is parked a moment before the run takes decisions, and on a busy machine the moment
// lasts: a run that waits for none yet is asked again, every beginPoll for beginWithin.
const (
	beginPoll   = 200 * time.Millisecond
	beginWithin = 5 * time.Second
)

// tellRun takes a recorded decision to the receipt's parked run, as an update whose ID is the request's. It returns
// when the run has taken it. A refusal by the run is recorded, too; the same request is not sent again then.
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
	// Nobody answers while no worker runs, and the SDK would ask for ever.
	asking, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if d.o.Unstick != nil {
		_ = d.o.Unstick(asking, r.WorkflowID) // if that fails, the update says why, or is taken at the second try
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

// send sends the update once.
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

// messageOf is what a run says about a decision that it does not take.
func messageOf(err error) string {
	if refused, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return refused.Message()
	}
	return err.Error()
}

// notParked reports whether the run says that it waits for no decision.
func notParked(err error) bool {
	refused, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && refused.Type() == workflows.ErrTypeNotParked
}

// stillParked reports whether the receipt stands as it was read.
func (o *Operator) stillParked(ctx context.Context, r *timeline.Receipt) bool {
	now, err := FindEvent(ctx, o.DB, r.ID)
	return err == nil && now.Status == r.Status && now.Reason == r.Reason
}

// cameSecond refuses a decision about a run that was parked when the receipt was read and has been decided since. If
// the receipt is still parked, the outcome is unknown: a job tries again, and a person may.
func (d *Decision) cameSecond(ctx context.Context, r *timeline.Receipt) error {
	if !d.o.stillParked(ctx, r) {
		return d.came(ctx, r, receipt.ErrMoved)
	}
	return fault(Later, "%s of %s: the run takes another decision at this moment, or begins to wait for one: "+
		"the same command with --request-id %s asks again, and is one decision", d.Verb, r.WorkflowID, d.Request)
}
