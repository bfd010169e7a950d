package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
)

// listen registers the updates. It is called before anything else happens, so that a decision that is
// re-applied after a reset finds its handler.
func (r *run) listen() error {
	for _, action := range Decisions() {
		handler := func(ctx workflow.Context, in DecisionInput) (DecisionResult, error) {
			lasting, _ := workflow.NewDisconnectedContext(ctx) // a decision about a cancelled run is taken, too
			return r.take(lasting, decision{workflow.GetCurrentUpdateInfo(ctx).ID, action, in})
		}
		options := workflow.UpdateHandlerOptions{
			Description: "Decide what happens to a parked run; needs who and why.",
			Validator:   func(in DecisionInput) error { return r.validate(action, in) },
		}
		if err := workflow.SetUpdateHandlerWithOptions(r.ctx, action, handler, options); err != nil {
			return fmt.Errorf("listen for %s: %w", action, err)
		}
	}
	return nil
}

// validate refuses a decision that makes no sense. A refused update leaves nothing in the history. A reset re-applies
// the decisions of the run before at the new run's start; see take. A later one is new, and its maker would be told
// that it is taken. A retry, a done and a resend are not kept over a reset: the ledger holds their outcomes, and a
// person has to look anew at a park after them.
func (r *run) validate(action string, in DecisionInput) error {
	lasting := action != UpdateRetry && action != UpdateDone && action != UpdateResend
	switch err := in.check(); {
	case err != nil:
		return err
	case r.resetBegins && lasting && workflow.GetInfo(r.ctx).GetCurrentHistoryLength() == r.firstTask:
		return nil
	case !r.parked || r.decided != nil:
		return temporal.NewApplicationError("the run waits for no decision", ErrTypeNotParked)
	}
	return r.f.mayDecide(action, in)
}

// waitForPerson parks the run, and takes decisions until one of them stands in the audit trail.
func (r *run) waitForPerson(status string, why reason) (decision, error) {
	r.decided, r.recorded = nil, false
	settled := workflow.GetSignalChannel(r.ctx, activities.SignalSettled)
	drain(settled) // those that came before
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
		_, _ = r.take(r.ctx, d) // one that is not recorded is not followed: the run waits
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

// take has the decision looked up in the audit trail and lets the run go on. An error leaves the run waiting for
// another decision: the trail does not hold this one, or somebody failed the activity by hand. A decision that a
// reset re-applies before its run has come to anything is kept until the run parks again.
func (r *run) take(ctx workflow.Context, d decision) (DecisionResult, error) {
	if !r.parked {
		r.kept = append(r.kept, d)
		return DecisionResult{Action: d.action}, nil
	}
	about, err := CheckDecision(r.f.waits().Effects, d.action, d.input)
	if err != nil { // as recalled, where the run stands otherwise now
		return DecisionResult{}, err
	}
	r.decided = &d
	var recorded activities.RecordDecisionResult
	result := DecisionResult{Action: d.action, Effects: keysOf(r.f.unsettled()), About: about}
	err = r.executeIn(ctx, attempt{
		name: "decision:" + d.request, activity: runs.RecordDecision,
		input: activities.RecordDecisionInput{
			Ref: r.f.in.Ref, RequestID: d.request, Action: d.action, Who: d.input.Who, Why: d.input.Why,
			Effects: result.Effects, Effect: d.input.Effect, Reference: d.input.Reference, AsOf: r.asOf(),
		},
	}, &recorded)
	if recorded.DoneMeanwhile != "" {
		r.decided, r.settledMeanwhile = nil, true
		return DecisionResult{}, invalid("%s", recorded.DoneMeanwhile)
	}
	if err != nil {
		r.decided = nil
		return DecisionResult{}, fmt.Errorf("the decision is not followed: %w", err)
	}
	r.recorded = true
	return result, nil
}

// recall returns the decision from before a reset that settles this park as well: one that was taken while one of the
// same effects was not done or, if none is open now, for the same reason. A decision about another question has to be
// made anew.
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
