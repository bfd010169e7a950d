package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
)

// RecallDecisionInput names a decision about a receipt's run by its request.
type RecallDecisionInput struct {
	event.Ref
	RequestID string
}

// RecallDecisionResult is what the audit trail holds of a decision.
type RecallDecisionResult struct {
	Found bool
	// Effects are the keys that were not done when it was decided, and Code is that of the reason why the run was
	// parked.
	Effects []string
	Code    string
}

// RecallDecision reads what a decision was taken for, before a reset re-applies it.
func (r *Runs) RecallDecision(ctx context.Context, in RecallDecisionInput) (RecallDecisionResult, error) {
	recorded, err := r.Audit.Recorded(ctx, audit.DecisionID(in.ReceiptID, in.RequestID))
	if err != nil || recorded == nil {
		return RecallDecisionResult{}, err
	}
	var seen struct {
		Effects []string `json:"effects_open"`
		Reason  string   `json:"reason"`
	}
	if err := json.Unmarshal(recorded.Before, &seen); err != nil {
		return RecallDecisionResult{}, fmt.Errorf("read decision %s: %w", in.RequestID, err)
	}
	code, _, _ := strings.Cut(seen.Reason, ": ")
	return RecallDecisionResult{Found: true, Effects: seen.Effects, Code: code}, nil
}

// RecordDecisionInput is an operator's decision, as a run was told of it.
type RecordDecisionInput struct {
	event.Ref
	// RequestID is the update's ID.
	RequestID string
	Action    string
	Who       string
	Why       string
	// Effects are the keys that are not done in the run.
	Effects   []string
	Effect    string `json:",omitempty"`
	Reference string `json:",omitempty"`
	// AsOf is when the workflow task began that took the decision.
	AsOf time.Time
}

// RecordDecisionResult says why the decision comes too late, "" for one that is followed.
type RecordDecisionResult struct {
	DoneMeanwhile string `json:",omitempty"`
}

// ErrTypeNotRecorded is the type of the error that refuses a decision which the audit trail does not hold.
const ErrTypeNotRecorded = "DecisionNotRecorded"

// RecordDecision shows on the receipt that its run goes on. It takes a decision only as the audit trail holds it:
// pawl records a decision before it tells the run, so that whoever can write to Temporal alone decides in nobody's
// name. If the ledger holds all that the run waits for as done or skipped by now, the decision is not followed: see
// [DoneMeanwhile].
func (r *Runs) RecordDecision(ctx context.Context, in RecordDecisionInput) (RecordDecisionResult, error) {
	before, err := r.own(ctx, in.Ref)
	if err != nil {
		return RecordDecisionResult{}, err
	}
	recorded, err := r.Audit.Recorded(ctx, audit.DecisionID(in.ReceiptID, in.RequestID))
	if err != nil {
		return RecordDecisionResult{}, err
	}
	var after struct{ Effect, Reference string }
	if recorded != nil {
		if err := json.Unmarshal(recorded.After, &after); err != nil {
			return RecordDecisionResult{}, fmt.Errorf("read decision %s: %w", in.RequestID, err)
		}
	}
	if recorded == nil || recorded.Action != in.Action || recorded.Actor != in.Who || recorded.Reason != in.Why ||
		after.Effect != in.Effect || after.Reference != in.Reference {
		return RecordDecisionResult{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("the audit trail does not hold this %s under request %s: decide with pawl events %[1]s", in.Action, in.RequestID), ErrTypeNotRecorded, nil)
	}
	found, err := r.Ledger.Read(ctx, in.Effects)
	if err != nil {
		return RecordDecisionResult{}, err
	}
	if late := DoneMeanwhile(in.EventID, in.Effects, found); late != "" {
		return RecordDecisionResult{DoneMeanwhile: late}, nil
	}
	if err := r.Receipts.TransitionAsOf(ctx, in.AsOf, in.ReceiptID, receipt.Processing, "",
		before.LastError); err != nil && !settledOtherwise(err) {
		return RecordDecisionResult{}, fmt.Errorf("resume receipt %s: %w", in.ReceiptID, err)
	}
	r.tell(ctx, slog.LevelInfo, "run decided", in.Ref, "action", in.Action, "effect_key", in.Effect, "request_id",
		in.RequestID)
	return RecordDecisionResult{}, nil
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
	key := in.Effect.Key
	err := r.Ledger.Skip(ctx, effect.ClaimOf(ctx, in.Effect, 0), in.Reason)
	if errors.Is(err, ledger.ErrForeign) {
		return SkipEffectResult{}, effect.Foreign(in.Effect.Ref, err)
	}
	if err != nil {
		return SkipEffectResult{}, err
	}
	found, err := r.Ledger.Read(ctx, []string{key})
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
