package workflows

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// Receipt statuses that a run sets: the first three as its outcome, the others while it is parked.
const (
	processed   = "processed"
	compensated = "compensated"
	ignored     = "ignored"
	needsReview = "needs_review"
	dead        = "dead"
)

// EventResult is what every flow returns.
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

// flow runs the effects of one event, parks if a person must decide, and compensates its effects if one of them is
// refused. It decides; its engine executes.
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
	// withholds is set if the event occurred before effects began: its effects are recorded and not executed.
	withholds bool
	// irreversible is set for a flow with effects that cannot be compensated. undoing is set during compensation, and
	// undone from its start on.
	irreversible, undoing, undone bool

	// steps holds every step that was begun, in order; compensation runs through it backwards. settling holds the
	// steps that are being settled; decisions concern them.
	steps, settling []*step
	// left is the reason why the run only delivers the event. It is nil for any other run.
	left *activities.Left
	// takes lists the decisions that the parked run accepts.
	takes []string

	// interrupted is set once the run has been parked: its steps may be outdated, so it refreshes them from the
	// ledger before it decides anything. A run made by a reset is not interrupted. Its history continues without the
	// parked time, and it refreshes its steps like any other run before it parks.
	interrupted bool
	// held is set once the run has waited for a sink that was down or paused.
	held bool
	// cancelSeen is set if the run has parked because it was cancelled. The decision of a person then takes
	// precedence.
	cancelSeen bool
	// settledInVain is set if another run ended the last park but the ledger had no news for this run.
	settledInVain bool
}

// settle runs the steps in parallel until each is settled, and parks whenever a person must decide. It returns
// whyUndo if everything has to be compensated instead.
//
// A run never decides on outdated state: if it was interrupted or is about to park, it first refreshes its steps from
// the ledger. Another run for the same fact may have executed or compensated an effect in the meantime.
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
		if whyUndo := refusal(steps); whyUndo != "" {
			return whyUndo, nil
		}
		d, err := f.parkFor(open)
		if err != nil {
			return "", err
		}
		whyUndo, err = f.refresh()
		if f.undoing && d.action == "" { // refresh skips undos, and other runs have settled them
			_, err = f.refreshSteps(steps)
		}
		if err != nil || whyUndo != "" {
			return whyUndo, err
		}
		// A park that ended without a decision and without progress must not end by itself again, in an endless loop.
		f.settledInVain = d.action == "" && len(f.open(steps)) == len(open)
		if whyUndo, err := f.follow(d, steps); err != nil || whyUndo != "" {
			return whyUndo, err
		}
	}
}

// refresh updates the steps from the ledger. Another run for the same fact may have executed an effect, which is then
// not repeated, or compensated an effect that this run saw as done. In the second case refresh returns the reason to
// compensate the other effects as well.
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
		if s.undo != nil {
			in.Undos = append(in.Undos, s.undo(s.result).key)
		}
	}
	var found activities.ReadEffectsResult
	if err := f.execute(attempt{name: "refresh", activity: runs.ReadEffects, input: in}, &found); err != nil {
		return "", err
	}
	for _, s := range steps {
		if now, ok := found.Settled[s.key]; ok && (now.State == effect.Compensated || !s.settled()) {
			s.result = now
		}
	}
	if found.Undoing != "" {
		return "another run has begun to compensate: " + found.Undoing, nil
	}
	return undoneBefore(steps), nil
}

// runNext settles the follow-up steps, which depend on the results of steps. Each step has at most one.
func (f *flow) runNext(steps []*step) (whyUndo string, err error) {
	var next []*step
	for _, s := range steps {
		if s.then == nil || s.skipped {
			continue
		}
		if n := s.then(s.result); n != nil {
			next = append(next, n)
		}
		s.then = nil
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

// tryAgain makes a replay retry each step once that had failed before the replay began, because the request of the
// person counts as a retry. Uncertain steps stay uncertain.
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

// wakeWaiting wakes runs of other events that are parked for the effects that a decision has settled here.
func (f *flow) wakeWaiting(steps []*step) error {
	in := activities.WakeWaitingInput{Ref: f.in.Ref}
	for _, s := range steps {
		if s.decided && s.settled() {
			s.decided = false
			in.Keys = append(in.Keys, s.key)
		}
	}
	if len(in.Keys) == 0 {
		return nil
	}
	return f.execute(attempt{name: "wake", activity: runs.WakeWaiting, input: in}, nil)
}

// open returns the unsettled steps, except the ones that wait for other steps of the run.
func (f *flow) open(steps []*step) []*step { return slices.DeleteFunc(unsettled(steps), f.keptBack) }

// toTry returns the steps to attempt now.
func (f *flow) toTry(steps []*step) []*step {
	return slices.DeleteFunc(f.open(steps), func(s *step) bool { return s.held })
}

// someUntried reports whether a step was never attempted. It waited for another effect, which may be settled by now.
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
			Open: keysOf(unsettled(f.steps)), ResetOf: f.resetOf, Replay: f.in.Replay,
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
			EffectResult{Key: s.key, State: string(s.result.State), By: s.result.By, Reason: s.result.Reason})
	}
	return result, nil
}

// unsettled returns the steps that a decision can concern.
func (f *flow) unsettled() []*step { return f.open(f.settling) }

func unsettled(steps []*step) []*step {
	var open []*step
	for _, s := range steps {
		if !s.settled() {
			open = append(open, s)
		}
	}
	return open
}

func keysOf(steps []*step) []string {
	var keys []string
	for _, s := range steps {
		keys = append(keys, s.key)
	}
	return keys
}

// refusal returns a reason to compensate everything if a step with refusalUndoesAll was refused.
func refusal(steps []*step) string {
	for _, s := range unsettled(steps) {
		if s.refusalUndoesAll && s.result.State == effect.Refused {
			return s.kind + " was refused: " + s.result.Reason
		}
	}
	return ""
}

// undoneBefore returns a reason to end as compensated if the effects were compensated earlier: a reset, or another
// event for the same fact, must have the same outcome.
func undoneBefore(steps []*step) string {
	for _, s := range steps {
		if s.result.State == effect.Compensated {
			return s.kind + " was compensated before"
		}
	}
	return ""
}
