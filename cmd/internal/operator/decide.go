package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// decideTimeout is how long a decision may take to reach the audit trail: a run that is parked takes milliseconds. It is
// less than a command's time for the database, which would be blamed for it.
const decideTimeout = 20 * time.Second

// A receipt says that its run is parked a moment before the run takes decisions, and on a busy machine the moment lasts:
// a run that waits for none yet is asked again, every beginPoll for beginWithin.
const (
	beginPoll   = 200 * time.Millisecond
	beginWithin = 5 * time.Second
)

// decide takes a decision to the receipt's parked run, as an update whose ID is the request's. It returns when the run has
// recorded it.
func (d *Desk) decide(ctx context.Context, ask Ask, r *timeline.Receipt) (*Answer, error) {
	if err := d.decidable(ask, r); err != nil {
		return nil, err
	}
	in := workflows.DecisionInput{Who: ask.Who, Why: ask.Why, Effect: ask.Effect, Reference: ask.Reference, Confirm: ask.Confirm}
	result, err := d.update(ctx, ask, r, in)
	if err != nil {
		return nil, err
	}
	answer := ask.answer(r)
	if result.Effects != nil {
		answer.Effects = result.Effects
	}
	answer.About = result.About
	answer.Says = "it is recorded, and the run goes on"
	return answer, nil
}

// decidable refuses a decision that the receipt's run does not take, as far as the receipt tells.
func (d *Desk) decidable(ask Ask, r *timeline.Receipt) error {
	switch {
	case d.standOf(r) == stuck:
		return nil // where its worker is mended meanwhile, the run takes it
	case d.standOf(r) != parked:
		return d.refuse(ask, r, "is %s: %s is for a parked run", r.Status, ask.Verb)
	case r.Waits != nil && !slices.Contains(r.Waits.Decisions, ask.Verb):
		return d.refuse(ask, r, "is %s (%s), and its run takes no %s as it stands", r.Status, r.ReasonCode, ask.Verb)
	}
	return nil
}

func (d *Desk) update(ctx context.Context, ask Ask, r *timeline.Receipt, in workflows.DecisionInput) (result workflows.DecisionResult, err error) {
	// Without a worker nobody answers, and the SDK would ask for ever.
	asking, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if d.Unstick != nil {
		_ = d.Unstick(asking, r.WorkflowID) // where it cannot be done, the update says why, or is taken at the second try
	}
	result, err = d.send(asking, ask, r, in)
	for until := time.Now().Add(beginWithin); notParked(err) && time.Now().Before(until) && d.stillParked(asking, r); {
		select {
		case <-asking.Done():
		case <-time.After(beginPoll):
		}
		result, err = d.send(asking, ask, r, in)
	}
	var refused *temporal.ApplicationError
	var gone *serviceerror.NotFound
	var failing *serviceerror.WorkflowNotReady
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &gone):
		return result, &RefusedError{EventID: ask.ID, Verb: ask.Verb, Why: "has a run that has ended in Temporal, as pawl is about to notice", Try: []Choice{again(ask.ID, r)}}
	case notParked(err):
		return result, d.cameSecond(ctx, ask, r)
	case errors.As(err, &refused) && refused.Type() == workflows.ErrTypeInvalidDecision:
		return result, d.refuse(ask, r, "is parked, and %s", refused.Message())
	case errors.Is(asking.Err(), context.DeadlineExceeded):
		return result, fmt.Errorf("%s of %s: no answer within %s: does a worker run, and is Temporal well? The decision may still be followed; the same command with --request-id %s asks again, and is one decision",
			ask.Verb, r.WorkflowID, decideTimeout, ask.RequestID)
	case errors.As(err, &failing):
		return result, &RefusedError{
			EventID: ask.ID, Verb: ask.Verb, Why: "has a run that no worker can go on with: its workflow task fails, and the workers' log says why",
			Try: []Choice{again(ask.ID, r)},
		}
	case errors.As(err, &refused):
		return result, errors.New(refused.Message())
	}
	return result, fmt.Errorf("%s of %s: %w", ask.Verb, r.WorkflowID, err)
}

// send sends the update once.
func (d *Desk) send(ctx context.Context, ask Ask, r *timeline.Receipt, in workflows.DecisionInput) (result workflows.DecisionResult, err error) {
	handle, err := d.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.WorkflowID, UpdateID: ask.RequestID, UpdateName: ask.Verb, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &result)
	}
	return result, err
}

// notParked reports whether the run says that it waits for no decision.
func notParked(err error) bool {
	var refused *temporal.ApplicationError
	return errors.As(err, &refused) && refused.Type() == workflows.ErrTypeNotParked
}

// stillParked reports whether the receipt stands as it was read.
func (d *Desk) stillParked(ctx context.Context, r *timeline.Receipt) bool {
	now, err := FindEvent(ctx, d.DB, r.ID)
	return err == nil && now.Status == r.Status && now.Reason == r.Reason
}

// cameSecond refuses a decision about a run that was parked when the receipt was read, and waits for none now.
func (d *Desk) cameSecond(ctx context.Context, ask Ask, r *timeline.Receipt) error {
	now, err := FindEvent(ctx, d.DB, r.ID)
	if err != nil {
		return err
	}
	if now.Status == r.Status && now.Reason == r.Reason {
		show := Choice{Command: []string{"pawl", "events", "show", ask.ID}, Does: "says how it stands in a moment"}
		return &RefusedError{EventID: ask.ID, Verb: ask.Verb, Why: "has a run that takes another decision at this moment, or begins to wait for one", Try: []Choice{show}}
	}
	return d.refuse(ask, now, "was %s, and is %s by now: another decision came first", r.Status, now.Status)
}

// stand is how a receipt stands for an operator.
type stand int

const (
	waiting   stand = iota // for its run to be started
	working                // it has a run at work
	parked                 // its run waits for a decision
	asked                  // it waits for a person, and has no run of its own
	ended                  // its run was ended from outside
	stuck                  // no worker can go on with its run
	closed                 // its run has ended
	left                   // it was ignored
	unspoken               // it was ignored, because its source may not speak for it
	undertold              // it was ignored, and nothing would come of running it
)

func (d *Desk) standOf(r *timeline.Receipt) stand {
	switch receipt.Status(r.Status) {
	case receipt.Received:
		return waiting
	case receipt.Processing, receipt.Retrying:
		return working
	case receipt.Processed, receipt.Compensated:
		return closed
	case receipt.Ignored:
		switch {
		case r.ReasonCode == receipt.ModeNotWanted || r.ReasonCode == receipt.AccountNotWanted:
			return unspoken
		case r.WorkflowID != "":
			return closed
		case d.goesNowhere(r) != "":
			return undertold
		}
		return left
	}
	switch {
	case askedBeforeRun(r):
		return asked
	case r.ReasonCode == receipt.RunEnded:
		return ended
	case r.ReasonCode == receipt.RunStuck:
		return stuck
	}
	return parked
}

// askedBeforeRun reports whether a receipt waits for a person, and no run of its own has begun.
func askedBeforeRun(r *timeline.Receipt) bool {
	if r.Status != string(receipt.NeedsReview) && r.Status != string(receipt.Dead) {
		return false
	}
	return r.WorkflowID == "" || r.ReasonCode == receipt.AnotherRun || r.ReasonCode == receipt.StartRefused
}

// goesNowhere says why nothing would come of running an event, "" where something does.
func (d *Desk) goesNowhere(r *timeline.Receipt) string {
	in := inputOf(r)
	if !in.OnlyRelays() || len(d.Relays[r.Source]) > 0 {
		return ""
	}
	why := fmt.Sprintf("no flow is written for %s %s, and source %s relays to nobody", r.Provider, r.Type, r.Source)
	for _, group := range workflows.IgnoredTypes() {
		if r.Provider == "stripe" && slices.Contains(group.Types, r.Type) {
			why = fmt.Sprintf("no flow is for %s (%s), and source %s relays to nobody", r.Type, strings.ReplaceAll(group.Why, "`", ""), r.Source)
		}
	}
	return why
}
