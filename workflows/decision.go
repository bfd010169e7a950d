package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
)

// The updates that a parked run takes. Each takes a DecisionInput and returns a DecisionResult as soon
// as the decision is recorded; the run then goes on by itself.
const (
	UpdateRetry      = "retry"
	UpdateSkip       = "skip"
	UpdateCompensate = "compensate"
)

// DecisionInput is an operator's decision about a parked run.
type DecisionInput struct {
	// Who decides and Why: both are required and stand in the audit trail.
	Who string
	Why string
	// Effect names the effect to skip by its key or kind; "" means every one that is not done. Retry
	// and compensate concern the run.
	Effect string
}

// DecisionResult says what the decision was taken for.
type DecisionResult struct {
	Action string
	// Effects are the keys of the effects that were not done when the decision was taken.
	Effects []string
}

// decision is what an operator decided.
type decision struct {
	// request is the update's ID.
	request string
	action  string
	input   DecisionInput
}

// The types of the errors that refuse a decision.
const (
	// ErrTypeNotParked is for a run that waits for none.
	ErrTypeNotParked = "NotParked"
	// ErrTypeInvalidDecision is for one that the run cannot take: it says too little, or what cannot be done.
	ErrTypeInvalidDecision = "InvalidDecision"
)

// maxWho and maxWhy bound a decision, in bytes: the run's result and its table repeat both for each effect, and
// Temporal ends a run whose result is too large.
const maxWho, maxWhy = 200, 2000

// listen registers the updates. It is called before anything else happens, so that a decision that is
// re-applied after a reset finds its handler.
func (f *flow) listen() error {
	for _, action := range []string{UpdateRetry, UpdateSkip, UpdateCompensate} {
		handler := func(ctx workflow.Context, in DecisionInput) (DecisionResult, error) {
			lasting, _ := workflow.NewDisconnectedContext(ctx) // a decision about a cancelled run is taken, too
			return f.take(lasting, decision{workflow.GetCurrentUpdateInfo(ctx).ID, action, in})
		}
		options := workflow.UpdateHandlerOptions{
			Description: "Decide what happens to a parked run; needs who and why.",
			Validator:   func(in DecisionInput) error { return f.validate(action, in) },
		}
		if err := workflow.SetUpdateHandlerWithOptions(f.ctx, action, handler, options); err != nil {
			return fmt.Errorf("listen for %s: %w", action, err)
		}
	}
	return nil
}

// validate refuses what makes no sense; a refused update leaves nothing in the history. A reset
// re-applies the decisions of the run before at the new run's start; see take. What comes later is
// somebody's new decision, who would be told that it is taken.
func (f *flow) validate(action string, in DecisionInput) error {
	switch {
	case strings.TrimSpace(in.Who) == "" || strings.TrimSpace(in.Why) == "":
		return temporal.NewApplicationError("who and why are required: both go into the audit trail", ErrTypeInvalidDecision)
	case !holdable(in.Who, maxWho) || !holdable(in.Why, maxWhy):
		return temporal.NewApplicationError(fmt.Sprintf("who (%d bytes at most) and why (%d) must be text without NUL", maxWho, maxWhy), ErrTypeInvalidDecision)
	case f.resetBegins && action != UpdateRetry && workflow.GetInfo(f.ctx).GetCurrentHistoryLength() == f.firstTask:
		return nil
	case !f.parked || f.decided != nil:
		return temporal.NewApplicationError("the run waits for no decision", ErrTypeNotParked)
	case action == UpdateCompensate && f.irreversible:
		return temporal.NewApplicationError("what this run does cannot be taken back: retry, or skip what is not done", ErrTypeInvalidDecision)
	case action == UpdateSkip && in.Effect != "" && len(f.match(in.Effect)) == 0:
		return temporal.NewApplicationError(fmt.Sprintf("no unfinished effect %q; unfinished are: %s", in.Effect, strings.Join(keysOf(f.unsettled()), ", ")), ErrTypeInvalidDecision)
	}
	return nil
}

// holdable reports whether the audit trail can hold s: Postgres takes no NUL, however often it is tried. What was no
// UTF-8 has become so when the update's JSON was read.
func holdable(s string, most int) bool {
	return len(s) <= most && !strings.Contains(s, "\x00")
}

// take records the decision in the audit trail and lets the run go on. With an error, which there is where somebody
// fails the activity by hand, the run waits for another decision. A decision that a reset re-applies before its run has
// come to anything is kept until the run parks again.
func (f *flow) take(ctx workflow.Context, d decision) (DecisionResult, error) {
	if !f.parked {
		f.kept = append(f.kept, d)
		return DecisionResult{Action: d.action}, nil
	}
	f.decided = &d
	result := DecisionResult{Action: d.action, Effects: keysOf(f.unsettled())}
	err := f.execute(ctx, attempt{
		name: "decision:" + d.request, activity: runs.RecordDecision,
		input: activities.RecordDecisionInput{
			RequestID: d.request, ReceiptID: f.in.ReceiptID, EventID: f.in.EventID,
			Action: d.action, Who: d.input.Who, Why: d.input.Why, Effects: result.Effects, AsOf: f.asOf(),
		},
	}, nil)
	if err != nil {
		f.decided = nil
		return DecisionResult{}, fmt.Errorf("the decision is not in the audit trail and is not followed: %w", err)
	}
	f.recorded = true
	return result, nil
}

// recall returns the decision from before a reset that settles this park as well: one that was taken while one of the
// same effects was not done or, where none is open now, while none was. What was decided about another question has
// to be decided anew. A retry is never among those that are kept: what it did is in the ledger, and what parks
// after it has to be looked at anew.
func (f *flow) recall() (decision, bool, error) {
	open := keysOf(f.unsettled())
	for i, d := range f.kept {
		var then activities.RecallDecisionResult
		if err := f.execute(f.ctx, attempt{
			name: "recall:" + d.request, activity: runs.RecallDecision,
			input: activities.RecallDecisionInput{RequestID: d.request},
		}, &then); err != nil {
			return decision{}, false, err
		}
		same := slices.ContainsFunc(open, func(key string) bool { return slices.Contains(then.Effects, key) })
		if then.Found && (same || len(open) == 0 && len(then.Effects) == 0) {
			f.kept = slices.Delete(f.kept, i, i+1)
			return d, true, nil
		}
	}
	return decision{}, false, nil
}
