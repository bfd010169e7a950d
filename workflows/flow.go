package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
)

// The activities' receivers: only their method values are used, to name activities.
var (
	invoices      *activities.Invoices
	subscriptions *activities.Subscriptions
	provisioning  *activities.Provisioning
	finance       *activities.Finance
	email         *activities.Email
	onboarding    *activities.Onboarding
	consumers     *activities.Consumers
	runs          *activities.Runs
)

// The statuses that a run gives its receipt: the first two when it ends, as its outcomes, and the others while it is
// parked.
const (
	processed   = "processed"
	compensated = "compensated"
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

// flow runs the effects of one event, parks when a person must decide, and takes back what was done
// when the rest cannot be.
type flow struct {
	ctx  workflow.Context
	in   EventInput
	name string
	// begun is when the run began; of one that a reset made, when the reset did.
	begun time.Time
	// settings say how effects are to be tried, by kind or by the step's own name for it.
	settings map[string]activities.EffectSettings
	// irreversible is set for a flow whose effects cannot be taken back, undoing while they are.
	irreversible, undoing bool

	// steps holds every step that was begun, in order: compensation goes through it backwards. settling holds those
	// that are being settled: a decision concerns them.
	steps, settling []*step

	// parked is set while the run takes a decision. decided is the last one that it took, nil from a park until the
	// next; recorded is set when that stands in the audit trail, so that the run may go on.
	parked   bool
	decided  *decision
	recorded bool

	// reset is set in a run that a reset made, until its first activity has ended. The decisions that come with its
	// first task are those that the reset re-applies; firstTask, the length of the history then, tells that task.
	// They are kept for when the run parks again.
	reset     bool
	firstTask int
	kept      []decision
	// parks counts how often a run that a reset made was about to park; see lookAfterReset.
	parks int

	// task is the workflow task at work, told by the length of the history that it began with, and taskBegun when it
	// began; see asOf.
	task      int
	taskBegun time.Time
}

func newFlow(ctx workflow.Context, name string, in EventInput) (*flow, error) {
	f := &flow{ctx: ctx, name: name, in: in, begun: workflow.GetInfo(ctx).WorkflowStartTime}
	f.firstTask = workflow.GetInfo(ctx).GetCurrentHistoryLength()
	if f.reset = f.resetOf() != ""; f.reset {
		f.begun = workflow.Now(ctx) // the start event is a copy of the first run's, its time included
	}
	// asOf has to be asked in each task before a local activity moves the workflow's clock. This coroutine does nothing
	// else: its condition never holds, and is evaluated whenever the workflow goes on.
	workflow.GoNamed(ctx, "tasks", func(ctx workflow.Context) {
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
	if task := workflow.GetInfo(f.ctx).GetCurrentHistoryLength(); task != f.task {
		f.task, f.taskBegun = task, workflow.Now(f.ctx)
	}
	return f.taskBegun
}

// settle runs the steps side by side until each is settled, parking as often as a person must decide.
// It returns a reason, whyUndo, when everything that was done is to be taken back instead.
func (f *flow) settle(steps ...*step) (whyUndo string, err error) {
	f.begin(steps)
	f.settling = steps
	for looks := f.wasParked(); ; {
		if err := f.attemptAll(steps); err != nil {
			return "", err
		}
		if looks { // it took a while, in which another run may have decided otherwise
			if whyUndo, err := f.look(); err != nil || whyUndo != "" {
				return whyUndo, err
			}
		}
		if len(unsettled(steps)) == 0 {
			return undoneBefore(steps), nil
		}
		if whyUndo := refusal(steps); whyUndo != "" {
			return whyUndo, nil
		}
		if whyUndo, err := f.lookAfterReset(); err != nil || whyUndo != "" {
			return whyUndo, err
		}
		open := unsettled(steps)
		if len(open) == 0 {
			return undoneBefore(steps), nil
		}
		d, err := f.park(parkedStatus(open), describe(open))
		if err != nil {
			return "", err
		}
		if whyUndo, err := f.look(); err != nil || whyUndo != "" {
			return whyUndo, err
		}
		if whyUndo, err := f.follow(d, steps); err != nil || whyUndo != "" {
			return whyUndo, err
		}
		looks = d.action == UpdateRetry
	}
}

// follow does with the steps what a person has decided. It returns a reason when that is to take everything back.
func (f *flow) follow(d decision, steps []*step) (whyUndo string, err error) {
	switch d.action {
	case UpdateRetry:
		for _, s := range unsettled(steps) {
			s.retry()
		}
	case UpdateSkip:
		return "", f.skip(d, f.match(d.input.Effect))
	case UpdateCompensate:
		return fmt.Sprintf("%s decided to compensate: %s", d.input.Who, d.input.Why), nil
	}
	return "", nil
}

// wasParked reports whether the run waited for a person before it came to what it is about to settle: another run
// for the same fact may have been decided about, too.
func (f *flow) wasParked() bool {
	return f.decided != nil && !f.irreversible && !f.undoing && f.knows("look-after-park")
}

// knows reports whether the run may do what a change of the flow has brought: true where it comes here for the first
// time, false where its history is from before the change. The answer goes into the history, so this is asked last,
// where everything else holds that the change needs.
func (f *flow) knows(change string) bool {
	return workflow.GetVersion(f.ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// begin registers steps before they are tried: what may have happened has to be taken back, too.
func (f *flow) begin(steps []*step) {
	for _, s := range steps {
		if !slices.Contains(f.steps, s) {
			f.steps = append(f.steps, s)
		}
	}
}

// attemptAll runs the unsettled steps side by side, all in one workflow task while they go well. Only a
// step that needs more than its local try gets a coroutine: each one that waits is woken, in vain, by the
// end of every other step.
func (f *flow) attemptAll(steps []*step) error {
	var failed error
	escalated := workflow.NewWaitGroup(f.ctx)
	goOn := func(s *step, execute func(workflow.Context) error) {
		escalated.Add(1)
		workflow.GoNamed(f.ctx, s.key, func(ctx workflow.Context) {
			defer escalated.Done()
			if err := execute(ctx); err != nil && failed == nil {
				failed = fmt.Errorf("%s: %w", s.key, err)
			}
		})
	}
	tries := workflow.NewSelector(f.ctx)
	tried := 0
	open := unsettled(steps)
	for _, s := range open {
		a := f.attempt(s)
		s.result = effect.Result{} // a result is decoded into what stands there: an old reason would stay
		if a.regularOnly {
			goOn(s, func(ctx workflow.Context) error { return f.insist(ctx, a, &s.result) })
			continue
		}
		tried++
		tries.AddFuture(f.try(f.ctx, a), func(local workflow.Future) {
			if err := local.Get(f.ctx, &s.result); err != nil {
				goOn(s, func(ctx workflow.Context) error { return f.escalate(ctx, a, err, &s.result) })
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
		s.skipped, s.result = true, effect.Result{State: effect.Skipped, Reason: reason}
	}
	return nil
}

// finish closes the receipt and the run.
func (f *flow) finish(outcome, reason string) (EventResult, error) {
	f.show(outcome)
	err := f.execute(f.ctx, attempt{
		name: "finish", activity: runs.FinishRun,
		input: activities.FinishRunInput{
			ReceiptID: f.in.ReceiptID, Status: outcome, Reason: reason, Flow: f.name,
			ResetOf: f.resetOf(), StartedAt: f.begun, AsOf: f.asOf(),
		},
	}, nil)
	if err != nil {
		return EventResult{}, err
	}
	result := EventResult{Outcome: outcome, Reason: reason}
	for _, s := range f.steps {
		if s.result.State == "" { // neither this run nor another has begun it
			continue
		}
		result.Effects = append(result.Effects, EffectResult{Key: s.key, State: string(s.result.State), By: s.result.By, Reason: s.result.Reason})
	}
	// A decision that was taken at the last moment must still get its answer.
	return result, workflow.Await(f.ctx, func() bool { return workflow.AllHandlersFinished(f.ctx) })
}

// resetOf returns the run that this one was reset from, "" for an original.
func (f *flow) resetOf() string {
	info := workflow.GetInfo(f.ctx)
	if info.OriginalRunID == info.WorkflowExecution.RunID {
		return ""
	}
	return info.OriginalRunID
}

// cell makes text fit into a cell of a Markdown table: a sink says what it likes.
var cell = strings.NewReplacer("|", "/", "\r", "", "\n", " ")

// show writes the run's effects as a table into the Temporal UI. It costs no event; what must last
// stands in the ledger.
func (f *flow) show(headline string) {
	details := "**" + headline + "**\n\n| effect | state | by | reason |\n|---|---|---|---|\n"
	for _, s := range f.steps {
		details += "| `" + s.key + "` | " + string(s.result.State) + " | " + s.result.By + " | " + cell.Replace(s.result.Reason) + " |\n"
	}
	workflow.SetCurrentDetails(f.ctx, details)
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

// parkedStatus is dead when tries were used up, and needs_review when a person must judge.
func parkedStatus(open []*step) string {
	for _, s := range open {
		if s.result.State == effect.Exhausted {
			return dead
		}
	}
	return needsReview
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

// undoneBefore returns a reason to end compensated when the effects had been done and taken back
// before: a reset, or another event for the same fact, must not come to another end.
func undoneBefore(steps []*step) string {
	for _, s := range steps {
		if s.result.State == effect.Compensated {
			return s.kind + " had been taken back before"
		}
	}
	return ""
}

// describe says why steps are not done, for the receipt.
func describe(open []*step) string {
	var reasons []string
	for _, s := range open {
		reasons = append(reasons, fmt.Sprintf("%s is %s: %s", s.kind, s.result.State, s.result.Reason))
	}
	return strings.Join(reasons, "; ")
}
