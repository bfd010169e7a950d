package workflows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/workflows/plan"
)

// reason is the reason for a park or for an outcome other than processed: a code for filters and a text for people.
type reason struct{ code, text string }

// String returns the form that a receipt stores.
func (r reason) String() string {
	if r.code == "" {
		return r.text
	}
	return r.code + ": " + r.text
}

// as returns the form that PawlStatus stores: the receipt status and the code, if any.
func (r reason) as(status string) string {
	if r.code == "" {
		return status
	}
	return status + ":" + r.code
}

// These are the reason codes of the flow engine. Package activities defines the reason codes of events.
const (
	codeFailed      = "effect_failed"
	codeUncertain   = "effect_uncertain"
	codeRefused     = "effect_refused"
	codeNotFound    = "object_not_found" // the provider does not return the object for the source's API key
	codeUndo        = "undo_failed"      // an undo was refused, is uncertain, or failed
	codeCancelled   = "cancelled"
	codeDismissed   = "dismissed"
	codeCompensated = "compensated"
)

// parkFor parks the run because steps are not done. If the run was cancelled, the reason is cancelled.
func (f *flow) parkFor(open []*step) (decision, error) {
	status, why := f.whyParked(open)
	f.takes = f.aboutEffects()
	if f.isCancelled() {
		return f.parkCancelled(why.text)
	}
	return f.park(status, why)
}

// aboutEffects returns the decisions that the run accepts about its open effects.
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

// isCancelled reports whether the run was cancelled and no person has decided since.
func (f *flow) isCancelled() bool {
	return !f.cancelSeen && !f.undoing && f.cancelled()
}

// parkCancelled parks a cancelled run, or decides to compensate all effects if policy.on_workflow_cancel requires it.
// By default, a cancellation only prevents further effects, because a person can cancel a run by accident.
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
			input: DecisionInput{Actor: "Temporal", Reason: "the run was " + cancelled.Words +
				", and policy.on_workflow_cancel is compensate"}}, nil
	}
	return f.park(needsReview,
		reason{codeCancelled, "the run was " + cancelled.Words + "; executed effects stay. " + before})
}

// whyParked returns dead if retries cannot finish an effect, and needs_review if a person must judge.
func (f *flow) whyParked(open []*step) (status string, why reason) {
	status, why.code = needsReview, codeRefused
	var words []string
	for _, s := range open {
		switch {
		case s.result.State == effect.Failed:
			status, why.code = dead, codeFailed
		case s.result.State == effect.Uncertain && status != dead:
			why.code = codeUncertain
		case s.result.State == effect.Refused && s.Sink == plan.SinkStripe:
			why.code = codeNotFound
		}
		words = append(words, fmt.Sprintf("%s is %s: %s", s.Kind, s.result.State, s.result.Reason))
	}
	if f.undoing {
		why.code = codeUndo
		for _, s := range open {
			if owner := f.settings[s.Sink].Owner; owner != "" {
				words = append(words, "owner of "+s.Sink+": "+owner)
			}
		}
	}
	why.text = strings.Join(words, "; ")
	return status, why
}

// review parks a run that has executed no effect, until a person has decided. It returns a reason if the person
// dismissed the event. It returns the zero reason if the run must read the event again: see [AtLoad].
func (f *flow) review(why reason) (dismissed reason, err error) {
	f.settling, f.takes = nil, []string{UpdateApprove, UpdateReject, UpdateRetry, UpdateSkip}
	d, err := f.park(needsReview, why)
	if err != nil || d.action == UpdateRetry || d.action == UpdateApprove {
		return reason{}, err
	}
	return reason{codeDismissed, fmt.Sprintf("nothing done: %s by %s: %s", d.action, d.input.Actor, d.input.Reason)},
		nil
}

// waits returns the open effects and the steps of the run so far. A preview repeats these steps.
func (f *flow) waits() activities.Waits {
	w := activities.Waits{Decisions: f.takes, Undoing: f.undoing || f.undone, Left: f.left}
	for _, s := range f.steps {
		to, _ := s.Input.(activities.Delivery)
		w.Steps = append(w.Steps,
			activities.Step{Key: s.Key, Kind: s.Kind, Skipped: s.skipped, Undecided: to.Undecided})
	}
	for _, s := range f.unsettled() {
		w.Effects = append(w.Effects, activities.OpenEffect{
			Key: s.Key, Kind: s.Kind, State: string(s.result.State), Uncertain: s.uncertain(),
			// A person can neither write to pawl's database nor provide the provider's data, so these effects cannot be
			// done by hand.
			ByHand: s.Sink != plan.SinkDatabase && s.Sink != plan.SinkStripe,
		})
	}
	return w
}

// park waits for a decision. It returns the zero decision if other runs have settled the effects in the meantime.
func (f *flow) park(status string, why reason) (decision, error) {
	f.interrupted = true
	d, err := f.waitForPerson(status, why)
	switch {
	case err != nil:
		return decision{}, err
	case d.action == "" && f.isCancelled():
		return f.parkCancelled("It was parked: " + why.text)
	case d.action == "":
		f.show("continues: another run has settled the effects that it waited for")
	default:
		f.show("continues after " + d.action + " by " + d.input.Actor)
	}
	return d, nil
}
