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
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
)

// RecallDecisionInput identifies a decision by the receipt and the request.
type RecallDecisionInput struct {
	event.Ref
	RequestID string
}

// RecallDecisionResult is a decision in the audit trail.
type RecallDecisionResult struct {
	Found bool
	// Effects are the keys of the effects that were open at the time of the decision. Code is the reason code with
	// which the run was parked.
	Effects []string
	Code    string
}

// RecallDecision reads an earlier decision from the audit trail. A run that a reset created calls it before it
// re-applies the decision.
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

// RecordDecisionInput is a decision that a run received from an operator.
type RecordDecisionInput struct {
	event.Ref
	// RequestID is the update's ID.
	RequestID string
	Action    string
	Actor     string
	Reason    string
	// Effects are the keys of the open effects of the run.
	Effects   []string
	Effect    string `json:",omitempty"`
	Reference string `json:",omitempty"`
	// AsOf is the start of the workflow task that accepted the decision.
	AsOf time.Time
}

// RecordDecisionResult is empty if the run executes the decision. Otherwise DoneMeanwhile explains why the decision is
// too late.
type RecordDecisionResult struct {
	DoneMeanwhile string `json:",omitempty"`
}

// ErrTypeNotRecorded is the type of the error for a decision that the audit trail does not contain.
const ErrTypeNotRecorded = "DecisionNotRecorded"

// RecordDecision sets the receipt to processing again. It accepts a decision only if the audit trail contains the
// decision. pawl writes each decision to the audit trail before it sends the update, so a person with access only to
// Temporal cannot decide in the name of another person. If other runs have settled every effect in the meantime, the
// run does not execute the decision: see [DoneMeanwhile].
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
	if recorded == nil || recorded.Action != in.Action || recorded.Actor != in.Actor || recorded.Reason != in.Reason ||
		after.Effect != in.Effect || after.Reference != in.Reference {
		return RecordDecisionResult{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("the audit trail contains no %s with request ID %s: use pawl events %[1]s", in.Action,
				in.RequestID), ErrTypeNotRecorded, nil)
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
	r.logState(ctx, slog.LevelInfo, "run decided", in.Ref, "action", in.Action, "effect_key", in.Effect, "request_id",
		in.RequestID)
	return RecordDecisionResult{}, nil
}

// SkipEffectInput identifies an effect to skip, and the reason.
type SkipEffectInput struct {
	Effect effect.Call
	Reason string
	// Entry is the finance entry that is not booked, or nil. Actor is the person who decided. Why is the reason.
	Entry      *Entry `json:",omitempty"`
	Actor, Why string `json:",omitempty"`
}

// SkipEffectResult is empty if the effect was skipped.
type SkipEffectResult struct {
	// Met is set if another run has executed or compensated the effect in the meantime. The effect is then not
	// skipped.
	Met *effect.Result `json:",omitempty"`
}

// SkipEffect marks an effect as skipped in the ledger, and stores its finance entry as skipped. If another run has
// executed the effect in the meantime, the effect stays done. While an attempt is in progress, SkipEffect returns an
// error, and Temporal retries it.
func (r *Runs) SkipEffect(ctx context.Context, in SkipEffectInput) (SkipEffectResult, error) {
	key := in.Effect.Key
	var also []ledger.Statement
	if in.Entry != nil {
		found, err := r.Ledger.Read(ctx, []string{key})
		if err != nil {
			return SkipEffectResult{}, err
		}
		perhaps := effect.Recorded(found[key], in.Effect.EventID).MayHaveHappened()
		in.Entry.Cash = in.Entry.Net()
		also = append(also, account.RecordSkipped(in.Entry.row(key, ""), in.Effect.EventID, in.Actor, in.Why, perhaps))
	}
	err := r.Ledger.Skip(ctx, effect.ClaimOf(ctx, in.Effect, 0), in.Reason, also...)
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
		if flow.HasOutput(key) {
			met.Value = nil // histories contain no output of a flow
		}
		return SkipEffectResult{Met: &met}, nil
	}
	return SkipEffectResult{}, fmt.Errorf("%s is being executed; it will be skipped if this attempt fails", key)
}
