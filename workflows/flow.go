package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

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

// flow runs the effects of one event, parks when a person must decide, and takes back what was done when the rest
// cannot be.
type flow struct {
	// ctx is not cancelled with the run: a cancelled run parks. cancelled is the run's own context.
	ctx, cancelled workflow.Context
	in             EventInput
	name           string
	// begun is when the run began; of one that a reset made, when the reset did.
	begun time.Time
	// settings say how effects are to be tried, by sink.
	settings map[string]activities.SinkSettings
	// cancelCompensates lets a cancellation take back what was done, at once.
	cancelCompensates bool
	// irreversible is set for a flow whose effects cannot be taken back. undoing is set while they are taken back, and
	// undone from then on.
	irreversible, undoing, undone bool
	// preview is set where nothing runs, and it is only asked what would: it stands in for Temporal and the activities.
	preview *preview

	// steps holds every step that was begun, in order: compensation goes through it backwards. settling holds those
	// that are being settled: a decision concerns them.
	steps, settling []*step

	// interrupted is set once the run has been parked: what it knows may be out of date, and it refreshes
	// its steps from the ledger before it decides anything. A run that a reset made is not: the history that it took over
	// went on without that, and it refreshes them like any other before it parks.
	interrupted bool
	// cancelSeen is set when the run has parked because it was cancelled; what a person decides then holds.
	cancelSeen bool
	// parked is set while the run takes a decision. decided is the last one that it took, nil from a park until the
	// next; recorded is set when that stands in the audit trail, so that the run may go on.
	parked   bool
	decided  *decision
	recorded bool
	// settledMeanwhile is set when others have settled all that the parked run waits for.
	settledMeanwhile bool
	// settledInVain is set when the last park ended so, and the ledger had nothing for the run.
	settledInVain bool
	// takes are the decisions that it takes while it is parked.
	takes []string
	// marked is the run's PawlStatus, "" while it has none.
	marked string

	// sinksBack counts the signals that a sink is back; listening is set once they are listened to.
	sinksBack int
	listening bool

	// resetBegins: a workflow reset made this run, and its first activity has not ended. The decisions that come with its
	// first task are those that the reset re-applies; firstTask, the length of the history then, tells that task. They
	// are kept for when the run parks again.
	resetBegins bool
	firstTask   int
	kept        []decision

	// task is the workflow task at work, told by the length of the history that it began with, and taskBegun when it
	// began; see asOf.
	task      int
	taskBegun time.Time
}

func newFlow(ctx workflow.Context, name string, in EventInput) (*flow, error) {
	f := &flow{cancelled: ctx, name: name, in: in, begun: workflow.GetInfo(ctx).WorkflowStartTime}
	f.ctx, _ = workflow.NewDisconnectedContext(ctx)
	f.firstTask = workflow.GetInfo(ctx).GetCurrentHistoryLength()
	if f.resetOf() != "" {
		f.resetBegins = true
		f.begun = workflow.Now(ctx) // the start event is a copy of the first run's, its time included
	}
	// asOf has to be asked in each task before a local activity moves the workflow's clock. This coroutine does nothing
	// else: its condition never holds, and is evaluated whenever the workflow goes on.
	workflow.GoNamed(f.ctx, "tasks", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, func() bool { f.asOf(); return false })
	})
	return f, f.listen()
}

// asOf returns when the workflow task at work began, by Temporal's clock. What a task writes carries it, so that a task
// that began earlier changes nothing any more: a worker that was stopped goes on with a task that another worker has
// taken over, or with a run that was reset since.
//
// The length of the history would not do, because a later try of a task has the same. Nor would [workflow.Now], which
// moves on with each local activity, by the worker's own clock: in a worker that was stopped it may pass the begin
// of the task that took over.
func (f *flow) asOf() time.Time {
	if f.preview != nil {
		return time.Time{}
	}
	if task := workflow.GetInfo(f.ctx).GetCurrentHistoryLength(); task != f.task {
		f.task, f.taskBegun = task, workflow.Now(f.ctx)
	}
	return f.taskBegun
}

// settle runs the steps side by side until each is settled, parking as often as a person must decide. It returns a
// reason, whyUndo, when everything that was done is to be taken back instead.
//
// One rule keeps it from deciding on what is out of date: who was interrupted, or is about to park, refreshes its
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
		if f.tryAgain(steps) {
			continue
		}
		if f.interrupted || len(unsettled(steps)) > 0 {
			if whyUndo, err := f.refresh(); err != nil || whyUndo != "" {
				return whyUndo, err
			}
		}
		open := unsettled(steps)
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
		f.settledInVain = d.action == "" && len(unsettled(steps)) == len(open)
		if whyUndo, err := f.follow(d, steps); err != nil || whyUndo != "" {
			return whyUndo, err
		}
	}
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

// follow does with the steps what a person has decided. It returns a reason when that is to take everything back. What
// the decision is not about is left as it is, and asked about again.
func (f *flow) follow(d decision, steps []*step) (whyUndo string, err error) {
	if d.action == UpdateCompensate || d.action == UpdateReject {
		return fmt.Sprintf("%s decided to %s: %s", d.input.Who, d.action, d.input.Why), nil
	}
	// Another run may have settled meanwhile what the decision is about, which leaves nothing to do.
	keys, _ := CheckDecision(f.waits().Effects, d.action, d.input)
	var about []*step
	for _, s := range unsettled(steps) {
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

// tryAgain has a replay that a person has asked for try again, once, what had failed before it began: like a retry,
// it is the person's word. What may have happened stays in doubt.
func (f *flow) tryAgain(steps []*step) (some bool) {
	if f.in.Replay == nil || f.in.Replay.Request == "" {
		return false
	}
	tried := toTry(steps)
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
	return f.execute(f.ctx, attempt{name: "wake", activity: runs.WakeWaiting, input: in}, nil)
}

// toTry returns the steps that are to be tried now.
func toTry(steps []*step) []*step {
	return slices.DeleteFunc(unsettled(steps), func(s *step) bool { return s.held })
}

// begin registers steps before they are tried: what may have happened has to be taken back, too.
func (f *flow) begin(steps []*step) {
	for _, s := range steps {
		if !slices.Contains(f.steps, s) {
			f.steps = append(f.steps, s)
		}
	}
}

// attemptAll runs the unsettled steps side by side, all in one workflow task while they go well. Only a step that needs
// more than its local try gets a coroutine: each one that waits is woken, in vain, by the end of every other step.
//
// A run that is cancelled begins none of them. Those that are being retried end where they are.
func (f *flow) attemptAll(steps []*step) error {
	if f.preview != nil {
		return f.preview.attemptAll(f, steps)
	}
	if f.isCancelled() {
		for _, s := range toTry(steps) {
			s.result = effect.Result{State: effect.Failed, Round: s.result.Round,
				Reason: "not begun: the run was cancelled", Unanswered: s.result.Unanswered}
		}
		return nil
	}
	var failed error
	escalated := workflow.NewWaitGroup(f.ctx)
	attempts, stop := f.untilCancelled()
	defer stop()
	goOn := func(s *step, execute func(workflow.Context) error) {
		escalated.Add(1)
		workflow.GoNamed(attempts, s.key, func(ctx workflow.Context) {
			defer escalated.Done()
			err := execute(ctx)
			if err == nil {
				err = f.waitForSink(ctx, s)
			}
			if temporal.IsCanceledError(err) && f.isCancelled() {
				s.result = effect.Result{State: effect.Failed, Round: s.result.Round,
					Reason: "not done when the run was cancelled"}
			} else if err != nil && failed == nil {
				failed = fmt.Errorf("%s: %w", s.key, err)
			}
		})
	}
	tries := workflow.NewSelector(f.ctx)
	tried := 0
	open := toTry(steps)
	for _, s := range open {
		a := f.attempt(s)
		s.begun = true
		s.result = effect.Result{} // a result is decoded into what stands there: an old reason would stay
		if a.regularOnly {
			goOn(s, func(ctx workflow.Context) error { return f.insist(ctx, a, &s.result) })
			continue
		}
		tried++
		tries.AddFuture(f.try(f.ctx, a), func(local workflow.Future) {
			switch err := local.Get(f.ctx, &s.result); {
			case effect.NotDone(err, &s.result): // a person, or the rest of the flow, has to do with it
			case err != nil:
				goOn(s, func(ctx workflow.Context) error { return f.escalate(ctx, a, err, &s.result) })
			case s.result.State == effect.Waits:
				goOn(s, func(workflow.Context) error { return nil })
			}
		})
	}
	for range tried {
		tries.Select(f.ctx)
	}
	escalated.Wait(f.ctx)
	if failed != nil {
		return failed
	}
	for _, s := range open {
		if !s.result.State.Known() { // the Temporal UI and CLI complete an activity with any result
			s.result = effect.Result{State: effect.Uncertain, Round: s.result.Round,
				Reason: "its activity was completed by hand, with a result that does not say what it came to"}
		}
	}
	return nil
}

// skip records that steps shall not be done. One that another run has done meanwhile counts as done.
func (f *flow) skip(d decision, steps []*step) error {
	for _, s := range steps {
		reason := fmt.Sprintf("skipped by %s: %s", d.input.Who, d.input.Why)
		var skipped activities.SkipEffectResult
		if err := f.execute(f.ctx, attempt{
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
		if err := f.execute(f.ctx, attempt{name: "done:" + s.key, start: s.starter(call), byHand: s},
			&s.result); err != nil {
			return err
		}
	}
	return nil
}

// finish closes the receipt and the run.
func (f *flow) finish(outcome string, why reason) (EventResult, error) {
	f.show(outcome)
	err := f.execute(f.ctx, attempt{
		name: "finish", activity: runs.FinishRun,
		input: activities.FinishRunInput{
			Ref: f.in.Ref, Status: outcome, Reason: why.String(), Flow: f.name,
			ResetOf: f.resetOf(), Replay: f.in.Replay, StartedAt: f.begun, AsOf: f.asOf(),
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
	if f.preview != nil {
		return result, nil
	}
	// A decision that was taken at the last moment must still get its answer.
	return result, workflow.Await(f.ctx, func() bool { return workflow.AllHandlersFinished(f.ctx) })
}

// resetOf returns the run that this one was reset from, "" for an original.
func (f *flow) resetOf() string {
	if f.preview != nil {
		return ""
	}
	info := workflow.GetInfo(f.cancelled)
	if info.OriginalRunID == info.WorkflowExecution.RunID {
		return ""
	}
	return info.OriginalRunID
}

// unsettled returns the steps that a decision can be about.
func (f *flow) unsettled() []*step { return unsettled(f.settling) }

// match returns those that an operator means: by key, by kind, or all for "".
func (f *flow) match(name string) []*step {
	var found []*step
	for _, s := range f.unsettled() {
		if name == "" || name == s.key || name == s.kind {
			found = append(found, s)
		}
	}
	return found
}

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
