package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/schema/ledger"
)

// meet returns the outcome of an effect that this run need not execute, because the ledger already contains an outcome.
// It records in the ledger that this run has read the outcome.
func (r *Runner) meet(ctx context.Context, c Call, g ledger.Grant) (Result, error) {
	result := Recorded(g, c.EventID)
	result.Met = !result.State.Settled()
	note := string(g.State)
	if result.By != "" {
		note += " by " + g.EventID
	}
	sighting := ledger.Sighting{Key: c.Key, Generation: g.Generation, ReceiptID: c.ReceiptID,
		RunID: activity.GetInfo(ctx).WorkflowExecution.RunID, Note: note}
	if err := r.Ledger.Sight(ctx, sighting); err != nil {
		return Result{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot record the state of %s", c.Key)
	}
	r.count(ctx, c, result.State)
	return result, nil
}

// Recorded converts the ledger state of a settled, failed or uncertain effect to the result for the run of an event.
func Recorded(g ledger.Grant, eventID string) Result {
	result := Result{Reason: withoutDetail(g.Error), Value: g.Result}
	if g.EventID != eventID {
		result.By = g.EventID
	}
	if g.State == ledger.Failed || g.State == ledger.Uncertain || g.State == ledger.Skipped {
		result.Value, result.Unanswered, result.Round = nil, wasUnanswered(g.Result), g.Round
	}
	switch {
	case g.State == ledger.Done:
		result.State, result.Reason = AlreadyDone, ""
	case g.State == ledger.Skipped:
		result.State, result.Reason = Skipped, g.Error
	case g.State == ledger.Compensated:
		result.State = Compensated
	case g.State == ledger.Uncertain:
		result.State = Uncertain
	case g.Class == ledger.Permanent:
		result.State = Refused
	default:
		result.fail(g.Class)
	}
	return result
}

// fail sets the state to Failed and puts the class before the reason.
func (r *Result) fail(class ledger.Class) {
	r.State, r.Reason = Failed, string(class)+": "+r.Reason
}

// unansweredResult is stored as the result of an effect that is not done if any attempt got no response.
var unansweredResult = json.RawMessage(`{"Unanswered":true}`)

// wasUnanswered reports whether any attempt, in any generation, got no response.
func wasUnanswered(result json.RawMessage) bool {
	var kept struct{ Unanswered, UnansweredBefore bool }
	return json.Unmarshal(result, &kept) == nil && (kept.Unanswered || kept.UnansweredBefore)
}

type outcome struct {
	value any
	also  []ledger.Statement
	err   error
}

// conclude returns the ledger record of an attempt, the result for the flow, and the delay that the sink requested.
func (o outcome) conclude() (ledger.Finish, Result, time.Duration, error) {
	if o.err == nil {
		encoded, err := json.Marshal(o.value)
		return ledger.Finish{State: ledger.Done, Result: encoded, Also: o.also}, Result{State: Done}, 0, err
	}
	if unwanted, ok := errors.AsType[*NotWanted](o.err); ok {
		return ledger.Finish{State: ledger.Skipped, Error: unwanted.Reason},
			Result{State: Skipped, Reason: unwanted.Reason}, 0, nil
	}
	class, wait := Classify(o.err)
	finish := ledger.Finish{State: ledger.Failed, Class: class, Error: describe(o.err)}
	result := Result{Reason: withoutDetail(finish.Error)}
	switch class {
	case ledger.Ambiguous:
		finish.State, result.State = ledger.Uncertain, Uncertain
	case ledger.Permanent:
		result.State = Refused
	}
	if unanswered(o.err) {
		finish.Result = unansweredResult
	}
	return finish, result, wait, nil
}

// record stores the outcome of an attempt and returns the result for the flow, or the error that makes Temporal
// retry.
func (r *Runner) record(ctx context.Context, c Call, p Policy, g ledger.Grant, started time.Time, out outcome) (Result,
	error) {
	if isInfrastructure(out.err) || errors.Is(out.err, ledger.ErrTakenOver) {
		// Record nothing: the claim then expires, and the next attempt takes over. Policy.Marks determines whether
		// the next attempt assumes that this attempt may have executed the effect.
		return Result{}, r.retryLater(ctx, TypeInfrastructure, 0, out.err, "cannot execute %s", c.Key)
	}
	finish, result, wait, err := out.conclude()
	if err != nil {
		return Result{}, fmt.Errorf("encode result of %s: %w", c.Key, err)
	}
	finish.Key, finish.Token, finish.Compensates = c.Key, g.Token, c.Compensates
	finish.StartedAt = started
	took := time.Since(started)
	left := p.left(g.Trying+took, g.Age+took)
	if finish.Class == ledger.Transient {
		var more bool
		if wait, more = p.Retries.Next(g.Failures+1, left, wait); !more {
			finish.Class = ledger.Exhausted
		}
	}
	failure := out.err
	finished, err := r.finish(ctx, finish)
	if ledger.Unrecordable(err) {
		// A retry would fail to record the outcome again, and repeat the request forever. Fail the effect instead, so
		// that a person decides. A later request has the same idempotency key, so the sink does not apply it twice.
		failure, result = err, Result{Reason: "the effect may have happened, but its result cannot be recorded"}
		finish.State, finish.Class = ledger.Failed, ledger.Fault
		finish.Error = result.Reason + detailSeparator + describe(err)
		finish.Result, finish.Also = unansweredResult, nil
		finished, err = r.finish(ctx, finish)
	}
	if err != nil {
		return Result{}, r.retryLater(ctx, TypeInfrastructure, 0, err, "cannot record %s", c.Key)
	}
	reached(c, "after-done")
	if !finished.Held {
		return Result{}, r.retryLater(ctx, TypeNotYet, 0, ledger.ErrTakenOver, "outcome of %s not recorded", c.Key)
	}
	if failure != nil {
		result.Unanswered, result.Round = wasUnanswered(finished.Result), g.Round
	}
	if result.State == Done {
		result.Value = finished.Result
	}
	switch finish.Class {
	case ledger.Transient:
		r.count(ctx, c, "retried")
		if o, out := p.Gate.outage(); out {
			// The run waits until its timer ends or until it gets the signal that the sink has recovered.
			return r.waits(ctx, c, p, o, left), nil
		}
		r.Retrying(ctx, c, c.Kind+": "+finish.Error)
		return Result{}, r.retryLater(ctx, TypeTransient, wait, nil, "%s: %s", c.Kind, result.Reason)
	case ledger.Exhausted, ledger.Fault:
		result.fail(finish.Class)
	}
	r.count(ctx, c, result.State)
	return result, nil
}

// recording is the timeout for recording an outcome. The lease of a claim includes it.
const recording = 2500 * time.Millisecond

// finish records the outcome, even if ctx has ended. It retries until the lease ends: if the outcome of a sent request
// is not recorded, the request must be sent again, or the effect becomes uncertain.
func (r *Runner) finish(ctx context.Context, f ledger.Finish) (ledger.Finished, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recording)
	defer cancel()
	var finished ledger.Finished
	var err error
	retryUntilDone(ctx, func() bool {
		finished, err = r.Ledger.Finish(ctx, f)
		return err == nil || ledger.Unrecordable(err)
	})
	return finished, err
}
