package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Runs records on the receipt how its run stands.
type Runs struct {
	Receipts *receipt.Store
	Ledger   *ledger.Store
	Audit    *audit.Store
	// Lag takes the seconds from receipt to the end of the run, by flow and outcome.
	Lag metric.Float64Histogram
}

// ParkRunInput says why a run waits for a person.
type ParkRunInput struct {
	ReceiptID string
	// Status is receipt.NeedsReview or receipt.Dead.
	Status string
	Reason string
	// ResetOf is the run that this one was reset from, "" for an original.
	ResetOf   string
	StartedAt time.Time
	// AsOf is when the workflow task began that parks the run.
	AsOf time.Time
}

// ParkRunResult is empty.
type ParkRunResult struct{}

// ParkRun shows on the receipt that its run waits for a person, and why. It also records the run: who
// started it may have died before that, and a decision is sent to the run that the receipt names.
func (r *Runs) ParkRun(ctx context.Context, in ParkRunInput) (ParkRunResult, error) {
	run := activity.GetInfo(ctx).WorkflowExecution
	started := receipt.Started{ReceiptID: in.ReceiptID, WorkflowID: run.ID, RunID: run.RunID, StartedAt: in.StartedAt}
	if in.ResetOf != "" {
		started.Kind, started.PreviousRunID = receipt.Reset, in.ResetOf
	}
	if err := r.Receipts.MarkStarted(ctx, started); err != nil {
		return ParkRunResult{}, fmt.Errorf("park receipt %s: %w", in.ReceiptID, err)
	}
	err := r.Receipts.TransitionAsOf(ctx, in.AsOf, in.ReceiptID, receipt.Status(in.Status), in.Reason, in.Reason)
	if err != nil && !settledOtherwise(err) {
		return ParkRunResult{}, fmt.Errorf("park receipt %s: %w", in.ReceiptID, err)
	}
	return ParkRunResult{}, nil
}

// FinishRunInput says how a run ended.
type FinishRunInput struct {
	ReceiptID string
	// Status is the receipt's final status.
	Status string
	// Reason says why, where it is not simply processed.
	Reason string
	Flow   string
	// ResetOf is the run that this one was reset from, "" for an original.
	ResetOf   string
	StartedAt time.Time
	// AsOf is when the workflow task began that finishes the run.
	AsOf time.Time
}

// FinishRunResult is empty.
type FinishRunResult struct{}

// FinishRun closes the run and the receipt in one commit.
func (r *Runs) FinishRun(ctx context.Context, in FinishRunInput) (FinishRunResult, error) {
	info := activity.GetInfo(ctx)
	err := r.Receipts.FinishRun(ctx, receipt.Finish{
		ReceiptID: in.ReceiptID, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID,
		PreviousRunID: in.ResetOf, Outcome: in.Status, Status: receipt.Status(in.Status), Reason: in.Reason, StartedAt: in.StartedAt, AsOf: in.AsOf,
	})
	if err != nil && !settledOtherwise(err) {
		return FinishRunResult{}, fmt.Errorf("finish run of receipt %s: %w", in.ReceiptID, err)
	}
	r.Lag.Record(ctx, time.Since(in.StartedAt).Seconds(), metric.WithAttributes(
		attribute.String("flow", in.Flow), attribute.String("outcome", in.Status)))
	return FinishRunResult{}, nil
}

// settledOtherwise reports whether a status was refused that another try could not write either: the graph
// does not allow it (an operator dismissed the receipt meanwhile; the run is closed all the same), or a later
// workflow task has written another. What this worker has yet to say then reaches nobody: Temporal does not
// take the task from it.
func settledOtherwise(err error) bool {
	var refused *receipt.TransitionError
	return errors.As(err, &refused) || errors.Is(err, receipt.ErrOutrun)
}

// SkipEffectInput says which effect shall not be done, and why.
type SkipEffectInput struct {
	Effect effect.Call
	Reason string
}

// SkipEffectResult says what the effect had come to before it could be skipped.
type SkipEffectResult struct {
	// Met is set where another run has done the effect, or taken it back, meanwhile: it is not skipped then.
	Met *effect.Result `json:",omitempty"`
}

// SkipEffect records in the ledger that an effect shall not be done. One that has been done meanwhile
// stays done; one that is being done is waited for.
func (r *Runs) SkipEffect(ctx context.Context, in SkipEffectInput) (SkipEffectResult, error) {
	info := activity.GetInfo(ctx)
	key := in.Effect.Key
	if err := r.Ledger.Skip(ctx, ledger.Claim{
		Key: key, Kind: in.Effect.Kind, ReceiptID: in.Effect.ReceiptID, EventID: in.Effect.EventID,
		WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID,
	}, in.Reason); err != nil {
		return SkipEffectResult{}, err
	}
	found, err := r.Ledger.Look(ctx, []string{key})
	if err != nil {
		return SkipEffectResult{}, err
	}
	switch now := found[key]; {
	case now.State == ledger.Skipped:
		return SkipEffectResult{}, nil
	case now.Settled():
		met := effect.Recorded(now, in.Effect.EventID)
		return SkipEffectResult{Met: &met}, nil
	}
	return SkipEffectResult{}, fmt.Errorf("%s is being done at this moment: it is skipped when that has failed", key)
}

// LookAtEffectsInput names effects and what would take them back.
type LookAtEffectsInput struct {
	// EventID is the event of the run that looks.
	EventID string
	Keys    []string
	// Undos are the keys of the effects that take those back.
	Undos []string
}

// LookAtEffectsResult says what other runs for the same fact have made of the effects.
type LookAtEffectsResult struct {
	// Settled holds what is settled, by key.
	Settled map[string]effect.Result `json:",omitempty"`
	// Undoing is an undo that has begun, "" for none.
	Undoing string `json:",omitempty"`
}

// LookAtEffects reads how effects stand in the ledger. It claims nothing.
func (r *Runs) LookAtEffects(ctx context.Context, in LookAtEffectsInput) (LookAtEffectsResult, error) {
	found, err := r.Ledger.Look(ctx, slices.Concat(in.Keys, in.Undos))
	if err != nil {
		return LookAtEffectsResult{}, err
	}
	result := LookAtEffectsResult{Settled: map[string]effect.Result{}}
	for _, key := range in.Keys {
		if g, ok := found[key]; ok && g.Settled() {
			result.Settled[key] = effect.Recorded(g, in.EventID)
		}
	}
	for _, key := range in.Undos {
		if _, begun := found[key]; begun {
			result.Undoing = key
			break
		}
	}
	return result, nil
}

// RecallDecisionInput names a decision by its request.
type RecallDecisionInput struct{ RequestID string }

// RecallDecisionResult is what the audit trail holds of a decision.
type RecallDecisionResult struct {
	Found bool
	// Effects are the keys that were not done when it was decided.
	Effects []string
}

// RecallDecision reads what a decision was taken for, before a reset re-applies it.
func (r *Runs) RecallDecision(ctx context.Context, in RecallDecisionInput) (RecallDecisionResult, error) {
	before, found, err := r.Audit.Before(ctx, auditID(ctx, in.RequestID))
	if err != nil || !found {
		return RecallDecisionResult{}, err
	}
	var seen struct {
		Effects []string `json:"effects_open"`
	}
	if err := json.Unmarshal(before, &seen); err != nil {
		return RecallDecisionResult{}, fmt.Errorf("read decision %s: %w", in.RequestID, err)
	}
	return RecallDecisionResult{Found: true, Effects: seen.Effects}, nil
}

// auditID names a decision in the audit trail: an update's ID is only its workflow's.
func auditID(ctx context.Context, requestID string) string {
	return activity.GetInfo(ctx).WorkflowExecution.ID + "/" + requestID
}

// RecordDecisionInput is an operator's decision for the audit trail.
type RecordDecisionInput struct {
	// RequestID makes the record idempotent; it is the update's ID.
	RequestID string
	ReceiptID string
	EventID   string
	Action    string
	Who       string
	Why       string
	// Effects are the keys that were not done when it was decided.
	Effects []string
	// AsOf is when the workflow task began that took the decision.
	AsOf time.Time
}

// RecordDecisionResult is empty.
type RecordDecisionResult struct{}

// RecordDecision writes the decision into the audit trail and shows on the receipt that its run goes on.
func (r *Runs) RecordDecision(ctx context.Context, in RecordDecisionInput) (RecordDecisionResult, error) {
	before, err := r.Receipts.Get(ctx, in.ReceiptID)
	if err != nil {
		return RecordDecisionResult{}, fmt.Errorf("read receipt %s: %w", in.ReceiptID, err)
	}
	err = r.Audit.Append(ctx, audit.Action{
		RequestID: auditID(ctx, in.RequestID), Actor: in.Who, Action: in.Action,
		Target: in.EventID, Reason: in.Why,
		Before: map[string]any{"receipt": in.ReceiptID, "status": before.Status, "reason": before.Reason, "effects_open": in.Effects},
		After:  map[string]any{"status": receipt.Processing},
	})
	if err != nil {
		return RecordDecisionResult{}, fmt.Errorf("record decision about receipt %s: %w", in.ReceiptID, err)
	}
	if err := r.Receipts.TransitionAsOf(ctx, in.AsOf, in.ReceiptID, receipt.Processing, "", before.LastError); err != nil && !settledOtherwise(err) {
		return RecordDecisionResult{}, fmt.Errorf("resume receipt %s: %w", in.ReceiptID, err)
	}
	return RecordDecisionResult{}, nil
}
