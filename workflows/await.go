package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
)

// listen registers the update handlers. The run calls it first, because a reset re-applies earlier decisions at the
// start of the new run.
func (r *run) listen() error {
	for _, action := range Decisions() {
		handler := func(ctx workflow.Context, in DecisionInput) (DecisionResult, error) {
			lasting, _ := workflow.NewDisconnectedContext(ctx) // a cancelled run accepts decisions, too
			return r.take(lasting, decision{workflow.GetCurrentUpdateInfo(ctx).ID, action, in})
		}
		options := workflow.UpdateHandlerOptions{
			Description: "Decides about a parked run. Who and Why are required.",
			Validator:   func(in DecisionInput) error { return r.validate(action, in) },
		}
		if err := workflow.SetUpdateHandlerWithOptions(r.ctx, action, handler, options); err != nil {
			return fmt.Errorf("listen for %s: %w", action, err)
		}
	}
	return nil
}

// validate rejects a decision that the run cannot execute. A rejected update adds no event to the history. A reset
// re-applies the earlier decisions in the first task of the new run, and validate accepts them there. It rejects any
// later decision until the run parks again. It also rejects a re-applied retry, done or resend: their outcomes are in
// the ledger, and a person has to review a later park again.
func (r *run) validate(action string, in DecisionInput) error {
	lasting := action != UpdateRetry && action != UpdateDone && action != UpdateResend
	switch err := in.check(); {
	case err != nil:
		return err
	case r.resetBegins && lasting && workflow.GetInfo(r.ctx).GetCurrentHistoryLength() == r.firstTask:
		return nil
	case !r.parked || r.decided != nil:
		return temporal.NewApplicationError("the run is not waiting for a decision", ErrTypeNotParked)
	}
	return r.f.checkAllowed(action, in)
}

// waitForPerson parks the run and accepts decisions until take has found one of them in the audit trail.
func (r *run) waitForPerson(status string, why reason) (decision, error) {
	r.decided, r.recorded = nil, false
	settled := workflow.GetSignalChannel(r.ctx, activities.SignalSettled)
	for settled.ReceiveAsync(nil) { // discard the signals from before this park
	}
	var parked activities.ParkRunResult
	f := r.f
	park := activities.ParkRunInput{
		Ref: f.in.Ref, Status: status, Reason: why.String(), Waits: f.waits(),
		ResetOf: f.resetOf, Replay: f.in.Replay, Due: f.in.Due != nil, StartedAt: f.begun, AsOf: r.asOf(),
	}
	if err := r.execute(attempt{name: "park", activity: runs.ParkRun, input: park}, &parked); err != nil {
		return decision{}, err
	}
	r.settledMeanwhile = parked.Settled && !f.settledInVain
	d, found, err := r.recall(why)
	if err != nil {
		return decision{}, err
	}
	r.parked = true
	if found {
		_, _ = r.take(r.ctx, d) // after an error, the run continues to wait
	}
	if !r.recorded {
		if err := r.mark(why.as(status)); err != nil {
			return decision{}, err
		}
	}
	f.showParked(status, why)
	meanwhile := func() bool { return r.settledMeanwhile || settled.Len() > 0 }
	if err := workflow.Await(r.ctx,
		func() bool { return r.recorded || r.decided == nil && (f.isCancelled() || meanwhile()) }); err != nil {
		return decision{}, err
	}
	r.parked = false
	if err := r.mark(""); err != nil || !r.recorded {
		return decision{}, err
	}
	return *r.decided, nil
}

// take looks up a decision in the audit trail; the run then executes the decision. If the audit trail does not
// contain the decision, take returns an error and the run continues to wait. If the run has not parked, a reset has
// re-applied the decision, and take stores it in r.kept for the next park.
func (r *run) take(ctx workflow.Context, d decision) (DecisionResult, error) {
	if !r.parked {
		r.kept = append(r.kept, d)
		return DecisionResult{Action: d.action}, nil
	}
	about, err := CheckDecision(r.f.waits().Effects, d.action, d.input)
	if err != nil { // the decision does not fit the present state of the run
		return DecisionResult{}, err
	}
	r.decided = &d
	var recorded activities.RecordDecisionResult
	result := DecisionResult{Action: d.action, Effects: keysOf(r.f.unsettled()), About: about}
	err = r.executeIn(ctx, attempt{
		name: "decision:" + d.request, activity: runs.RecordDecision,
		input: activities.RecordDecisionInput{
			Ref: r.f.in.Ref, RequestID: d.request, Action: d.action, Actor: d.input.Actor, Reason: d.input.Reason,
			Effects: result.Effects, Effect: d.input.Effect, Reference: d.input.Reference, AsOf: r.asOf(),
		},
	}, &recorded)
	if recorded.DoneMeanwhile != "" {
		r.decided, r.settledMeanwhile = nil, true
		return DecisionResult{}, invalid("%s", recorded.DoneMeanwhile)
	}
	if err != nil {
		r.decided = nil
		return DecisionResult{}, fmt.Errorf("the decision was not executed: %w", err)
	}
	r.recorded = true
	return result, nil
}

// recall returns a decision from before a reset that also applies to this park. The decision applies if one of the same
// effects was open, or if no effect was open and the run parked for the same reason.
func (r *run) recall(why reason) (decision, bool, error) {
	open := keysOf(r.f.unsettled())
	for i, d := range r.kept {
		var then activities.RecallDecisionResult
		if err := r.execute(attempt{
			name: "recall:" + d.request, activity: runs.RecallDecision,
			input: activities.RecallDecisionInput{Ref: r.f.in.Ref, RequestID: d.request},
		}, &then); err != nil {
			return decision{}, false, err
		}
		same := slices.ContainsFunc(open, func(key string) bool { return slices.Contains(then.Effects, key) })
		if then.Found && (same || len(open) == 0 && len(then.Effects) == 0 && then.Code == why.code) {
			r.kept = slices.Delete(r.kept, i, i+1)
			return d, true, nil
		}
	}
	return decision{}, false, nil
}
