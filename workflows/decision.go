package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// The updates that a parked run takes. Each takes a DecisionInput and returns a DecisionResult as soon as the run has
// found the decision in the audit trail; the run then goes on by itself. The update's ID is the request's: the same
// ID twice is one decision.
const (
	// UpdateRetry tries the open effects again. It leaves effects in doubt alone: see UpdateResend.
	UpdateRetry = "retry"
	// UpdateSkip goes on without the open effects.
	UpdateSkip = "skip"
	// UpdateCompensate takes back the effects that are done.
	UpdateCompensate = "compensate"
	// UpdateDone says that an effect has happened: a person has seen it, or has done it by hand.
	UpdateDone = "done"
	// UpdateResend does an effect in doubt once more: it may then happen twice.
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
	// Both are required and stand in the audit trail.
	Who string
	Why string
	// Effect names an open effect by its key or kind. For retry and skip, "" means every one; done and resend are about
	// one, and take "" if no other is open. The other decisions concern the run.
	Effect string
	// Reference is the effect's name outside, such as an entry's number or a line of a mail server's log. Done requires
	// it.
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

// check refuses a decision that says too little of itself, or more than the audit trail can hold.
func (in DecisionInput) check() error {
	switch {
	case strings.TrimSpace(in.Who) == "" || strings.TrimSpace(in.Why) == "":
		return invalid("who and why are required: both go into the audit trail")
	case !holdable(in.Who, MaxWho) || !holdable(in.Why, MaxWhy) || !holdable(in.Reference, maxReference):
		return invalid("who (%d bytes at most), why (%d) and reference (%d) must be text without NUL", MaxWho, MaxWhy,
			maxReference)
	}
	return nil
}

// mayDecide refuses a decision that the run cannot take as it stands.
func (f *flow) mayDecide(action string, in DecisionInput) error {
	switch {
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

// CheckDecision returns the keys of the effects that a decision about a parked run is about, none for one about the
// whole run. open are the effects that the run waits for. The error says why the run cannot take the decision. It is an
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
	case len(open) == 0 && in.Effect == "": // a review: it is about the run
		return nil, nil
	case len(named) == 0:
		return nil, invalid("no unfinished effect %q; unfinished are: %s", in.Effect, strings.Join(keys, ", "))
	case len(about) == 0:
		return nil, invalid(is.none, named[0])
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

// effectDecisions are the decisions about effects: which effects each may be about, and why it is about none.
var effectDecisions = map[string]struct {
	may  func(activities.OpenEffect) bool
	none string
}{
	UpdateRetry: {
		func(e activities.OpenEffect) bool { return !e.Uncertain },
		"%s may have happened, and a retry does not do it once more: see whether it has, then decide done, resend or skip",
	},
	UpdateSkip: {func(activities.OpenEffect) bool { return true }, ""},
	UpdateDone: {
		func(e activities.OpenEffect) bool { return e.ByHand },
		"nobody does %s by hand: it happens in pawl's own database, or what it comes to is what it is for; retry or skip it",
	},
	UpdateResend: {
		func(e activities.OpenEffect) bool { return e.Uncertain },
		"%s is not in doubt: a retry does it, and only what may or may not have happened is sent again",
	},
}

// holdable reports whether the audit trail can hold s: Postgres takes no NUL, however often it is tried. Reading
// the update's JSON has made s valid UTF-8.
func holdable(s string, most int) bool {
	return len(s) <= most && !strings.Contains(s, "\x00")
}

// follow applies a person's decision to the steps. It returns a reason when that is to take everything back. Steps that
// the decision is not about stay as they are, and the run asks about them again.
func (f *flow) follow(d decision, steps []*step) (whyUndo string, err error) {
	if d.action == UpdateCompensate || d.action == UpdateReject {
		return fmt.Sprintf("%s decided to %s: %s", d.input.Who, d.action, d.input.Why), nil
	}
	// Another run may have settled meanwhile what the decision is about, which leaves nothing to do.
	keys, _ := CheckDecision(f.waits().Effects, d.action, d.input)
	var about []*step
	for _, s := range f.open(steps) {
		if s.held = !slices.Contains(keys, s.key); !s.held {
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
		return "", f.sayDone(d, about)
	}
	return "", nil
}

// skip records that steps shall not be done. One that another run has done meanwhile counts as done.
func (f *flow) skip(d decision, steps []*step) error {
	for _, s := range steps {
		reason := fmt.Sprintf("skipped by %s: %s", d.input.Who, d.input.Why)
		var skipped activities.SkipEffectResult
		if err := f.execute(attempt{
			name: "skip:" + s.key, activity: runs.SkipEffect,
			input: activities.SkipEffectInput{Effect: f.call(s), Reason: reason},
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

// sayDone records that steps have happened, as a person says: nothing is sent. One that another run has done
// meanwhile is that one's.
func (f *flow) sayDone(d decision, steps []*step) error {
	for _, s := range steps {
		call := f.call(s)
		call.ByHand = &effect.ByHand{Who: d.input.Who, Why: d.input.Why, Reference: d.input.Reference}
		// a result is decoded into what stands there: an old reason would stay
		s.decided, s.result = true, effect.Result{}
		if err := f.execute(attempt{name: "done:" + s.key, work: s.work, call: call}, &s.result); err != nil {
			return err
		}
	}
	return nil
}
