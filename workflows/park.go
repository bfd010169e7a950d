package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

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

// The codes of the reasons that the engine itself has; the others come with the facts.
const (
	codeFailed      = "effect_failed"
	codeUncertain   = "effect_uncertain"
	codeRefused     = "effect_refused"
	codeUndo        = "undo_failed"
	codeCancelled   = "cancelled"
	codeDismissed   = "dismissed"
	codeCompensated = "compensated"
)

// parkFor parks the run for the steps that are not done. A run that was cancelled parks for that.
func (f *flow) parkFor(open []*step) (decision, error) {
	status, why := f.whyParked(open)
	if f.isCancelled() {
		return f.parkCancelled(why.text)
	}
	return f.park(status, why)
}

// parkCancelled parks a run that was cancelled, or takes everything back where that is the policy.
func (f *flow) parkCancelled(before string) (decision, error) {
	f.cancelSeen = true
	if f.cancelCompensates && !f.irreversible {
		return decision{action: UpdateCompensate, input: DecisionInput{Who: "Temporal", Why: "the run was cancelled, and policy.cancel is compensate"}}, nil
	}
	return f.park(needsReview, reason{codeCancelled, "the run was cancelled in Temporal; what was done stays done. " + before})
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
	if f.undoing && status == dead {
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

// review parks a run of which nothing is done yet until a person has looked at it. It returns a reason to end the run
// when the person decided that nothing shall be done, and none to try again.
func (f *flow) review(why reason) (dismissed reason, err error) {
	d, err := f.park(needsReview, why)
	if err != nil || d.action == UpdateRetry {
		return reason{}, err
	}
	return reason{codeDismissed, fmt.Sprintf("nothing done: %s by %s: %s", d.action, d.input.Who, d.input.Why)}, nil
}

// park shows on the receipt that a person must decide, and waits until one has.
func (f *flow) park(status string, why reason) (decision, error) {
	f.decided, f.recorded, f.interrupted = nil, false, true
	if err := f.execute(f.ctx, attempt{
		name: "park", activity: runs.ParkRun,
		input: activities.ParkRunInput{
			ReceiptID: f.in.ReceiptID, Status: status, Reason: why.String(),
			ResetOf: f.resetOf(), Due: f.in.Due != nil, StartedAt: f.begun, AsOf: f.asOf(),
		},
	}, nil); err != nil {
		return decision{}, err
	}
	d, found, err := f.recall()
	if err != nil {
		return decision{}, err
	}
	f.parked = true
	if found {
		_, _ = f.take(f.ctx, d) // one that is not recorded is not followed: the run waits
	}
	f.show(status + ": " + why.String())
	if err := workflow.Await(f.ctx, func() bool { return f.recorded || f.isCancelled() && f.decided == nil }); err != nil {
		return decision{}, err
	}
	f.parked = false
	if !f.recorded {
		return f.parkCancelled("It was parked: " + why.text)
	}
	f.show("going on after " + f.decided.action + " by " + f.decided.input.Who)
	return *f.decided, nil
}
