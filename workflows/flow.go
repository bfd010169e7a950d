package workflows

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// The statuses that a run gives its receipt: the first three when it ends, as its outcomes, and the others while it is
// parked.
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

// EffectResult is what one effect came to in this run.
type EffectResult struct {
	Key   string
	State string
	// By is the event that had done it before.
	By     string `json:",omitempty"`
	Reason string `json:",omitempty"`
}

// flow runs the effects of one event, parks when a person must decide, and takes its effects back when the others are
// refused. It decides; its engine acts.
type flow struct {
	engine
	in   EventInput
	name string
	// begun is when the run began, resetOf the run that it was reset from, "" for an original. A preview has neither.
	begun   time.Time
	resetOf string
	// settings say how effects are to be tried, by sink.
	settings map[string]activities.SinkSettings
	// cancelCompensates lets a cancellation take back the effects that are done, at once.
	cancelCompensates bool
	// irreversible is set for a flow whose effects cannot be taken back. undoing is set while they are taken back, and
	// undone from then on.
	irreversible, undoing, undone bool

	// steps holds every step that was begun, in order: compensation goes through it backwards. settling holds those
	// that are being settled: a decision concerns them.
	steps, settling []*step
	// left says why the run does no more than deliver the event, nil for any other run.
	left *activities.Left
	// takes are the decisions that the run takes while it is parked.
	takes []string

	// interrupted is set once the run has been parked: its steps may be out of date, and it refreshes them from the
	// ledger before it decides anything. A run that a reset made is not interrupted: the history that it took over went
	// on without that, and it refreshes its steps like any other before it parks.
	interrupted bool
	// held is set once the run has waited for a sink that was out or paused.
	held bool
	// cancelSeen is set when the run has parked because it was cancelled; what a person decides then holds.
	cancelSeen bool
	// settledInVain is set when others ended the last park, and the ledger had nothing for the run.
	settledInVain bool
}

// settle runs the steps side by side until each is settled, parking as often as a person must decide. It returns a
// reason, whyUndo, when everything that was done is to be taken back instead.
//
// One rule keeps it from deciding by an outdated state: a run that was interrupted, or is about to park, refreshes its
// steps from the ledger first. Another run for the same fact may have done an effect meanwhile, or taken one back.
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
			return f.goOn(steps)
		}
		if whyUndo := refusal(steps); whyUndo != "" {
			return whyUndo, nil
		}
		d, err := f.parkFor(open)
		if err != nil {
			return "", err
		}
		whyUndo, err = f.refresh()
		if f.undoing && d.action == "" { // refresh leaves undos alone, and others have settled them
			_, err = f.refreshSteps(steps)
		}
		if err != nil || whyUndo != "" {
			return whyUndo, err
		}
		// A park that nobody decided about, and that settled nothing, must not end by itself again, for ever.
		f.settledInVain = d.action == "" && len(f.open(steps)) == len(open)
		if whyUndo, err := f.follow(d, steps); err != nil || whyUndo != "" {
			return whyUndo, err
		}
	}
}

// refresh brings the steps up to what the ledger holds. Another run for the same fact may have done an effect
// meanwhile, which is then not done again; or taken one back that this run saw done: refresh then returns the reason
// to take back the rest as well.
func (f *flow) refresh() (whyUndo string, err error) {
	if f.undoing {
		return "", nil
	}
	return f.refreshSteps(f.steps)
}

// refreshSteps takes over what the ledger holds of steps. It returns a reason when everything that was done is to be
// taken back.
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
		return "another run has begun to take back: " + found.Undoing, nil
	}
	return undoneBefore(steps), nil
}

// goOn settles what the steps have asked for by what they came to. A step asks once.
func (f *flow) goOn(steps []*step) (whyUndo string, err error) {
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

// tryAgain has a replay that a person has asked for try again, once, what had failed before it began: like a retry,
// it is the person's word. A step in doubt stays so.
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

// wakeWaiting wakes the runs of other events that are parked for what a person has had settled here.
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

// open returns the steps that are not settled. Those that wait for others of the run are left out.
func (f *flow) open(steps []*step) []*step { return slices.DeleteFunc(unsettled(steps), f.keptBack) }

// toTry returns the steps that are to be tried now.
func (f *flow) toTry(steps []*step) []*step {
	return slices.DeleteFunc(f.open(steps), func(s *step) bool { return s.held })
}

// someUntried reports whether a step was never tried. It waited for another effect, which may be settled by now.
func someUntried(steps []*step) bool {
	return slices.ContainsFunc(steps, func(s *step) bool { return s.result.State == "" })
}

// begin registers steps before they are tried: what may have happened has to be taken back, too.
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
		if s.result.State == "" { // neither this run nor another has begun it
			continue
		}
		result.Effects = append(result.Effects,
			EffectResult{Key: s.key, State: string(s.result.State), By: s.result.By, Reason: s.result.Reason})
	}
	return result, nil
}

// unsettled returns the steps that a decision can be about.
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

// refusal returns a reason to take everything back when one of the steps was refused that stands for all of them.
func refusal(steps []*step) string {
	for _, s := range unsettled(steps) {
		if s.refusalUndoesAll && s.result.State == effect.Refused {
			return s.kind + " was refused: " + s.result.Reason
		}
	}
	return ""
}

// undoneBefore returns a reason to end compensated when the effects had been done and taken back before: a reset, or
// another event for the same fact, must not come to another end.
func undoneBefore(steps []*step) string {
	for _, s := range steps {
		if s.result.State == effect.Compensated {
			return s.kind + " had been taken back before"
		}
	}
	return ""
}
