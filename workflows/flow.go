package workflows

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// These are the receipt statuses that a run sets. The first three are outcomes, and the others mean that the run is
// parked.
const (
	processed   = "processed"
	compensated = "compensated"
	ignored     = "ignored"
	needsReview = "needs_review"
	dead        = "dead"
)

// EventResult is the result of every flow.
type EventResult struct {
	Outcome string
	Reason  string `json:",omitempty"`
	Effects []EffectResult
}

// EffectResult is the outcome of one effect in this run.
type EffectResult struct {
	Key   string
	State string
	// By is the event that executed the effect earlier.
	By     string `json:",omitempty"`
	Reason string `json:",omitempty"`
}

// flow decides which effects of one event run, when the run parks, and when it compensates the effects. Its engine
// executes these decisions.
type flow struct {
	engine
	in   EventInput
	name string
	// begun is the start of the run. resetOf is the run that it was reset from, or "". A preview has neither.
	begun   time.Time
	resetOf string
	// settings configures the attempts of effects, by sink.
	settings map[string]activities.SinkSettings
	// cancelCompensates makes a cancellation compensate the effects that are done.
	cancelCompensates bool
	// withholds is set if the event occurred before effects began. Its effects are then recorded but not executed.
	withholds bool
	// irreversible is set for a flow with effects that cannot be compensated. undoing is set during a compensation.
	// undone is set when a compensation starts, and stays set.
	irreversible, undoing, undone bool

	// steps holds every step that the run has started, in order. A compensation processes them in reverse order.
	// settling holds the steps that settle is running; decisions select among them.
	steps, settling []*step
	// left is the reason why the run only relays the event, and paid its money. Both are nil for any other run.
	left *activities.Left
	paid *activities.Paid
	// takes lists the decisions that the parked run accepts.
	takes []string

	// interrupted is set once the run has been parked. Its steps may then be outdated, so it reads them from the ledger
	// before it decides anything. It is not set in a run that a reset created.
	interrupted bool
	// held is set once the run has waited for a sink because the sink was down or paused.
	held bool
	// cancelSeen is set after the run has parked because of a cancellation. A later decision of a person then overrides
	// the cancellation.
	cancelSeen bool
	// settledInVain is set if another run ended the last park, but the ledger contained no change for the steps of this
	// run.
	settledInVain bool
}

// settle runs the steps in parallel until each is settled, and parks the run when a person must decide. It returns
// whyUndo, the reason, if the run must compensate all effects instead.
//
// If the run was interrupted or is about to park, settle first reads its steps from the ledger, because another run for
// the same fact may have executed or compensated an effect.
func (f *flow) settle(steps ...*step) (whyUndo string, err error) {
	if len(steps) == 0 {
		return "", nil
	}
	f.begin(steps)
	f.settling = steps
	for {
		if err := f.attemptAll(steps); err != nil {
			return "", err
		}
		if err := f.wakeWaiting(steps); err != nil {
			return "", err
		}
		if f.tryAgain(steps) || someUntried(f.toTry(steps)) {
			continue
		}
		if f.interrupted || len(unsettled(steps)) > 0 {
			if whyUndo, err := f.refresh(); err != nil || whyUndo != "" {
				return whyUndo, err
			}
		}
		if someUntried(f.toTry(steps)) {
			continue
		}
		open := f.open(steps)
		if len(open) == 0 {
			if whyUndo := undoneBefore(steps); whyUndo != "" {
				return whyUndo, nil
			}
			return f.runNext(steps)
		}
		if whyUndo := refusal(f.steps, steps); whyUndo != "" {
			return whyUndo, nil
		}
		d, err := f.parkFor(open)
		if err != nil {
			return "", err
		}
		whyUndo, err = f.refresh()
		if f.undoing && d.action == "" { // other runs have settled the undos, which refresh does not read
			_, err = f.refreshSteps(steps)
		}
		if err != nil || whyUndo != "" {
			return whyUndo, err
		}
		// After a park without a decision and without progress, the next one waits for a decision, to avoid a loop.
		f.settledInVain = d.action == "" && len(f.open(steps)) == len(open)
		if whyUndo, err := f.follow(d, steps); err != nil || whyUndo != "" {
			return whyUndo, err
		}
	}
}

// refresh updates the steps from the ledger. If another run for the same fact has executed an effect, this run does not
// repeat the effect. If another run has compensated an effect, refresh returns a reason, and this run compensates its
// other effects as well.
func (f *flow) refresh() (whyUndo string, err error) {
	if f.undoing {
		return "", nil
	}
	return f.refreshSteps(f.steps)
}

// refreshSteps updates steps from the ledger. It returns a reason if everything has to be compensated.
func (f *flow) refreshSteps(steps []*step) (whyUndo string, err error) {
	in := activities.ReadEffectsInput{EventID: f.in.EventID, Keys: keysOf(steps)}
	for _, s := range steps {
		if s.Undo != nil {
			in.Undos = append(in.Undos, s.Undo(s.result).Key)
		}
	}
	var found activities.ReadEffectsResult
	if err := f.execute(attempt{name: "refresh", activity: runs.ReadEffects, input: in}, &found); err != nil {
		return "", err
	}
	for _, s := range steps {
		if now, ok := found.Settled[s.Key]; ok && (now.State == effect.Compensated || !s.settled()) {
			s.result = now
		}
	}
	if found.Undoing != "" {
		return "another run has begun to compensate: " + found.Undoing, nil
	}
	return undoneBefore(steps), nil
}

// runNext runs the follow-up steps of steps. Each step has at most one follow-up step.
func (f *flow) runNext(steps []*step) (whyUndo string, err error) {
	var next []*step
	for _, s := range steps {
		if s.Then == nil || s.skipped {
			continue
		}
		if n := s.Then(s.result); n != nil {
			next = append(next, newStep(n))
		}
		s.Then = nil
	}
	if f.undoing {
		for _, n := range next {
			if err := f.takeBack(n); err != nil {
				return "", err
			}
		}
		return "", nil
	}
	return f.settle(next...)
}

// tryAgain makes a replay retry each step that had failed before the replay, once: the person who requested the replay
// also requested these retries. It does not retry uncertain steps.
func (f *flow) tryAgain(steps []*step) (some bool) {
	if f.in.Replay == nil || f.in.Replay.Request == "" {
		return false
	}
	tried := f.toTry(steps)
	some = slices.ContainsFunc(tried, (*step).hadFailed)
	for _, s := range tried {
		if s.hadFailed() {
			s.retry()
			s.again, s.decided = true, true
		} else {
			s.held = some
		}
	}
	return some
}

// wakeWaiting signals the parked runs of other events that wait for the effects that a decision has settled in this
// run.
func (f *flow) wakeWaiting(steps []*step) error {
	in := activities.WakeWaitingInput{Ref: f.in.Ref}
	for _, s := range steps {
		if s.decided && s.settled() {
			s.decided = false
			in.Keys = append(in.Keys, s.Key)
		}
	}
	if len(in.Keys) == 0 {
		return nil
	}
	return f.execute(attempt{name: "wake", activity: runs.WakeWaiting, input: in}, nil)
}

// open returns the unsettled steps, except the steps that wait for other steps of the run.
func (f *flow) open(steps []*step) []*step { return slices.DeleteFunc(unsettled(steps), f.keptBack) }

// toTry returns the steps to attempt now. After a refusal, a flow of the configuration begins no step.
func (f *flow) toTry(steps []*step) []*step {
	refused := slices.ContainsFunc(f.steps, (*step).refused)
	return slices.DeleteFunc(f.open(steps), func(s *step) bool {
		return s.held || refused && s.OfFlow() && s.result.State == ""
	})
}

// someUntried reports whether a step was never attempted. It waited for another effect, which may be settled now.
func someUntried(steps []*step) bool {
	return slices.ContainsFunc(steps, func(s *step) bool { return s.result.State == "" })
}

// begin registers steps before they are attempted, so that compensation includes effects that may have happened.
func (f *flow) begin(steps []*step) {
	for _, s := range steps {
		if !slices.Contains(f.steps, s) {
			f.steps = append(f.steps, s)
		}
	}
}

func (f *flow) finish(outcome string, why reason) (EventResult, error) {
	f.show(outcome)
	err := f.execute(attempt{
		name: "finish", activity: runs.FinishRun,
		input: activities.FinishRunInput{
			Ref: f.in.Ref, Status: outcome, Reason: why.String(), Flow: f.name,
			Open: keysOf(unsettled(f.steps)), Paid: f.paid, ResetOf: f.resetOf, Replay: f.in.Replay,
			Held: f.interrupted || f.held, StartedAt: f.begun, AsOf: f.asOf(),
		},
	}, nil)
	if err != nil {
		return EventResult{}, err
	}
	result := EventResult{Outcome: outcome, Reason: why.String()}
	for _, s := range f.steps {
		if s.result.State == "" { // no run has begun it
			continue
		}
		result.Effects = append(result.Effects,
			EffectResult{Key: s.Key, State: string(s.result.State), By: s.result.By, Reason: s.result.Reason})
	}
	return result, nil
}

// unsettled returns the steps that a decision can select.
func (f *flow) unsettled() []*step { return f.open(f.settling) }

func unsettled(steps []*step) (open []*step) {
	for _, s := range steps {
		if !s.settled() {
			open = append(open, s)
		}
	}
	return open
}

func keysOf(steps []*step) (keys []string) {
	for _, s := range steps {
		keys = append(keys, s.Key)
	}
	return keys
}

// refusal returns a reason to compensate all effects if a step with RefusalUndoesAll was refused, or "". It returns ""
// and the run parks if a step is done that this run cannot or must not undo, or if a delivery beside a flow failed.
func refusal(all, steps []*step) string {
	ofFlow := slices.ContainsFunc(all, func(s *step) bool { return s.OfFlow() })
	if slices.ContainsFunc(all, func(s *step) bool {
		return s.result.MayHaveHappened() && (s.Final || s.OfFlow() && s.result.By != "") ||
			ofFlow && s.Delivers() && s.result.State == effect.Failed
	}) {
		return ""
	}
	for _, s := range unsettled(steps) {
		if s.RefusalUndoesAll && s.result.State == effect.Refused {
			return s.Kind + " was refused: " + s.result.Reason
		}
	}
	return ""
}

// undoneBefore returns a reason to end as compensated if the effects were compensated earlier, or "". The earlier run
// may be the run before a reset, or the run of another event for the same fact.
func undoneBefore(steps []*step) string {
	for _, s := range steps {
		if s.result.State == effect.Compensated {
			return s.Kind + " was compensated before"
		}
	}
	return ""
}
