package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
	// Effects are the keys that were not done when it was decided, and Code is that of the reason why the run was parked.
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

// errTooLate rolls back a decision about what is settled.
var errTooLate = errors.New("the decision comes too late")

// RecordDecisionInput is an operator's decision for the audit trail.
type RecordDecisionInput struct {
	event.Ref
	// RequestID makes the record idempotent; it is the update's ID.
	RequestID string
	Action    string
	Who       string
	Why       string
	// Effects are the keys that were not done when it was decided.
	Effects []string
	// About are those of them that it is about, and Reference is where one can be seen that is done.
	About     []string `json:",omitempty"`
	Reference string   `json:",omitempty"`
	// AsOf is when the workflow task began that took the decision.
	AsOf time.Time
}

// RecordDecisionResult says why the decision comes too late, "" for one that is recorded.
type RecordDecisionResult struct {
	DoneMeanwhile string `json:",omitempty"`
}

// RecordDecision writes the decision into the audit trail and shows on the receipt that its run goes on. Where the ledger
// holds all that the run waits for as done or skipped, in the same transaction, nothing is recorded: see [DoneMeanwhile].
func (r *Runs) RecordDecision(ctx context.Context, in RecordDecisionInput) (RecordDecisionResult, error) {
	before, err := r.own(ctx, in.Ref)
	if err != nil {
		return RecordDecisionResult{}, err
	}
	after := map[string]any{"status": receipt.Processing}
	if len(in.About) > 0 {
		after["effects"] = in.About
	}
	if in.Reference != "" {
		after["reference"] = in.Reference
	}
	var late string
	_, err = r.Audit.AppendWith(ctx, audit.Action{
		RequestID: audit.DecisionID(in.ReceiptID, in.RequestID), Actor: in.Who, Action: in.Action,
		Target: in.EventID, Reason: in.Why,
		Before: map[string]any{"receipt": in.ReceiptID, "status": before.Status, "reason": before.Reason, "effects_open": in.Effects},
		After:  after,
	}, func(ctx context.Context, tx pgx.Tx) (err error) {
		if late, err = doneMeanwhile(ctx, tx, in.Effects); err == nil && late != "" {
			err = errTooLate
		}
		return err
	})
	if errors.Is(err, errTooLate) {
		return RecordDecisionResult{DoneMeanwhile: late}, nil
	}
	if err != nil {
		return RecordDecisionResult{}, fmt.Errorf("record decision about receipt %s: %w", in.ReceiptID, err)
	}
	if err := r.Receipts.TransitionAsOf(ctx, in.AsOf, in.ReceiptID, receipt.Processing, "", before.LastError); err != nil && !settledOtherwise(err) {
		return RecordDecisionResult{}, fmt.Errorf("resume receipt %s: %w", in.ReceiptID, err)
	}
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
