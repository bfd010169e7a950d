package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
)

// The updates that a parked run takes. Each takes a DecisionInput and returns a DecisionResult as soon as the run has
// found the decision in the audit trail; the run then goes on by itself. The update's ID is the request's: the same
// ID twice is one decision.
const (
	// UpdateRetry tries again what is not done. What may have happened it leaves alone: see UpdateResend.
	UpdateRetry = "retry"
	// UpdateSkip goes on without what is not done.
	UpdateSkip = "skip"
	// UpdateCompensate takes back what was done.
	UpdateCompensate = "compensate"
	// UpdateDone says that an effect has happened: a person has seen it, or has done it by hand.
	UpdateDone = "done"
	// UpdateResend does an effect once more of which nobody knows whether it happened: it may then happen twice.
	UpdateResend = "resend"
	// UpdateApprove and UpdateReject answer a review: see [Reviews].
	UpdateApprove = "approve"
	UpdateReject  = "reject"
)

// Decisions lists the updates.
func Decisions() []string {
	return []string{UpdateRetry, UpdateSkip, UpdateCompensate, UpdateDone, UpdateResend, UpdateApprove, UpdateReject}
}

// DecisionInput is an operator's decision about a parked run.
type DecisionInput struct {
	// Who decides and Why: both are required and stand in the audit trail.
	Who string
	Why string
	// Effect names an effect that is not done by its key or kind. For retry and skip, "" means every one; done and resend
	// are about one, and take "" where no other is open. The other decisions concern the run.
	Effect string
	// Reference says where outside an effect that is done can be found: an entry's number, a line of a mail server's log.
	// Done requires it.
	Reference string `json:",omitempty"`
	// Confirm repeats the effect's key. Resend requires it: whoever sends it has been asked.
	Confirm string `json:",omitempty"`
}

// DecisionResult says what the decision was taken for.
type DecisionResult struct {
	Action string
	// Effects are the keys of the effects that were not done when the decision was taken, and About those of them that
	// it is about.
	Effects []string
	About   []string `json:",omitempty"`
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

// MaxWho, MaxWhy and maxReference bound a decision, in bytes: the run's result and its table repeat them for each
// effect, and Temporal ends a run whose result is too large.
const (
	MaxWho       = 200
	MaxWhy       = 2000
	maxReference = 500
)

// listen registers the updates. It is called before anything else happens, so that a decision that is
// re-applied after a reset finds its handler.
func (f *flow) listen() error {
	for _, action := range Decisions() {
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
		return invalid("who and why are required: both go into the audit trail")
	case !holdable(in.Who, MaxWho) || !holdable(in.Why, MaxWhy) || !holdable(in.Reference, maxReference):
		return invalid("who (%d bytes at most), why (%d) and reference (%d) must be text without NUL", MaxWho, MaxWhy,
			maxReference)
	case f.resetBegins && lasts(action) && workflow.GetInfo(f.ctx).GetCurrentHistoryLength() == f.firstTask:
		return nil
	case !f.parked || f.decided != nil:
		return temporal.NewApplicationError("the run waits for no decision", ErrTypeNotParked)
	case action == UpdateCompensate && f.irreversible:
		return invalid("what this run does cannot be taken back: it takes %s", strings.Join(f.takes, ", "))
	case !slices.Contains(f.takes, action):
		return invalid("the run takes no %s as it stands: it takes %s", action, strings.Join(f.takes, ", "))
	}
	_, err := CheckDecision(f.waits().Effects, action, in)
	return err
}

func invalid(format string, args ...any) error {
	return temporal.NewApplicationError(fmt.Sprintf(format, args...), ErrTypeInvalidDecision)
}

// lasts reports whether a decision is kept over a reset. What a retry, a done and a resend came to is in the ledger,
// and what parks after them has to be read anew.
func lasts(action string) bool {
	return action != UpdateRetry && action != UpdateDone && action != UpdateResend
}

// CheckDecision returns the keys of the effects that a decision about a parked run is about, none for one about the
// whole run, or why it cannot be taken for what it names. open are the effects that the run waits for. The error is
// an application error of type [ErrTypeInvalidDecision].
func CheckDecision(open []activities.OpenEffect, action string, in DecisionInput) (about []string, err error) {
	var may func(activities.OpenEffect) bool
	switch action {
	case UpdateRetry:
		may = func(e activities.OpenEffect) bool { return !e.Uncertain }
	case UpdateSkip:
		may = func(activities.OpenEffect) bool { return true }
	case UpdateDone:
		may = func(e activities.OpenEffect) bool { return e.ByHand }
	case UpdateResend:
		may = func(e activities.OpenEffect) bool { return e.Uncertain }
	default:
		return nil, nil
	}
	var named, keys []string
	for _, e := range open {
		keys = append(keys, e.Key)
		if in.Effect != "" && in.Effect != e.Key && in.Effect != e.Kind {
			continue
		}
		named = append(named, e.Key)
		if may(e) {
			about = append(about, e.Key)
		}
	}
	one := action == UpdateDone || action == UpdateResend
	switch {
	case len(open) == 0 && in.Effect == "": // a review: it is about the run
		return nil, nil
	case len(named) == 0:
		return nil, invalid("no unfinished effect %q; unfinished are: %s", in.Effect, strings.Join(keys, ", "))
	case len(about) == 0:
		return nil, invalid(noneMay[action], named[0])
	case !one:
		return about, nil
	case len(about) > 1:
		return nil, invalid("%s is about one effect: name one of %s", action, strings.Join(about, ", "))
	case action == UpdateDone && strings.TrimSpace(in.Reference) == "":
		return nil, invalid("done needs a reference: where outside it can be seen that %s has happened", about[0])
	case action == UpdateResend && in.Confirm != about[0]:
		return nil, invalid("to send again may do it twice: confirm it with the effect's key, %s", about[0])
	}
	return about, nil
}

// noneMay says why an action is about none of the effects that it names.
var noneMay = map[string]string{
	UpdateRetry:  "%s may have happened, and a retry does not do it once more: see whether it has, then decide done, resend or skip",
	UpdateResend: "%s is not in doubt: a retry does it, and only what may or may not have happened is sent again",
	UpdateDone:   "nobody does %s by hand: it happens in pawl's own database, or what it comes to is what it is for; retry or skip it",
}

// holdable reports whether the audit trail can hold s: Postgres takes no NUL, however often it is tried. What was no
// UTF-8 has become so when the update's JSON was read.
func holdable(s string, most int) bool {
	return len(s) <= most && !strings.Contains(s, "\x00")
}

// take has the decision looked up in the audit trail and lets the run go on. An error leaves the run waiting for
// another decision: the trail does not hold this one, or somebody failed the activity by hand. A decision that a
// reset re-applies before its run has come to anything is kept until the run parks again.
func (f *flow) take(ctx workflow.Context, d decision) (DecisionResult, error) {
	if !f.parked {
		f.kept = append(f.kept, d)
		return DecisionResult{Action: d.action}, nil
	}
	about, err := CheckDecision(f.waits().Effects, d.action, d.input)
	if err != nil { // as recalled, where the run stands otherwise now
		return DecisionResult{}, err
	}
	f.decided = &d
	var recorded activities.RecordDecisionResult
	result := DecisionResult{Action: d.action, Effects: keysOf(f.unsettled()), About: about}
	err = f.execute(ctx, attempt{
		name: "decision:" + d.request, activity: runs.RecordDecision,
		input: activities.RecordDecisionInput{
			Ref: f.in.Ref, RequestID: d.request, Action: d.action, Who: d.input.Who, Why: d.input.Why,
			Effects: result.Effects, Effect: d.input.Effect, Reference: d.input.Reference, AsOf: f.asOf(),
		},
	}, &recorded)
	if recorded.DoneMeanwhile != "" {
		f.decided, f.settledMeanwhile = nil, true
		return DecisionResult{}, invalid("%s", recorded.DoneMeanwhile)
	}
	if err != nil {
		f.decided = nil
		return DecisionResult{}, fmt.Errorf("the decision is not followed: %w", err)
	}
	f.recorded = true
	return result, nil
}

// recall returns the decision from before a reset that settles this park as well: one that was taken while one of the
// same effects was not done or, where none is open now, for the same reason. What was decided about another question
// has to be decided anew.
func (f *flow) recall(why reason) (decision, bool, error) {
	open := keysOf(f.unsettled())
	for i, d := range f.kept {
		var then activities.RecallDecisionResult
		if err := f.execute(f.ctx, attempt{
			name: "recall:" + d.request, activity: runs.RecallDecision,
			input: activities.RecallDecisionInput{Ref: f.in.Ref, RequestID: d.request},
		}, &then); err != nil {
			return decision{}, false, err
		}
		same := slices.ContainsFunc(open, func(key string) bool { return slices.Contains(then.Effects, key) })
		if then.Found && (same || len(open) == 0 && len(then.Effects) == 0 && then.Code == why.code) {
			f.kept = slices.Delete(f.kept, i, i+1)
			return d, true, nil
		}
	}
	return decision{}, false, nil
}
