package workflows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// reason says why a run is parked, or ended otherwise than processed: a code for filters and counts, and words.
type reason struct{ code, text string }

// String is how a receipt holds it.
func (r reason) String() string {
	if r.code == "" {
		return r.text
	}
	return r.code + ": " + r.text
}

// as is how Temporal's lists have it: the receipt's status, and the code where there is one.
func (r reason) as(status string) string {
	if r.code == "" {
		return status
	}
	return status + ":" + r.code
}

// The codes of the reasons that the engine itself has; the others come with the facts.
const (
	codeFailed      = "effect_failed"
	codeUncertain   = "effect_uncertain"
	codeRefused     = "effect_refused"
	codeUndo        = "undo_failed" // an undo is refused, in doubt or failed
	codeCancelled   = "cancelled"
	codeDismissed   = "dismissed"
	codeCompensated = "compensated"
)

// parkFor parks the run for the steps that are not done. A run that was cancelled parks for that.
func (f *flow) parkFor(open []*step) (decision, error) {
	status, why := f.whyParked(open)
	f.takes = f.aboutEffects()
	if f.isCancelled() {
		return f.parkCancelled(why.text)
	}
	return f.park(status, why)
}

// aboutEffects lists the decisions that can be taken about effects that are not done.
func (f *flow) aboutEffects() (takes []string) {
	for _, action := range []string{UpdateSkip, UpdateRetry, UpdateDone, UpdateResend} {
		if slices.ContainsFunc(f.waits().Effects, effectDecisions[action].may) {
			takes = append(takes, action)
		}
	}
	if !f.irreversible && !f.undoing {
		takes = append(takes, UpdateCompensate)
	}
	return takes
}

// isCancelled reports whether the run was cancelled and nobody has decided about that yet.
func (f *flow) isCancelled() bool {
	return !f.cancelSeen && !f.undoing && f.cancelled()
}

// parkCancelled parks a run that was cancelled, or takes everything back where that is the policy. Cancelling a run is
// the main button of a parked one in the Temporal UI, one click away: it begins no more effects, and done effects stay
// done.
func (f *flow) parkCancelled(before string) (decision, error) {
	f.cancelSeen = true
	cancelled := activities.RecordCancellationResult{Words: "cancelled in Temporal"}
	if err := f.execute(attempt{
		name: "cancelled", activity: runs.RecordCancellation, input: activities.RecordCancellationInput{Ref: f.in.Ref},
	}, &cancelled); err != nil {
		return decision{}, err
	}
	if f.cancelCompensates && !f.irreversible {
		return decision{action: UpdateCompensate,
			input: DecisionInput{Who: "Temporal", Why: "the run was " + cancelled.Words +
				", and policy.cancel is compensate"}}, nil
	}
	return f.park(needsReview,
		reason{codeCancelled, "the run was " + cancelled.Words + "; what was done stays done. " + before})
}

// whyParked is dead when trying by itself will not finish an effect, and needs_review when a person must judge.
func (f *flow) whyParked(open []*step) (status string, why reason) {
	status, why.code = needsReview, codeRefused
	var words []string
	for _, s := range open {
		switch s.result.State {
		case effect.Failed:
			status, why.code = dead, codeFailed
		case effect.Uncertain:
			if status != dead {
				why.code = codeUncertain
			}
		}
		words = append(words, fmt.Sprintf("%s is %s: %s", s.kind, s.result.State, s.result.Reason))
	}
	if f.undoing {
		why.code = codeUndo
		for _, s := range open {
			if owner := f.settings[s.sink].Owner; owner != "" {
				words = append(words, "owner of "+s.sink+": "+owner)
			}
		}
	}
	why.text = strings.Join(words, "; ")
	return status, why
}

// review parks a run that has done nothing yet until a person has reviewed it. It returns a reason to end the run
// when the person decided that nothing shall be done, and none to try again: see [AtLoad].
func (f *flow) review(why reason) (dismissed reason, err error) {
	f.settling, f.takes = nil, []string{UpdateApprove, UpdateReject, UpdateRetry, UpdateSkip}
	d, err := f.park(needsReview, why)
	if err != nil || d.action == UpdateRetry || d.action == UpdateApprove {
		return reason{}, err
	}
	return reason{codeDismissed, fmt.Sprintf("nothing done: %s by %s: %s", d.action, d.input.Who, d.input.Why)}, nil
}

// waits is what the run waits for, and how it has come there: its preview goes the same way.
func (f *flow) waits() activities.Waits {
	w := activities.Waits{Decisions: f.takes, Undoing: f.undoing || f.undone, Left: f.left}
	for _, s := range f.steps {
		w.Steps = append(w.Steps, activities.Step{Key: s.key, Kind: s.kind, Skipped: s.skipped})
	}
	for _, s := range f.unsettled() {
		w.Effects = append(w.Effects, activities.OpenEffect{
			Key: s.key, Kind: s.kind, State: string(s.result.State), Uncertain: s.uncertain(),
			// Nobody else writes to our own database, and a person cannot answer for the provider.
			ByHand: s.sink != SinkDatabase && s.sink != SinkStripe,
		})
	}
	return w
}

// park waits for a person's decision. It returns the zero decision when others have settled meanwhile what the run
// waits for.
func (f *flow) park(status string, why reason) (decision, error) {
	f.interrupted = true
	d, err := f.waitForPerson(status, why)
	switch {
	case err != nil:
		return decision{}, err
	case d.action == "" && f.isCancelled():
		return f.parkCancelled("It was parked: " + why.text)
	case d.action == "":
		f.show("going on: what it waited for was done meanwhile")
	default:
		f.show("going on after " + d.action + " by " + d.input.Who)
	}
	return d, nil
}
