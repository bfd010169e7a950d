package activities

import (
	"context"
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

// Runs records how runs stand, and what people decide about them: on the receipt, in the ledger and in the audit trail.
type Runs struct {
	Receipts *receipt.Store
	Ledger   *ledger.Store
	Audit    *audit.Store
	// Lag takes the seconds from the start of the run to its end, by flow and outcome.
	Lag metric.Float64Histogram
}

// ParkRunInput says why a run waits for a person.
type ParkRunInput struct {
	ReceiptID string
	// Status is receipt.NeedsReview or receipt.Dead.
	Status string
	Reason string
	// ResetOf is the run that this one was reset from, "" for an original.
	ResetOf string
	// Due is set for a run of the clock.
	Due       bool `json:",omitempty"`
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
	} else if in.Due {
		started.Kind = receipt.ByClock
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

// settledOtherwise reports whether a status was refused that another try could not write either. Either the graph
// does not allow it: an operator dismissed the receipt meanwhile, and the run is closed all the same. Or a later
// workflow task has written another: then Temporal refuses whatever else comes of this worker's task, too.
func settledOtherwise(err error) bool {
	var refused *receipt.TransitionError
	return errors.As(err, &refused) || errors.Is(err, receipt.ErrOutrun)
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
