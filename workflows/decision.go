package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// These are the updates that a parked run accepts. The input of each is a DecisionInput. The update returns a
// DecisionResult as soon as the run has found the decision in the audit trail, and the run then continues. The ID of
// the update is the ID of the request, so a repeated request is one decision.
const (
	// UpdateRetry retries the open effects, except uncertain effects: see UpdateResend.
	UpdateRetry = "retry"
	// UpdateSkip continues without the open effects.
	UpdateSkip = "skip"
	// UpdateCompensate compensates the effects that are done.
	UpdateCompensate = "compensate"
	// UpdateDone marks an effect as done: a person has verified it, or has done it by hand.
	UpdateDone = "done"
	// UpdateResend executes an uncertain effect again. The effect may then happen twice.
	UpdateResend = "resend"
	// UpdateApprove and UpdateReject close a review: see [Reviews].
	UpdateApprove = "approve"
	UpdateReject  = "reject"
)

// Decisions lists the updates.
func Decisions() []string {
	return []string{UpdateRetry, UpdateSkip, UpdateCompensate, UpdateDone, UpdateResend, UpdateApprove, UpdateReject}
}

// DecisionInput is an operator's decision about a parked run.
type DecisionInput struct {
	// Actor and Reason are required. The audit trail stores them.
	Actor  string
	Reason string
	// Effect selects an open effect by its key or kind. For retry and skip, "" selects all of them. Done and resend
	// concern one effect and accept "" if only one is open. The other decisions concern the run.
	Effect string
	// Reference identifies the effect in the outside system, e.g. an entry number or a line in a mail server's log.
	// Done requires it.
	Reference string `json:",omitempty"`
	// Confirm repeats the key of the effect. Resend requires it as a confirmation.
	Confirm string `json:",omitempty"`
}

// DecisionResult is the answer to a decision.
type DecisionResult struct {
	Action string
	// Effects are the keys of the effects that were open at the time of the decision. About are the keys of the effects
	// that the decision selects.
	Effects []string
	About   []string `json:",omitempty"`
}

type decision struct {
	// request is the update's ID.
	request string
	action  string
	input   DecisionInput
}

// These are the types of the application errors that reject a decision.
const (
	// ErrTypeNotParked: the run is not waiting for a decision.
	ErrTypeNotParked = "NotParked"
	// ErrTypeInvalidDecision: a required field is missing, or the run cannot execute the decision.
	ErrTypeInvalidDecision = "InvalidDecision"
)

// MaxWho, MaxWhy and maxReference are the maximum lengths of the texts in a decision, in bytes. The result of the run
// contains these texts for each effect, and Temporal fails a run with a result that is too large.
const (
	MaxWho       = 200
	MaxWhy       = 2000
	maxReference = 500
)

// check rejects a decision with a missing field or with text that the audit trail cannot store.
func (in DecisionInput) check() error {
	switch {
	case strings.TrimSpace(in.Actor) == "" || strings.TrimSpace(in.Reason) == "":
		return invalid("who and why are required: the audit trail stores both")
	case !holdable(in.Actor, MaxWho) || !holdable(in.Reason, MaxWhy) || !holdable(in.Reference, maxReference):
		return invalid("who (%d bytes at most), why (%d) and reference (%d) must be text without NUL", MaxWho, MaxWhy,
			maxReference)
	}
	return nil
}

// checkAllowed rejects a decision that does not fit the state of the run.
func (f *flow) checkAllowed(action string, in DecisionInput) error {
	switch {
	case action == UpdateCompensate && f.irreversible:
		return invalid("the effects of this run cannot be compensated: it accepts %s", strings.Join(f.takes, ", "))
	case !slices.Contains(f.takes, action):
		return invalid("the run does not accept %s in its present state: it accepts %s", action,
			strings.Join(f.takes, ", "))
	}
	_, err := CheckDecision(f.waits().Effects, action, in)
	return err
}

func invalid(format string, args ...any) error {
	return temporal.NewApplicationError(fmt.Sprintf(format, args...), ErrTypeInvalidDecision)
}

// CheckDecision returns the keys of the effects that a decision concerns. It returns nil for a decision about the
// whole run. open are the open effects of the parked run. If the run cannot accept the decision, the error is an
// application error of type [ErrTypeInvalidDecision].
func CheckDecision(open []activities.OpenEffect, action string, in DecisionInput) (about []string, err error) {
	is, aboutEffects := effectDecisions[action]
	if !aboutEffects {
		return nil, nil
	}
	var named, keys []string
	for _, e := range open {
		keys = append(keys, e.Key)
		if in.Effect != "" && in.Effect != e.Key && in.Effect != e.Kind {
			continue
		}
		named = append(named, e.Key)
		if is.may(e) {
			about = append(about, e.Key)
		}
	}
	one := action == UpdateDone || action == UpdateResend
	switch {
	case len(open) == 0 && in.Effect == "": // a review concerns the whole run
		return nil, nil
	case len(named) == 0:
		return nil, invalid("no unfinished effect %q; unfinished are: %s", in.Effect, strings.Join(keys, ", "))
	case len(about) == 0:
		return nil, invalid(is.none, named[0])
	case !one:
		return about, nil
	case len(about) > 1:
		return nil, invalid("%s applies to one effect: name one of %s", action, strings.Join(about, ", "))
	case action == UpdateDone && strings.TrimSpace(in.Reference) == "":
		return nil, invalid("done requires a reference that proves that %s has happened, such as an entry number", about[0])
	case action == UpdateResend && in.Confirm != about[0]:
		return nil, invalid("resend may execute the effect twice: confirm with the key of the effect, %s", about[0])
	}
	return about, nil
}

// effectDecisions holds the decisions about effects. For each decision, it defines the effects that the decision can
// select, and the error if it can select none of the open effects.
var effectDecisions = map[string]struct {
	may  func(activities.OpenEffect) bool
	none string
}{
	UpdateRetry: {
		func(e activities.OpenEffect) bool { return !e.Uncertain },
		"%s may have happened, so it cannot be retried: check whether it has, then decide done, resend or skip",
	},
	UpdateSkip: {func(activities.OpenEffect) bool { return true }, ""},
	UpdateDone: {
		func(e activities.OpenEffect) bool { return e.ByHand },
		"%s cannot be marked as done: pawl needs its result; retry or skip it",
	},
	UpdateResend: {
		func(e activities.OpenEffect) bool { return e.Uncertain },
		"%s is not uncertain: use retry; resend is only for effects that may have happened",
	},
}

// holdable reports whether the audit trail can store s: s must not contain NUL, which Postgres rejects, and not be
// longer than most bytes. s is valid UTF-8, because it was decoded from JSON.
func holdable(s string, most int) bool {
	return len(s) <= most && !strings.Contains(s, "\x00")
}

// follow applies a decision to the steps that it selects. It does not change the other steps, and the run parks for
// them again. It returns a reason if the run must compensate all effects.
func (f *flow) follow(d decision, steps []*step) (whyUndo string, err error) {
	if d.action == UpdateCompensate || d.action == UpdateReject {
		return fmt.Sprintf("%s decided to %s: %s", d.input.Actor, d.action, d.input.Reason), nil
	}
	// Another run may have settled the effects in the meantime, so that keys is empty.
	keys, _ := CheckDecision(f.waits().Effects, d.action, d.input)
	var about []*step
	for _, s := range f.open(steps) {
		if s.held = !slices.Contains(keys, s.Key); !s.held {
			about = append(about, s)
		}
	}
	switch d.action {
	case UpdateRetry, UpdateResend:
		for _, s := range about {
			s.decided = true
			if s.begun {
				s.retry()
			}
		}
	case UpdateSkip:
		return "", f.skip(d, about)
	case UpdateDone:
		return "", f.markDone(d, about)
	}
	return "", nil
}

// skip records that the steps are skipped. A step that another run has executed in the meantime counts as done.
func (f *flow) skip(d decision, steps []*step) error {
	for _, s := range steps {
		reason := fmt.Sprintf("skipped by %s: %s", d.input.Actor, d.input.Reason)
		var skipped activities.SkipEffectResult
		if err := f.execute(attempt{
			name: "skip:" + s.Key, activity: runs.SkipEffect,
			input: activities.SkipEffectInput{Effect: f.call(s), Reason: reason, Entry: s.Entry(),
				Actor: d.input.Actor, Why: d.input.Reason},
		}, &skipped); err != nil {
			return err
		}
		if skipped.Met != nil {
			s.result = *skipped.Met
			continue
		}
		s.skipped, s.decided, s.result = true, true, effect.Result{State: effect.Skipped, Reason: reason}
	}
	return nil
}

// markDone records that a person confirmed the steps as done, and sends nothing. If another run has executed a step in
// the meantime, the step gets the result of that run.
func (f *flow) markDone(d decision, steps []*step) error {
	for _, s := range steps {
		call := f.call(s)
		call.ByHand = &effect.ByHand{Actor: d.input.Actor, Reason: d.input.Reason, Reference: d.input.Reference}
		// Decode into an empty result. Otherwise the fields of the old result would remain.
		s.decided, s.result = true, effect.Result{}
		if err := f.execute(attempt{name: "done:" + s.Key, step: s.Step, call: call}, &s.result); err != nil {
			return err
		}
	}
	return nil
}
