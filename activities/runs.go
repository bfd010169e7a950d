package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/activities/intervention"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// Runs records the state of runs and the decisions of people: on the receipt, in the ledger and in the audit trail.
type Runs struct {
	Receipts *receipt.Store
	Runs     *run.Store
	Ledger   *ledger.Store
	Audit    *audit.Store
	DB       schema.Execer
	Log      *slog.Logger
	// Measures records the outcome and the duration of runs.
	Measures *Measures
}

// Waits is an alias of [receipt.Waits]. The flows use this alias and the aliases below, because they do not import
// package receipt.
type Waits = receipt.Waits

// OpenEffect is an alias of [receipt.OpenEffect] for the flows.
type OpenEffect = receipt.OpenEffect

type (
	// Step is an alias of [receipt.Step] for the flows.
	Step = receipt.Step
	// Left is an alias of [receipt.Left] for the flows.
	Left = receipt.Left
	// Paid is an alias of [receipt.Paid] for the flows.
	Paid = receipt.Paid
)

// Replay records who requested a replay, and why.
type Replay struct {
	// Request is the ID of the request. Each request starts exactly one run.
	Request       string
	Actor, Reason string
	// Previous is the previous run, or "" if unknown.
	Previous string `json:",omitempty"`
	// Release is set if the run executes effects that were withheld because the event occurred before effects began.
	Release bool `json:",omitempty"`
}

// lineage returns the kind of a run: a reset, a replay, a scheduled run, or "" for an original run. For a replay, it
// also returns who requested it, why, and the previous run.
func lineage(resetOf string, replay *Replay, due bool) (kind run.Kind, who, why, previous string) {
	switch {
	case resetOf != "":
		return run.Reset, "", "", resetOf
	case replay != nil:
		return run.Replay, replay.Actor, replay.Reason, replay.Previous
	case due:
		return run.ByClock, "", "", ""
	}
	return "", "", "", ""
}

// ParkRunInput describes a run that waits for a person.
type ParkRunInput struct {
	event.Ref
	// Status is receipt.NeedsReview or receipt.Dead.
	Status string
	Reason string
	// Waits contains the open effects.
	Waits Waits
	// ResetOf is the run that this one was reset from, or "" for an original. Replay is set for a replay.
	ResetOf string
	Replay  *Replay `json:",omitempty"`
	// Due is set for a scheduled run.
	Due       bool `json:",omitempty"`
	StartedAt time.Time
	// AsOf is the start of the workflow task that parks the run.
	AsOf time.Time
}

// ParkRunResult reports whether other runs had settled all effects of the run before it was parked.
type ParkRunResult struct {
	Settled bool `json:",omitempty"`
}

// logState logs a message with the attributes of a run.
func (r *Runs) logState(ctx context.Context, level slog.Level, message string, of event.Ref, more ...any) {
	run := activity.GetInfo(ctx).WorkflowExecution
	//nolint:sloglint // the callers' messages are constants
	r.Log.Log(ctx, level, message, of.Log(append(more, "workflow_id", run.ID, "run_id", run.RunID)...)...)
}

// own returns the receipt of the event. It returns an error if the event contradicts the receipt.
func (r *Runs) own(ctx context.Context, of event.Ref) (receipt.Receipt, error) {
	held, err := r.Receipts.Get(ctx, of.ReceiptID)
	if err != nil {
		return held, fmt.Errorf("read receipt %s: %w", of.ReceiptID, err)
	}
	return held, checkRef(of, held)
}

// checkRef returns an error if the event contradicts the receipt.
func checkRef(of event.Ref, held receipt.Receipt) error {
	of.Correlation = held.CorrelationID // it can change, and does not identify the event
	if of != held.Ref() {
		return effect.Foreign(of, nil)
	}
	return nil
}

// ParkRun stores on the receipt that its run waits for a person, and the reason. It also records the run, because the
// process that started the run may have died before it recorded the start. Decisions are sent to the run on the
// receipt.
func (r *Runs) ParkRun(ctx context.Context, in ParkRunInput) (ParkRunResult, error) {
	held, err := r.own(ctx, in.Ref)
	if err != nil {
		return ParkRunResult{}, err
	}
	of := activity.GetInfo(ctx).WorkflowExecution
	started := run.Started{ReceiptID: in.ReceiptID, WorkflowID: of.ID, RunID: of.RunID, StartedAt: in.StartedAt}
	started.Kind, started.RequestedBy, started.Reason, started.PreviousRunID = lineage(in.ResetOf, in.Replay, in.Due)
	if err := r.Runs.MarkStarted(ctx, started); err != nil {
		return ParkRunResult{}, fmt.Errorf("park receipt %s: %w", in.ReceiptID, err)
	}
	err = r.Receipts.Park(ctx, in.AsOf, in.ReceiptID, receipt.Status(in.Status), in.Reason, in.Waits)
	if err != nil && !settledOtherwise(err) {
		return ParkRunResult{}, fmt.Errorf("park receipt %s: %w", in.ReceiptID, err)
	}
	code, _, _ := strings.Cut(in.Reason, ":")
	r.Measures.leaves(ctx, in.Ref, held.APIVersion, in.Status)
	r.logState(ctx, slog.LevelWarn, "run parked", in.Ref, "status", in.Status, "reason", code)
	// Read the ledger only after the park is committed. A run that settles an effect reads the parked runs after it has
	// settled the effect. Therefore either this run finds the settled effect, or the other run finds this parked run.
	keys := in.Waits.Keys()
	found, err := r.Ledger.Read(ctx, keys)
	if err != nil {
		return ParkRunResult{}, err
	}
	return ParkRunResult{Settled: DoneMeanwhile(in.EventID, keys, found) != ""}, nil
}

// RecordCancellationInput names the receipt of a run that was cancelled.
type RecordCancellationInput struct{ event.Ref }

// RecordCancellationResult describes who cancelled the run and why, if Temporal has recorded that.
type RecordCancellationResult struct{ Words string }

// readingHistory is the timeout for reading a run's history.
const readingHistory = 5 * time.Second

// RecordCancellation records who cancelled the run, and why. Temporal does not pass this information to the run, so
// RecordCancellation reads it from the history. If the history cannot be read, it records the cancellation without a
// person and a reason.
func (r *Runs) RecordCancellation(ctx context.Context, in RecordCancellationInput) (RecordCancellationResult, error) {
	if _, err := r.own(ctx, in.Ref); err != nil {
		return RecordCancellationResult{}, err
	}
	of := activity.GetInfo(ctx).WorkflowExecution
	reading, cancel := context.WithTimeout(ctx, readingHistory)
	defer cancel()
	found, ok, err := intervention.Find(reading, activity.GetClient(ctx), run.Cancelled, of.ID, of.RunID)
	if !ok || err != nil {
		found = run.Intervention{WorkflowID: of.ID, RunID: of.RunID, What: run.Cancelled, At: time.Now()}
	}
	found.ReceiptID = in.ReceiptID
	if err := r.Runs.Intervened(ctx, found); err != nil {
		return RecordCancellationResult{}, err
	}
	return RecordCancellationResult{found.String()}, nil
}

// FinishRunInput describes the end of a run.
type FinishRunInput struct {
	event.Ref
	// Status is the receipt's final status.
	Status string
	// Reason explains an outcome other than processed.
	Reason string
	Flow   string
	// Open lists the keys of effects that are not done and that no run will execute.
	Open []string `json:",omitempty"`
	// Paid is the money of an ignored event, or nil.
	Paid *Paid `json:",omitempty"`
	// ResetOf is the run that this one was reset from, or "" for an original. Replay is set for a replay.
	ResetOf string
	Replay  *Replay `json:",omitempty"`
	// Held is set if the run has waited for a person, or for a sink that was down or paused.
	Held      bool `json:",omitempty"`
	StartedAt time.Time
	// AsOf is the start of the workflow task that finishes the run.
	AsOf time.Time
}

// FinishRunResult is empty.
type FinishRunResult struct{}

// FinishRun closes the run and the receipt in one commit.
func (r *Runs) FinishRun(ctx context.Context, in FinishRunInput) (FinishRunResult, error) {
	if in.Paid != nil {
		if err := r.Receipts.SetPaid(ctx, in.ReceiptID, *in.Paid); err != nil {
			return FinishRunResult{}, err
		}
	}
	info := activity.GetInfo(ctx)
	finished := run.Finished{
		Ref: in.Ref, WorkflowID: info.WorkflowExecution.ID, RunID: info.WorkflowExecution.RunID,
		Outcome: in.Status, Status: receipt.Status(in.Status), Reason: in.Reason, StartedAt: in.StartedAt,
		AsOf: in.AsOf,
	}
	finished.Kind, finished.RequestedBy, finished.RunReason,
		finished.PreviousRunID = lineage(in.ResetOf, in.Replay, false)
	version, err := r.Runs.MarkFinished(ctx, finished)
	if err != nil && !settledOtherwise(err) {
		return FinishRunResult{}, fmt.Errorf("finish run of receipt %s: %w", in.ReceiptID, err)
	}
	if len(in.Open) > 0 { // after the commit, as [Finance.PostEntry] does
		if err := wakeNext(ctx, r.Ledger, in.Open); err != nil {
			return FinishRunResult{}, err
		}
	}
	r.logState(ctx, slog.LevelInfo, "run finished", in.Ref, "flow", in.Flow, "status", in.Status)
	r.Measures.finished(ctx, in, version)
	return FinishRunResult{}, nil
}

// settledOtherwise reports whether a status was permanently rejected. There are two cases. An operator has dismissed
// the receipt, so the transition is not allowed; the run is closed in this case, too. Or a later workflow task has
// written another status; Temporal then also rejects the result of this task.
func settledOtherwise(err error) bool {
	var refused *receipt.TransitionError
	return errors.As(err, &refused) || errors.Is(err, receipt.ErrOutrun)
}

// ReadEffectsInput lists effects and their undos.
type ReadEffectsInput struct {
	// EventID is the event of the requesting run.
	EventID string
	Keys    []string
	// Undos are the keys of the effects that would compensate Keys.
	Undos []string
}

// ReadEffectsResult contains the effects that other runs for the same fact have settled.
type ReadEffectsResult struct {
	// Settled holds the settled effects, by key.
	Settled map[string]effect.Result `json:",omitempty"`
	// Undoing is the key of an undo that has begun, or "".
	Undoing string `json:",omitempty"`
}

// ReadEffects reads the ledger state of effects. It claims nothing.
func (r *Runs) ReadEffects(ctx context.Context, in ReadEffectsInput) (ReadEffectsResult, error) {
	found, err := r.Ledger.Read(ctx, slices.Concat(in.Keys, in.Undos))
	if err != nil {
		return ReadEffectsResult{}, err
	}
	return in.Of(found), nil
}

// Of builds the result from the ledger state by key.
func (in ReadEffectsInput) Of(states map[string]effect.Standing) ReadEffectsResult {
	result := ReadEffectsResult{Settled: map[string]effect.Result{}}
	for _, key := range in.Keys {
		if s, ok := states[key]; ok && s.Settled() {
			recorded := effect.Recorded(s, in.EventID)
			if flow.HasOutput(key) {
				recorded.Value = nil // histories contain no output of a flow
			}
			result.Settled[key] = recorded
		}
	}
	for _, key := range in.Undos {
		if _, begun := states[key]; begun {
			result.Undoing = key
			break
		}
	}
	return result
}
