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
	"github.com/pawlhq/pawl/activities/intervention"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// Runs records how runs stand, and what people decide about them: on the receipt, in the ledger and in the audit trail.
type Runs struct {
	Receipts *receipt.Store
	Runs     *run.Store
	Ledger   *ledger.Store
	Audit    *audit.Store
	Log      *slog.Logger
	// Measures takes how runs end, and when.
	Measures *Measures
}

// Waits is the receipt's, for flows, which know nothing of it.
type Waits = receipt.Waits

// OpenEffect is the receipt's, too.
type OpenEffect = receipt.OpenEffect

type (
	// Step is the receipt's, too.
	Step = receipt.Step
	// Left is the receipt's, too.
	Left = receipt.Left
)

// Replay says who has asked for a run, after an earlier one had ended, and why.
type Replay struct {
	// Request is the ID of the request: the run is started once for each.
	Request  string
	Who, Why string
	// Previous is the run before, "" where none is known.
	Previous string `json:",omitempty"`
}

// lineage says why a run exists: a reset of another, a replay, what the clock does, or "" for an original.
func lineage(resetOf string, replay *Replay, due bool) (kind run.Kind, who, why, previous string) {
	switch {
	case resetOf != "":
		return run.Reset, "", "", resetOf
	case replay != nil:
		return run.Replay, replay.Who, replay.Why, replay.Previous
	case due:
		return run.ByClock, "", "", ""
	}
	return "", "", "", ""
}

// ParkRunInput says why a run waits for a person.
type ParkRunInput struct {
	event.Ref
	// Status is receipt.NeedsReview or receipt.Dead.
	Status string
	Reason string
	// Waits names the effects that it waits for.
	Waits Waits
	// ResetOf is the run that this one was reset from, "" for an original; Replay is set for one that was asked for.
	ResetOf string
	Replay  *Replay `json:",omitempty"`
	// Due is set for a run of the clock.
	Due       bool `json:",omitempty"`
	StartedAt time.Time
	// AsOf is when the workflow task began that parks the run.
	AsOf time.Time
}

// ParkRunResult says whether others have settled what the run waits for before it was parked.
type ParkRunResult struct {
	Settled bool `json:",omitempty"`
}

// tell logs how the run of an event stands now.
func (r *Runs) tell(ctx context.Context, level slog.Level, message string, of event.Ref, more ...any) {
	run := activity.GetInfo(ctx).WorkflowExecution
	//nolint:sloglint // the callers' messages are constants
	r.Log.Log(ctx, level, message, of.Log(append(more, "workflow_id", run.ID, "run_id", run.RunID)...)...)
}

// own returns the receipt of the event, and refuses an event that is not what the receipt says.
func (r *Runs) own(ctx context.Context, of event.Ref) (receipt.Receipt, error) {
	held, err := r.Receipts.Get(ctx, of.ReceiptID)
	if err != nil {
		return held, fmt.Errorf("read receipt %s: %w", of.ReceiptID, err)
	}
	return held, checkRef(of, held)
}

// checkRef refuses an event that is not what the receipt says.
func checkRef(of event.Ref, held receipt.Receipt) error {
	of.Correlation = held.CorrelationID // a takeover of the receipt changes it, and it identifies nothing
	if of != held.Ref() {
		return effect.Foreign(of, nil)
	}
	return nil
}

// ParkRun shows on the receipt that its run waits for a person, and why. It also records the run: who
// started it may have died before that, and a decision is sent to the run that the receipt names.
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
	r.tell(ctx, slog.LevelWarn, "run parked", in.Ref, "status", in.Status, "reason", code)
	// Read the ledger only after the park is committed. A run that settles an effect looks for parked runs after it has
	// settled it, so one of the two sees the other.
	keys := in.Waits.Keys()
	found, err := r.Ledger.Read(ctx, keys)
	if err != nil {
		return ParkRunResult{}, err
	}
	return ParkRunResult{Settled: DoneMeanwhile(in.EventID, keys, found) != ""}, nil
}

// RecordCancellationInput names the receipt of a run that was cancelled.
type RecordCancellationInput struct{ event.Ref }

// RecordCancellationResult says who cancelled the run and why, as far as Temporal knows.
type RecordCancellationResult struct{ Words string }

// readingHistory bounds the reading of a run's history.
const readingHistory = 5 * time.Second

// RecordCancellation records who cancelled the run, and why: the run itself is told neither. If its history cannot be
// read, the cancellation is recorded without them.
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

// FinishRunInput says how a run ended.
type FinishRunInput struct {
	event.Ref
	// Status is the receipt's final status.
	Status string
	// Reason says why, if it is not simply processed.
	Reason string
	Flow   string
	// Open are the keys of the effects that it leaves as they are, neither done nor skipped: nothing comes of them.
	Open []string `json:",omitempty"`
	// ResetOf is the run that this one was reset from, "" for an original; Replay is set for one that was asked for.
	ResetOf string
	Replay  *Replay `json:",omitempty"`
	// Held is set for a run that has waited for a person, or for a sink that was out or paused.
	Held      bool `json:",omitempty"`
	StartedAt time.Time
	// AsOf is when the workflow task began that finishes the run.
	AsOf time.Time
}

// FinishRunResult is empty.
type FinishRunResult struct{}

// FinishRun closes the run and the receipt in one commit.
func (r *Runs) FinishRun(ctx context.Context, in FinishRunInput) (FinishRunResult, error) {
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
	r.tell(ctx, slog.LevelInfo, "run finished", in.Ref, "flow", in.Flow, "status", in.Status)
	r.Measures.finished(ctx, in, version)
	return FinishRunResult{}, nil
}

// settledOtherwise reports whether a status was refused that another try could not write either. Either the graph
// does not allow it: an operator dismissed the receipt meanwhile, and the run is closed all the same. Or a later
// workflow task has written another: then Temporal refuses whatever else comes of this worker's task, too.
func settledOtherwise(err error) bool {
	var refused *receipt.TransitionError
	return errors.As(err, &refused) || errors.Is(err, receipt.ErrOutrun)
}

// ReadEffectsInput names effects and what would take them back.
type ReadEffectsInput struct {
	// EventID is the event of the run that asks.
	EventID string
	Keys    []string
	// Undos are the keys of the effects that take those back.
	Undos []string
}

// ReadEffectsResult says what other runs for the same fact have made of the effects.
type ReadEffectsResult struct {
	// Settled holds the settled effects, by key.
	Settled map[string]effect.Result `json:",omitempty"`
	// Undoing is an undo that has begun, "" for none.
	Undoing string `json:",omitempty"`
}

// ReadEffects reads how effects stand in the ledger. It claims nothing.
func (r *Runs) ReadEffects(ctx context.Context, in ReadEffectsInput) (ReadEffectsResult, error) {
	found, err := r.Ledger.Read(ctx, slices.Concat(in.Keys, in.Undos))
	if err != nil {
		return ReadEffectsResult{}, err
	}
	return in.Of(found), nil
}

// Of makes the result from how the effects stand, by key.
func (in ReadEffectsInput) Of(stands map[string]effect.Standing) ReadEffectsResult {
	result := ReadEffectsResult{Settled: map[string]effect.Result{}}
	for _, key := range in.Keys {
		if s, ok := stands[key]; ok && s.Settled() {
			result.Settled[key] = effect.Recorded(s, in.EventID)
		}
	}
	for _, key := range in.Undos {
		if _, begun := stands[key]; begun {
			result.Undoing = key
			break
		}
	}
	return result
}
