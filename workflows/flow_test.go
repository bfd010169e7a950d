package workflows_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/workflows"
)

// call is one execution of an activity.
type call struct {
	// name is the kind of the effect, or the name of an activity without an effect.
	name   string
	local  bool
	id     string
	effect effect.Call
	input  any
}

// answer is the result of one call of an activity.
type answer struct {
	result effect.Result
	err    error
}

// flowTest runs Toy in the test environment of the SDK. Every effect succeeds unless the test sets another answer.
type flowTest struct {
	*testing.T
	env  *testsuite.TestWorkflowEnvironment
	load []activities.LoadFactsResult

	mu      sync.Mutex
	calls   []call
	answers map[string][]answer
	// seen lists the ledger states that other runs caused, one per refresh.
	seen    []activities.ReadEffectsResult
	refused []string
	// replay is set for a replay.
	replay *workflows.ReplayInput
	// settledAtPark is the result of ParkRun, and woken lists the keys that WakeWaiting got.
	settledAtPark bool
	woken         []string
}

var began = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// loaded is the result of LoadFacts for an event without a review.
func loaded() activities.LoadFactsResult { return activities.LoadFactsResult{} }

// onboarded is loaded with an onboarding task.
func onboarded() activities.LoadFactsResult {
	return activities.LoadFactsResult{Planning: activities.Planning{Onboarding: []string{"pro"}}}
}

func reviewed(code, words string) activities.LoadFactsResult {
	return activities.LoadFactsResult{Code: code, Reason: words}
}

func setup(t *testing.T, load ...activities.LoadFactsResult) *flowTest {
	t.Helper()
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	f := &flowTest{T: t, env: suite.NewTestWorkflowEnvironment(), load: load, answers: map[string][]answer{}}
	f.env.SetTestTimeout(10 * time.Second)
	for _, receiver := range []any{
		&activities.Billing{}, &activities.Workspaces{}, &activities.Finance{}, &activities.Mail{}, &activities.Tasks{},
		&activities.Destinations{}, &activities.Runs{}, &activities.Objects{},
	} {
		f.env.RegisterActivity(receiver)
	}
	f.env.OnActivity("LoadFacts", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.LoadFactsInput) (activities.LoadFactsResult, error) {
			f.record(ctx, effect.Call{}, in)
			f.mu.Lock()
			defer f.mu.Unlock()
			next := f.load[0]
			if len(f.load) > 1 {
				f.load = f.load[1:]
			}
			return next, nil
		})
	effectOf[activities.Facts](f, "ApplyFacts")
	effectOf[activities.Wanted](f, "FetchObject")
	effectOf[activities.AccountDue](f, "ApplyDue")
	effectOf[activities.Withholding](f, "WithholdGrant")
	effectOf[activities.Workspace](f, "ProvisionWorkspace")
	effectOf[activities.WorkspaceRef](f, "AlignWorkspace")
	effectOf[activities.Entry](f, "PostEntry")
	effectOf[activities.Letter](f, "SendLetter")
	effectOf[activities.Task](f, "OpenTask")
	effectOf[activities.Task](f, "CloseTask")
	effectOf[activities.Task](f, "CancelTask")
	effectOf[activities.Delivery](f, "RelayEvent")
	f.env.OnActivity("ParkRun", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.ParkRunInput) (activities.ParkRunResult, error) {
			f.record(ctx, effect.Call{}, in)
			return activities.ParkRunResult{Settled: f.settledAtPark}, nil
		})
	recorded[activities.FinishRunInput, activities.FinishRunResult](f, "FinishRun")
	recorded[activities.SkipEffectInput, activities.SkipEffectResult](f, "SkipEffect")
	recorded[activities.RecordDecisionInput, activities.RecordDecisionResult](f, "RecordDecision")
	f.env.OnActivity("WakeWaiting", mock.Anything, mock.Anything).Return(
		func(_ context.Context, in activities.WakeWaitingInput) (activities.WakeWaitingResult, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.woken = append(f.woken, in.Keys...)
			return activities.WakeWaitingResult{}, nil
		})
	f.env.OnActivity("RecordCancellation", mock.Anything, mock.Anything).Return(activities.RecordCancellationResult{Words: "cancelled in Temporal by bob (a mistake)"}, nil)
	f.env.OnActivity("ReadEffects", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.ReadEffectsInput) (activities.ReadEffectsResult, error) {
			f.record(ctx, effect.Call{}, in)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.seen) == 0 {
				return activities.ReadEffectsResult{}, nil
			}
			next := f.seen[0]
			f.seen = f.seen[1:]
			return next, nil
		})
	return f
}

// effectOf simulates the activity of an effect with the answers that the test sets by kind.
func effectOf[N any](f *flowTest, name string) {
	f.env.OnActivity(name, mock.Anything, mock.Anything).Return(func(ctx context.Context, in activities.EffectInput[N]) (effect.Result, error) {
		f.record(ctx, in.Effect, in)
		f.mu.Lock()
		defer f.mu.Unlock()
		if list := f.answers[in.Effect.Kind]; len(list) > 0 {
			f.answers[in.Effect.Kind] = list[1:]
			return list[0].result, list[0].err
		}
		return effect.Result{State: effect.Done, Value: json.RawMessage(`{}`)}, nil
	})
}

func recorded[I, R any](f *flowTest, name string) {
	f.env.OnActivity(name, mock.Anything, mock.Anything).Return(func(ctx context.Context, in I) (R, error) {
		f.record(ctx, effect.Call{}, in)
		f.mu.Lock()
		defer f.mu.Unlock()
		var none R
		if list := f.answers[name]; len(list) > 0 {
			f.answers[name] = list[1:]
			return none, list[0].err
		}
		return none, nil
	})
}

func (f *flowTest) record(ctx context.Context, c effect.Call, in any) {
	info := activity.GetInfo(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call{name: cmp.Or(c.Kind, info.ActivityType.Name), local: info.IsLocalActivity, id: info.ActivityID, effect: c, input: in})
}

// answer sets the next results of an activity.
func (f *flowTest) answer(name string, list ...answer) {
	f.answers[name] = append(f.answers[name], list...)
}

func failed(kind string, wait time.Duration) answer {
	return answer{err: temporal.NewApplicationErrorWithOptions("busy", kind, temporal.ApplicationErrorOptions{NextRetryDelay: wait})}
}

func came(state effect.State, reason string) answer {
	return answer{result: effect.Result{State: state, Reason: reason}}
}

// decide sends an update at a time of the workflow's clock, and records whether the update was rejected.
func (f *flowTest) decide(after time.Duration, action string, in workflows.DecisionInput) {
	f.env.RegisterDelayedCallback(func() {
		f.env.UpdateWorkflow(action, action+after.String(), &testsuite.TestUpdateCallback{
			OnAccept: func() {},
			OnReject: func(err error) { f.refused = append(f.refused, err.Error()) },
			OnComplete: func(_ any, err error) {
				if err != nil {
					f.Errorf("%s: %v", action, err)
				}
			},
		}, in)
	}, after)
}

var ada = workflows.DecisionInput{Actor: "ada", Reason: "looked at it"}

// confirmed returns ada's confirmation that the effect may be repeated.
func confirmed(key string) workflows.DecisionInput {
	in := ada
	in.Effect, in.Confirm = key, key
	return in
}

func (f *flowTest) run() workflows.EventResult {
	f.Helper()
	f.env.ExecuteWorkflow(workflows.Toy, workflows.EventInput{
		Ref:    event.Ref{ReceiptID: "receipt", Provider: "stripe", Mode: "live", EventID: "evt_1", Type: "invoice.paid", ObjectID: "in_1"},
		Replay: f.replay,
	})
	if !f.env.IsWorkflowCompleted() {
		f.Fatal("the workflow has not ended")
	}
	var result workflows.EventResult
	if err := f.env.GetWorkflowResult(&result); err != nil {
		f.Fatal(err)
	}
	return result
}

// order returns the names of the called activities in order, including repeated calls.
func (f *flowTest) order() []string {
	var names []string
	for _, c := range f.calls {
		names = append(names, c.name)
	}
	return names
}

func (f *flowTest) callsOf(name string) []call {
	return slices.DeleteFunc(slices.Clone(f.calls), func(c call) bool { return c.name != name })
}

func (f *flowTest) wantOrder(want ...string) {
	f.Helper()
	if got := f.order(); !slices.Equal(got, want) {
		f.Errorf("activities\n got %v\nwant %v", got, want)
	}
}

func (f *flowTest) wantOutcome(got workflows.EventResult, outcome, reason string) {
	f.Helper()
	if got.Outcome != outcome || !strings.Contains(got.Reason, reason) || reason == "" && got.Reason != "" {
		f.Errorf("result is %s (%s), want %s (%s)", got.Outcome, got.Reason, outcome, reason)
	}
	finish := f.callsOf("FinishRun")
	if len(finish) != 1 {
		f.Fatalf("FinishRun was called %d times", len(finish))
	}
	if in := finish[0].input.(activities.FinishRunInput); in.Status != outcome || in.Reason != got.Reason || in.Flow != "Toy" || in.ResetOf != "" {
		f.Errorf("FinishRun got %+v", in)
	}
}

func states(r workflows.EventResult) map[string]string {
	m := map[string]string{}
	for _, e := range r.Effects {
		m[e.Key] = e.State
	}
	return m
}

func TestFlow_Starter_EachEffectOnceUnderItsKey(t *testing.T) {
	f := setup(t, loaded())
	result := f.run()
	f.wantOutcome(result, "processed", "")
	want := map[string]string{
		"apply-facts:stripe:live:evt_1":           "done",
		"provision-workspace:stripe:live:acme:v7": "done",
		"finance-export:stripe:live:in_1":         "done",
		"receipt-email:stripe:live:in_1":          "done",
	}
	if got := states(result); !reflect.DeepEqual(got, want) {
		t.Errorf("effects\n got %v\nwant %v", got, want)
	}
	if got := f.order(); len(got) != 6 || got[0] != "LoadFacts" || got[1] != "apply-facts" || got[5] != "FinishRun" {
		t.Errorf("activities: %v", got)
	}
	for _, c := range f.calls {
		if !c.local {
			t.Errorf("%s ran as a regular activity though nothing failed", c.name)
		}
	}
}

func TestFlow_Enterprise_OnboardingTaskOfPeriod(t *testing.T) {
	f := setup(t, onboarded())
	result := f.run()
	f.wantOutcome(result, "processed", "")
	if got := states(result)["onboarding-task:stripe:live:in_1"]; got != "done" || len(result.Effects) != 5 {
		t.Errorf("effects: %v", states(result))
	}
}

func TestFlow_OtherEventDidIt_AlreadyDoneByIt(t *testing.T) {
	f := setup(t, loaded())
	already := answer{result: effect.Result{State: effect.AlreadyDone, By: "evt_0", Value: json.RawMessage(`{}`)}}
	for _, name := range []string{"apply-facts", "provision-workspace", "finance-export", "receipt-email"} {
		f.answer(name, already)
	}
	result := f.run()
	f.wantOutcome(result, "processed", "")
	for _, e := range result.Effects {
		if e.State != "already_done" || e.By != "evt_0" {
			t.Errorf("effect %+v, want already_done by evt_0", e)
		}
	}
}

func TestFlow_OtherEventWasTakenBack_EndsCompensated(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", answer{result: effect.Result{State: effect.Compensated, Value: json.RawMessage(`{}`)}})
	f.wantOutcome(f.run(), "compensated", "was compensated before")
	// The attempt that revoked the grant may have been interrupted before it updated the workspace, so the workspace
	// is updated again.
	f.wantOrder("LoadFacts", "apply-facts", "ReadEffects", "withhold-grant", "FinishRun")
}

func TestFlow_LocalTryFails_RegularActivityUnderTheKey(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", failed(effect.TypeTransient, 500*time.Millisecond), failed(effect.TypeTransient, 500*time.Millisecond))
	f.wantOutcome(f.run(), "processed", "")
	calls := f.callsOf("finance-export")
	if len(calls) != 3 || !calls[0].local || calls[1].local || calls[2].local {
		t.Fatalf("calls: %+v, want one local and two regular ones", calls)
	}
	for _, c := range calls[1:] {
		if c.id != "finance-export:stripe:live:in_1" {
			t.Errorf("activity ID is %q, want the effect's key", c.id)
		}
	}
	if !reflect.DeepEqual(calls[0].input, calls[1].input) {
		t.Errorf("the escalated effect got another input:\n%+v\n%+v", calls[0].input, calls[1].input)
	}
}

func TestFlow_ActivityOnly_NoLocalTry(t *testing.T) {
	load := loaded()
	load.Sinks = map[string]activities.SinkSettings{"finance": {Timeout: time.Second, ActivityOnly: true}}
	f := setup(t, load)
	f.wantOutcome(f.run(), "processed", "")
	if calls := f.callsOf("finance-export"); len(calls) != 1 || calls[0].local {
		t.Errorf("calls: %+v, want one regular activity", calls)
	} else if in := calls[0].input.(activities.EffectInput[activities.Entry]); in.Effect.Timeout != time.Second {
		t.Errorf("one try may take %s, want the second that its sink is given", in.Effect.Timeout)
	}
	if calls := f.callsOf("provision-workspace"); len(calls) != 1 || !calls[0].local {
		t.Errorf("calls: %+v, want the setting to concern finance only", calls)
	}
}

func TestFlow_RetryAfter_WaitsByTimer(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", failed(effect.TypeTransient, 42*time.Second))
	start := f.env.Now()
	var timers []time.Duration
	f.env.SetOnTimerScheduledListener(func(_ string, d time.Duration) { timers = append(timers, d) })
	f.wantOutcome(f.run(), "processed", "")
	if !slices.Equal(timers, []time.Duration{42 * time.Second}) {
		t.Errorf("timers: %v, want one of 42s", timers)
	}
	if waited := f.env.Now().Sub(start); waited < 42*time.Second {
		t.Errorf("ended after %s, want the asked wait", waited)
	}
}

func TestFlow_ProvisioningRefused_UndoneLastInFirstOut(t *testing.T) {
	f := setup(t, onboarded())
	f.answer("provision-workspace", came(effect.Refused, "sink answered 403"))
	result := f.run()
	f.wantOutcome(result, "compensated", "provision-workspace was refused: sink answered 403")
	undone := f.order()[7:]
	// The steps began in the order provision, finance, mail, task, and are compensated in the reverse order. A
	// refused step needs no compensation.
	want := []string{"cancel-onboarding-task", "correction-notice", "reverse-finance-entry", "withhold-grant", "FinishRun"}
	if !slices.Equal(undone, want) {
		t.Errorf("undone\n got %v\nwant %v", undone, want)
	}
	for name, keys := range map[string][2]string{
		"cancel-onboarding-task": {"cancel-onboarding-task:stripe:live:in_1", "onboarding-task:stripe:live:in_1"},
		"correction-notice":      {"correction-notice:stripe:live:in_1", "receipt-email:stripe:live:in_1"},
		"reverse-finance-entry":  {"reverse-finance-entry:stripe:live:in_1", "finance-export:stripe:live:in_1"},
		"withhold-grant":         {"withhold-grant:stripe:live:evt_1", "apply-facts:stripe:live:evt_1"},
	} {
		if c := f.callsOf(name)[0].effect; c.Key != keys[0] || c.Compensates != keys[1] {
			t.Errorf("%s: key %q undoes %q, want %v", name, c.Key, c.Compensates, keys)
		}
	}
	if got := states(result)["withhold-grant:stripe:live:evt_1"]; got != "done" {
		t.Errorf("the undos are missing in the result: %v", states(result))
	}
}

// A decision about a parked compensation applies only to this compensation. The other compensations continue.
func TestFlow_ParkedUndoSkipped_OtherUndosGoOn(t *testing.T) {
	f := setup(t, loaded())
	f.answer("provision-workspace", came(effect.Refused, "403"))
	f.answer("finance-export", answer{result: effect.Result{State: effect.Failed, Reason: "timeouts", Unanswered: true}})
	f.answer("correction-notice", came(effect.Refused, "mailbox is gone"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "compensated", "refused")
	if skipped := f.callsOf("SkipEffect"); len(skipped) != 1 || skipped[0].input.(activities.SkipEffectInput).Effect.Key != "correction-notice:stripe:live:in_1" {
		t.Errorf("skipped %+v, want the notice alone", skipped)
	}
	for _, name := range []string{"reverse-finance-entry", "withhold-grant"} {
		if n := len(f.callsOf(name)); n != 1 {
			t.Errorf("%s was called %d times, want once", name, n)
		}
	}
}

// If a person completes the recording activity as failed in Temporal, the audit trail does not contain the decision,
// and the decision has no effect.
func TestFlow_DecisionNotRecorded_IsNotFollowed(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Refused, "unknown account"))
	byHand := answer{err: temporal.NewNonRetryableApplicationError("failed by hand", "", nil)}
	f.answer("RecordDecision", byHand, byHand) // for the local attempt and the regular one
	var told error
	f.env.RegisterDelayedCallback(func() {
		f.env.UpdateWorkflow(workflows.UpdateCompensate, "lost", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { f.Error(err) },
			OnComplete: func(_ any, err error) { told = err },
		}, workflows.DecisionInput{Actor: "bob", Reason: "never mind"})
	}, time.Hour)
	f.decide(2*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	if told == nil || !strings.Contains(told.Error(), "the decision was not executed") {
		t.Errorf("bob got the error %v", told)
	}
	if n := len(f.callsOf("withhold-grant")); n != 0 {
		t.Error("what bob wanted was done")
	}
}

// Skipping apply-facts skips all effects, because they depend on it.
func TestFlow_RefusedApplyingSkipped_NothingIsDone(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", came(effect.Refused, "the database refuses it"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "nothing done: skipped by ada: looked at it")
	f.wantOrder("LoadFacts", "apply-facts", "ReadEffects", "ParkRun", "RecordDecision", "ReadEffects", "SkipEffect", "ReadEffects", "FinishRun")
}

// Every write to the receipt contains the start of the workflow task, so that an older attempt cannot overwrite a
// newer state.
func TestFlow_EveryWriteSaysSinceWhenItsTaskRuns(t *testing.T) {
	f := setup(t, loaded())
	f.env.SetCurrentHistoryLength(3)
	f.env.SetStartTime(began)
	f.answer("finance-export", answer{result: effect.Result{State: effect.Failed, Reason: "answered 503"}})
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	seen := map[string]int{}
	for _, c := range f.calls {
		var asOf time.Time
		switch in := c.input.(type) {
		case activities.ParkRunInput:
			asOf = in.AsOf
		case activities.RecordDecisionInput:
			asOf = in.AsOf
		case activities.FinishRunInput:
			asOf = in.AsOf
		default:
			if asOf = c.effect.AsOf; c.effect.Key == "" {
				continue
			}
		}
		seen[c.name]++
		if !asOf.Equal(began) {
			t.Errorf("%s as of %s, want %s", c.name, asOf, began)
		}
	}
	if seen["ParkRun"] != 1 || seen["RecordDecision"] != 1 || seen["FinishRun"] != 1 || seen["finance-export"] != 2 {
		t.Errorf("called %v", seen)
	}
}

func TestFlow_TriesUsedUp_OthersFinishAndRunParksDead(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", answer{result: effect.Result{State: effect.Failed, Reason: "answered 503", Round: 4}})
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	result := f.run()
	f.wantOutcome(result, "processed", "")
	for _, e := range result.Effects {
		if e.Reason != "" {
			t.Errorf("%s is %s, because of what came before: %s", e.Key, e.State, e.Reason)
		}
	}
	parked := f.callsOf("ParkRun")
	if len(parked) != 1 {
		t.Fatalf("parked %d times", len(parked))
	}
	if in := parked[0].input.(activities.ParkRunInput); in.Status != "dead" || in.Reason != "effect_failed: finance-export is failed: answered 503" {
		t.Errorf("parked with %+v", in)
	}
	calls := f.callsOf("finance-export")
	if len(calls) != 2 || calls[1].effect.Round != 5 {
		t.Errorf("retry: %+v, want one of a later round than the ledger's 4", calls)
	}
	for _, name := range []string{"apply-facts", "provision-workspace", "receipt-email"} {
		if n := len(f.callsOf(name)); n != 1 {
			t.Errorf("%s was called %d times; retry continues with the failed effect", name, n)
		}
	}
	decision := f.callsOf("RecordDecision")[0].input.(activities.RecordDecisionInput)
	if decision.Actor != "ada" || decision.Reason != "looked at it" || decision.Action != "retry" || decision.RequestID == "" {
		t.Errorf("recorded decision: %+v", decision)
	}
}

func TestFlow_Skip_ByKindAndRecorded(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Uncertain, "no answer to the final dot"), came(effect.AlreadyDone, ""))
	f.decide(time.Hour, workflows.UpdateSkip, workflows.DecisionInput{Actor: "ada", Reason: "booked by hand", Effect: "finance-export"})
	f.decide(2*time.Hour, workflows.UpdateResend, confirmed("receipt-email:stripe:live:in_1"))
	result := f.run()
	f.wantOutcome(result, "processed", "")
	if got := states(result); got["finance-export:stripe:live:in_1"] != "skipped" {
		t.Errorf("effects: %v", got)
	}
	skipped := f.callsOf("SkipEffect")
	if len(skipped) != 1 {
		t.Fatalf("SkipEffect was called %d times", len(skipped))
	}
	if in := skipped[0].input.(activities.SkipEffectInput); in.Effect.Key != "finance-export:stripe:live:in_1" || in.Reason != "skipped by ada: booked by hand" {
		t.Errorf("skipped with %+v", in)
	}
	if n := len(f.callsOf("finance-export")); n != 1 {
		t.Errorf("a skipped effect was tried %d times", n)
	}
}

func TestFlow_UncertainMail_NeedsReview(t *testing.T) {
	f := setup(t, loaded())
	f.answer("receipt-email", came(effect.Uncertain, "no answer to the final dot"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	in := f.callsOf("ParkRun")[0].input.(activities.ParkRunInput)
	if in.Status != "needs_review" || !strings.Contains(in.Reason, "receipt-email is uncertain") {
		t.Errorf("parked with %+v", in)
	}
	if n := len(f.callsOf("receipt-email")); n != 1 {
		t.Errorf("a doubtful mail was sent %d times", n)
	}
}

// An effect that a person skipped is never compensated, whether or not it had happened.
func TestFlow_SkippedThenCompensated_NotTakenBack(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"), came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Uncertain, "no answer to the final dot"))
	f.decide(time.Hour, workflows.UpdateSkip, workflows.DecisionInput{Actor: "ada", Reason: "the relay's log has it", Effect: "receipt-email"})
	f.decide(2*time.Hour, workflows.UpdateCompensate, ada)
	f.wantOutcome(f.run(), "compensated", "ada decided to compensate: looked at it")
	for name, want := range map[string]int{"correction-notice": 0, "withhold-grant": 1} {
		if n := len(f.callsOf(name)); n != want {
			t.Errorf("%s was called %d times, want %d", name, n, want)
		}
	}
}

func TestFlow_CompensateByOperator_DoubtfulIsUndoneRefusedIsNot(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", came(effect.Failed, "503"))
	f.answer("receipt-email", came(effect.Uncertain, "nobody knows"))
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	f.wantOutcome(f.run(), "compensated", "ada decided to compensate: looked at it")
	undone := f.order()[slices.Index(f.order(), "RecordDecision")+1:]
	if want := []string{"ReadEffects", "correction-notice", "withhold-grant", "ReadEffects", "FinishRun"}; !slices.Equal(undone, want) {
		t.Errorf("undone\n got %v\nwant %v", undone, want)
	}
}

// The ledger contains the result of a decision about another event of the same invoice.
var (
	takenBack = activities.ReadEffectsResult{Settled: map[string]effect.Result{
		"apply-facts:stripe:live:evt_1":           {State: effect.Compensated, By: "evt_2"},
		"provision-workspace:stripe:live:acme:v7": {State: effect.Compensated, By: "evt_2"},
		"receipt-email:stripe:live:in_1":          {State: effect.Compensated, By: "evt_2"},
	}}
	booked = activities.ReadEffectsResult{Settled: map[string]effect.Result{
		"finance-export:stripe:live:in_1": {State: effect.AlreadyDone, By: "evt_2"},
	}}
	undoBegun = activities.ReadEffectsResult{Undoing: "correction-notice:stripe:live:in_1"}
)

func TestFlow_OtherRunDecidedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		decide string
		seen   []activities.ReadEffectsResult
		// exports and reversals count the calls of the finance activities.
		exports, reversals int
		outcome            string
	}{
		"taken back before the retry":     {workflows.UpdateRetry, []activities.ReadEffectsResult{takenBack}, 1, 0, "compensated"},
		"undo begun before the retry":     {workflows.UpdateRetry, []activities.ReadEffectsResult{undoBegun}, 1, 0, "compensated"},
		"taken back before the skip":      {workflows.UpdateSkip, []activities.ReadEffectsResult{takenBack}, 1, 0, "compensated"},
		"taken back during the retry":     {workflows.UpdateRetry, []activities.ReadEffectsResult{{}, takenBack}, 2, 1, "compensated"},
		"done before the retry":           {workflows.UpdateRetry, []activities.ReadEffectsResult{booked}, 1, 0, "processed"},
		"done before the skip":            {workflows.UpdateSkip, []activities.ReadEffectsResult{booked}, 1, 0, "processed"},
		"done before the compensation":    {workflows.UpdateCompensate, []activities.ReadEffectsResult{booked}, 1, 1, "compensated"},
		"nothing happened, so it retries": {workflows.UpdateRetry, nil, 2, 0, "processed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, loaded())
			// the first refresh, before the run parks, finds no change
			f.seen = append([]activities.ReadEffectsResult{{}}, tt.seen...)
			f.answer("finance-export", came(effect.Failed, "503"))
			f.decide(time.Hour, tt.decide, ada)
			if result := f.run(); result.Outcome != tt.outcome {
				t.Errorf("outcome %s (%s), want %s", result.Outcome, result.Reason, tt.outcome)
			}
			if exports, reversals := len(f.callsOf("finance-export")), len(f.callsOf("reverse-finance-entry")); exports != tt.exports || reversals != tt.reversals {
				t.Errorf("finance: %d entries tried and %d reversals, want %d and %d", exports, reversals, tt.exports, tt.reversals)
			}
			if n := len(f.callsOf("SkipEffect")); n != 0 {
				t.Errorf("%d effects were skipped that another run had settled", n)
			}
			read := f.callsOf("ReadEffects")[0].input.(activities.ReadEffectsInput)
			if !slices.Contains(read.Keys, "finance-export:stripe:live:in_1") || !slices.Contains(read.Undos, "reverse-finance-entry:stripe:live:in_1") {
				t.Errorf("read %+v", read)
			}
		})
	}
}

func TestFlow_UndoFailsForAWhile_TriedUntilDone(t *testing.T) {
	f := setup(t, loaded())
	f.answer("provision-workspace", came(effect.Refused, "403"))
	for range 8 { // the test environment stops after ten attempts; a server does not
		f.answer("reverse-finance-entry", failed(effect.TypeTransient, 500*time.Millisecond))
	}
	f.wantOutcome(f.run(), "compensated", "refused")
	if n := len(f.callsOf("reverse-finance-entry")); n != 9 {
		t.Errorf("the undo was tried %d times, want 9", n)
	}
	order := f.order()
	if slices.Index(order, "withhold-grant") < slices.Index(order, "reverse-finance-entry")+8 {
		t.Errorf("the next undo did not wait for the one before: %v", order)
	}
}

func TestFlow_UndoRefused_ParksAndGoesOn(t *testing.T) {
	f := setup(t, loaded())
	f.answer("provision-workspace", came(effect.Refused, "403"))
	f.answer("reverse-finance-entry", came(effect.Refused, "period closed"), came(effect.Refused, "period closed"))
	f.decide(time.Hour, workflows.UpdateCompensate, ada) // the compensation is already in progress
	f.decide(time.Hour+time.Second, workflows.UpdateRetry, ada)
	f.decide(2*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "compensated", "refused")
	if len(f.refused) != 1 || !strings.Contains(f.refused[0], "does not accept compensate in its present state: it accepts skip, retry, done") {
		t.Errorf("refused %q", f.refused)
	}
	calls := f.callsOf("reverse-finance-entry")
	if len(calls) != 2 || calls[1].effect.Round != 1 {
		t.Errorf("undo calls: %+v, want a second one of round 1", calls)
	}
	if n := len(f.callsOf("ParkRun")); n != 2 {
		t.Errorf("parked %d times, want 2: an undo is never passed over in silence", n)
	}
	if n := len(f.callsOf("withhold-grant")); n != 1 {
		t.Errorf("RestoreSubscription was called %d times after the skip", n)
	}
}

func TestFlow_ReviewThenSkip_NothingIsDone(t *testing.T) {
	f := setup(t, reviewed("unreadable_payload", "invoice.currency: absent"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "nothing done: skip by ada: looked at it")
	f.wantOrder("LoadFacts", "ParkRun", "RecordDecision", "FinishRun")
}

func unnamed(wait time.Duration) activities.LoadFactsResult {
	return activities.LoadFactsResult{Unnamed: "cus_1", Planning: activities.Planning{WaitForName: wait}}
}

// If no event names the account of a new customer, the run reads the event again until another event names it.
func TestFlow_AccountNamedMeanwhile_WaitedFor(t *testing.T) {
	f := setup(t, unnamed(time.Hour), unnamed(time.Hour), loaded())
	begun := f.env.Now()
	f.wantOutcome(f.run(), "processed", "")
	if order := f.order(); !slices.Equal(order[:4], []string{"LoadFacts", "LoadFacts", "LoadFacts", "apply-facts"}) {
		t.Errorf("order %q", order)
	}
	if waited := f.env.Now().Sub(begun); waited < 2*time.Second || waited > time.Minute {
		t.Errorf("waited %s, want some seconds", waited)
	}
}

// If no event ever names the account, the event is applied after policy.subscription_wait.
func TestFlow_AccountNeverNamed_AppliedOnceSettled(t *testing.T) {
	f := setup(t, unnamed(10*time.Minute))
	begun := f.env.Now()
	f.wantOutcome(f.run(), "processed", "")
	if order := f.order(); order[len(order)-1] != "FinishRun" || !slices.Contains(order, "apply-facts") {
		t.Errorf("order %q", order)
	}
	if waited := f.env.Now().Sub(begun); waited < 10*time.Minute || waited > 11*time.Minute {
		t.Errorf("waited %s, want policy.subscription_wait", waited)
	}
}

// A cancelled run stops waiting.
func TestFlow_WaitsForTheAccount_Cancelled_Parks(t *testing.T) {
	f := setup(t, unnamed(time.Hour))
	f.env.RegisterDelayedCallback(f.env.CancelWorkflow, time.Minute)
	f.decide(2*time.Hour, workflows.UpdateRetry, ada)
	begun := f.env.Now()
	f.wantOutcome(f.run(), "processed", "")
	if order := f.order(); !slices.Contains(order, "ParkRun") {
		t.Errorf("order %q", order)
	}
	if waited := f.env.Now().Sub(begun); waited < 2*time.Hour {
		t.Errorf("went on after %s, without the decision", waited)
	}
}

// A person has skipped apply-facts, either for another event of this invoice or for this event before a reset. No
// effect that depends on apply-facts runs.
func TestFlow_ApplyingSkippedBefore_NothingIsDone(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", came(effect.Skipped, "skipped by ada: it has ended"))
	f.wantOutcome(f.run(), "processed", "nothing done: skipped by ada: it has ended")
	f.wantOrder("LoadFacts", "apply-facts", "FinishRun")
}

// The same holds for a parked run, which finds the skip when it refreshes.
func TestFlow_ApplyingSkippedMeanwhile_NothingIsDone(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", came(effect.Refused, "the database refuses it"))
	f.seen = []activities.ReadEffectsResult{{Settled: map[string]effect.Result{
		"apply-facts:stripe:live:evt_1": {State: effect.Skipped, By: "evt_2", Reason: "skipped by ada: it has ended"},
	}}}
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "nothing done: skipped by ada: it has ended")
	if order := f.order(); slices.Contains(order, "finance-export") || slices.Contains(order, "provision-workspace") {
		t.Errorf("order %v, want nothing done", order)
	}
}

// The run is parked at apply-facts, and the run of the invoice's other event has completed all effects. A decision to
// compensate undoes all effects, not only apply-facts.
func TestFlow_CompensatedAtTheApplying_WhatAnotherRunDidIsUndone(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", came(effect.Refused, "the database refuses it"))
	by := effect.Result{State: effect.AlreadyDone, By: "evt_2", Value: json.RawMessage(`{}`)}
	f.seen = []activities.ReadEffectsResult{
		{},
		{Settled: map[string]effect.Result{"apply-facts:stripe:live:evt_1": by}},
		{Settled: map[string]effect.Result{
			"provision-workspace:stripe:live:acme:v7": by, "finance-export:stripe:live:in_1": by,
			"receipt-email:stripe:live:in_1": {State: effect.Skipped, By: "evt_2"},
		}},
	}
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	result := f.run()
	f.wantOutcome(result, "compensated", "ada decided")
	undone := f.order()[slices.Index(f.order(), "RecordDecision")+1:]
	want := []string{"ReadEffects", "ReadEffects", "reverse-finance-entry", "withhold-grant", "FinishRun"}
	if !slices.Equal(undone, want) {
		t.Errorf("undone\n got %v\nwant %v", undone, want)
	}
}

// The other run has not started one of the effects. This effect needs no compensation and is not reported.
func TestFlow_CompensatedAtTheApplying_WhatNobodyDidIsNotTold(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", came(effect.Refused, "the database refuses it"))
	f.seen = []activities.ReadEffectsResult{
		{},
		{Settled: map[string]effect.Result{"apply-facts:stripe:live:evt_1": {State: effect.AlreadyDone, By: "evt_2", Value: json.RawMessage(`{}`)}}},
	}
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	result := f.run()
	f.wantOutcome(result, "compensated", "ada decided")
	if got := states(result); len(got) != 2 || len(f.callsOf("reverse-finance-entry")) != 0 {
		t.Errorf("effects %v, want the applying and its undo", got)
	}
}

// A run that was parked before its first effect refreshes again after its effects, because another run may have
// started to compensate apply-facts.
func TestFlow_ParkedBeforeItsEffects_LooksAfterThem(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		load     []activities.LoadFactsResult
		applying effect.State
		seen     []activities.ReadEffectsResult
	}{
		"at the review":   {[]activities.LoadFactsResult{reviewed("unreadable_payload", "invoice.currency: absent"), loaded()}, effect.Done, []activities.ReadEffectsResult{{}, undoBegun}},
		"at the applying": {[]activities.LoadFactsResult{loaded()}, effect.Refused, []activities.ReadEffectsResult{{}, {}, {}, undoBegun}},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, tt.load...)
			f.answer("apply-facts", answer{result: effect.Result{State: tt.applying, Value: json.RawMessage(`{}`)}})
			f.seen = tt.seen
			f.decide(time.Hour, workflows.UpdateRetry, ada)
			f.wantOutcome(f.run(), "compensated", "another run has begun to compensate")
			if n := len(f.callsOf("reverse-finance-entry")); n != 1 {
				t.Errorf("%d reversals of what this run has booked, want one", n)
			}
		})
	}
}

// If a person completes an activity in Temporal with the result {}, the outcome is unknown.
func TestFlow_ResultSaysNothing_Uncertain(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", failed(effect.TypeTransient, time.Minute), answer{})
	f.decide(time.Hour, workflows.UpdateResend, confirmed("finance-export:stripe:live:in_1"))
	f.wantOutcome(f.run(), "processed", "")
	parked := f.callsOf("ParkRun")
	if len(parked) != 1 {
		t.Fatalf("parked %d times, want once", len(parked))
	}
	if in := parked[0].input.(activities.ParkRunInput); in.Status != "needs_review" || !strings.HasPrefix(in.Reason, "effect_uncertain: finance-export is uncertain: its activity was completed by hand with a result") {
		t.Errorf("parked as %s: %q", in.Status, in.Reason)
	}
}

// If a person completes a compensation in Temporal with the state of its effect, the compensation is done.
func TestFlow_UndoSaysCompensated_IsDone(t *testing.T) {
	f := setup(t, loaded())
	f.answer("provision-workspace", came(effect.Refused, "403"))
	f.answer("reverse-finance-entry", came(effect.Compensated, ""))
	f.wantOutcome(f.run(), "compensated", "refused")
	if n := len(f.callsOf("reverse-finance-entry")); n != 1 {
		t.Errorf("it was done %d times, want once", n)
	}
}

func TestFlow_Decisions_RefusedWhereTheyMakeNoSense(t *testing.T) {
	f := setup(t, loaded())
	f.answer("finance-export", failed(effect.TypeTransient, time.Minute), came(effect.Failed, "503"))
	f.decide(time.Second, workflows.UpdateRetry, ada) // the run is not parked yet: it waits for the sink
	f.decide(time.Hour, workflows.UpdateRetry, workflows.DecisionInput{Actor: "ada"})
	f.decide(time.Hour+time.Second, workflows.UpdateRetry, workflows.DecisionInput{Actor: " ", Reason: "x"})
	f.decide(time.Hour+2*time.Second, workflows.UpdateSkip, workflows.DecisionInput{Actor: "ada", Reason: "x", Effect: "receipt-email"})
	f.decide(time.Hour+3*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Actor: "ada", Reason: "x\x00"})
	f.decide(time.Hour+4*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Actor: "a\x00da", Reason: "x"})
	f.decide(time.Hour+5*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Actor: "ada", Reason: strings.Repeat("x", 2001)})
	f.decide(time.Hour+6*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Actor: strings.Repeat("x", 201), Reason: "x"})
	f.decide(2*time.Hour, workflows.UpdateRetry, workflows.DecisionInput{Actor: strings.Repeat("a", 200), Reason: strings.Repeat("é", 1000)})
	f.wantOutcome(f.run(), "processed", "")
	want := []string{
		"the run is not waiting for a decision",
		"who and why are required: the audit trail stores both",
		"who and why are required: the audit trail stores both",
		`no unfinished effect "receipt-email"; unfinished are: finance-export:stripe:live:in_1`,
		"who (200 bytes at most), why (2000) and reference (500) must be text without NUL",
		"must be text without NUL",
		"must be text without NUL",
		"must be text without NUL",
	}
	if len(f.refused) != len(want) {
		t.Fatalf("refused: %q", f.refused)
	}
	for i, w := range want {
		if !strings.Contains(f.refused[i], w) {
			t.Errorf("refusal %d is %q, want %q", i, f.refused[i], w)
		}
	}
	if n := len(f.callsOf("RecordDecision")); n != 1 {
		t.Errorf("%d decisions were recorded, want only the accepted one", n)
	}
}

func TestFlow_OurOwnFault_FailsTheRunVisibly(t *testing.T) {
	f := setup(t, loaded())
	wiring := answer{err: temporal.NewNonRetryableApplicationError("no such column", "Wiring", nil)}
	f.answer("finance-export", wiring, wiring)
	f.env.ExecuteWorkflow(workflows.Toy, workflows.EventInput{Ref: event.Ref{ReceiptID: "receipt"}})
	var app *temporal.ApplicationError
	if err := f.env.GetWorkflowError(); !errors.As(err, &app) || !strings.Contains(err.Error(), "finance-export") {
		t.Errorf("error is %v, want it to name the effect", err)
	}
}

// Only a parked run refreshes from the ledger. A run without problems does not.
func TestFlow_Healthy_DoesNotRefresh(t *testing.T) {
	f := setup(t, onboarded())
	f.wantOutcome(f.run(), "processed", "")
	if n := len(f.callsOf("ReadEffects")); n != 0 {
		t.Errorf("refreshed %d times", n)
	}
}

// If pawl or its deployment causes a failure, the customer's effects are not compensated.
func TestFlow_ProvisioningFails_NothingIsTakenBack(t *testing.T) {
	f := setup(t, loaded())
	f.answer("provision-workspace", came(effect.Failed, "answered 401"))
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	if in := f.callsOf("ParkRun")[0].input.(activities.ParkRunInput); in.Status != "dead" || !strings.HasPrefix(in.Reason, "effect_failed: provision-workspace is failed: answered 401") {
		t.Errorf("parked with %+v", in)
	}
	for _, undo := range []string{"withhold-grant", "reverse-finance-entry", "correction-notice"} {
		if n := len(f.callsOf(undo)); n != 0 {
			t.Errorf("%s was called %d times", undo, n)
		}
	}
}

// An older target that got no response may still reach the workspace after the newer target, so the workspace is
// updated once more.
func TestFlow_SupersededAfterUnansweredTry_Aligned(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		came effect.Result
		want int
	}{
		"unanswered": {effect.Result{State: effect.Skipped, Reason: "superseded by version 8", Unanswered: true}, 1},
		"not sent":   {effect.Result{State: effect.Skipped, Reason: "superseded by version 8"}, 0},
		"done":       {effect.Result{State: effect.Done}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, loaded())
			f.answer("provision-workspace", answer{result: tt.came})
			f.wantOutcome(f.run(), "processed", "")
			if n := len(f.callsOf("align-workspace")); n != tt.want {
				t.Errorf("aligned %d times, want %d", n, tt.want)
			}
		})
	}
}

// Revoking a grant changes the account's target, and the compensation then updates the workspace.
func TestFlow_Withheld_WorkspaceBroughtToTheNewTarget(t *testing.T) {
	f := setup(t, loaded())
	f.answer("provision-workspace", came(effect.Refused, "answered 422"))
	f.answer("withhold-grant", answer{result: effect.Result{State: effect.Done, Value: json.RawMessage(`{
		"Subject": {"Provider": "stripe", "Mode": "live", "EventID": "evt_1"}, "After": {"Access": {"Account": "acme", "Target": {"Version": 8, "State": "suspended"}}}}`)}})
	f.wantOutcome(f.run(), "compensated", "refused")
	calls := f.callsOf("provision-workspace")
	if len(calls) != 2 || calls[1].effect.Key != "provision-workspace:stripe:live:acme:v8" {
		t.Fatalf("provisioned %+v, want version 8 last", calls)
	}
	if in := calls[1].input.(activities.EffectInput[activities.Workspace]); in.For.State != "suspended" || in.For.Version != 8 {
		t.Errorf("brought to %+v", in.For)
	}
}

func TestFlow_Cancelled_ParksAndTakesNothingBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// finance lists the answers of the finance sink after the run is cancelled, one minute after its start.
		finance []answer
		why     string
		exports int
	}{
		"while it retries": {[]answer{failed(effect.TypeTransient, time.Hour)}, "not done when the run was cancelled", 2},
		"while parked":     {[]answer{came(effect.Failed, "503")}, "It was parked: finance-export is failed: 503", 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, loaded())
			f.answer("finance-export", tt.finance...)
			f.env.RegisterDelayedCallback(f.env.CancelWorkflow, time.Minute)
			f.decide(2*time.Hour, workflows.UpdateRetry, ada)
			f.wantOutcome(f.run(), "processed", "")
			parked := f.callsOf("ParkRun")
			in := parked[len(parked)-1].input.(activities.ParkRunInput)
			if in.Status != "needs_review" || !strings.HasPrefix(in.Reason, "cancelled: the run was cancelled in Temporal by bob (a mistake); executed effects stay. ") || !strings.Contains(in.Reason, tt.why) {
				t.Errorf("parked with %+v", in)
			}
			if n := len(f.callsOf("finance-export")); n != tt.exports {
				t.Errorf("finance was called %d times, want %d: once before, once after the retry", n, tt.exports)
			}
			if n := len(f.callsOf("withhold-grant")); n != 0 {
				t.Error("one click took the facts back")
			}
		})
	}
}

func TestFlow_CancelledBeforeItsEffects_NoneBegins(t *testing.T) {
	f := setup(t, loaded())
	f.answer("apply-facts", failed(effect.TypeInfrastructure, time.Hour))
	f.env.RegisterDelayedCallback(f.env.CancelWorkflow, time.Minute)
	f.decide(2*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "dismissed: nothing done: skipped by ada")
	if n := len(f.callsOf("finance-export")); n != 0 {
		t.Errorf("finance was called %d times", n)
	}
}

func TestFlow_Cancelled_PolicyCompensates(t *testing.T) {
	load := loaded()
	load.Planning.CancelCompensates = true
	f := setup(t, load)
	f.answer("finance-export", came(effect.Failed, "503"))
	f.env.RegisterDelayedCallback(f.env.CancelWorkflow, time.Minute)
	f.wantOutcome(f.run(), "compensated", "the run was cancelled")
	if n := len(f.callsOf("withhold-grant")); n != 1 {
		t.Errorf("withheld %d times", n)
	}
}

// A compensation is never dropped: the run parks as a dead letter and names the owner of the sink.
func TestFlow_UndoFails_ParksDeadWithItsOwner(t *testing.T) {
	load := loaded()
	load.Sinks = map[string]activities.SinkSettings{"finance": {Owner: "books@acme.example"}}
	f := setup(t, load)
	f.answer("provision-workspace", came(effect.Refused, "answered 422"))
	f.answer("reverse-finance-entry", came(effect.Failed, "503"))
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "compensated", "refused")
	if in := f.callsOf("ParkRun")[0].input.(activities.ParkRunInput); in.Status != "dead" || !strings.HasPrefix(in.Reason, "undo_failed: ") || !strings.Contains(in.Reason, "books@acme.example") {
		t.Errorf("parked with %+v", in)
	}
}

// An event with its own flow is also delivered to the destinations of its source. A refusal does not compensate a
// delivery, and a destination that is down gets the event later.
func TestFlow_Relayed_BesidesItsEffects(t *testing.T) {
	load := loaded()
	load.Destinations = []string{"crm", "mart"}
	f := setup(t, load)
	f.answer("provision-workspace", came(effect.Refused, "answered 422"))
	f.answer("relay", came(effect.Failed, "503"), came(effect.Failed, "503"), came(effect.Failed, "503"))
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "compensated", "refused")
	keys := map[string]int{}
	for _, c := range f.callsOf("relay") {
		keys[c.effect.Key]++
	}
	if want := map[string]int{"relay:stripe:live:evt_1:crm": 3, "relay:stripe:live:evt_1:mart": 3}; len(keys) != 2 || keys["relay:stripe:live:evt_1:crm"]+keys["relay:stripe:live:evt_1:mart"] < 5 {
		t.Errorf("delivered %v, want about %v", keys, want)
	}
}

func TestFlow_AccountNotMapped_IgnoredAndRelayed(t *testing.T) {
	f := setup(t, activities.LoadFactsResult{Ignored: true, Code: activities.CodeAccountNotMapped, Reason: "acct_evil", Destinations: []string{"crm"}})
	f.wantOutcome(f.run(), "ignored", "account_not_mapped: acct_evil")
	f.wantOrder("LoadFacts", "relay", "FinishRun")
}

func TestFlow_Review_ParksOnceItsEffectsAreDone(t *testing.T) {
	t.Parallel()
	asking := activities.LoadFactsResult{Planning: activities.Planning{BookZero: true}}
	for name, tt := range map[string]struct {
		decide  string
		opened  answer
		outcome string
		parks   int
		order   []string
	}{
		"let stand":          {workflows.UpdateSkip, came(effect.Done, ""), "processed", 1, []string{"review", "ParkRun", "RecordDecision", "close-review"}},
		"rejected":           {workflows.UpdateCompensate, came(effect.Done, ""), "processed", 1, []string{"review", "ParkRun", "RecordDecision", "ReadEffects"}},
		"another event asks": {"", answer{result: effect.Result{State: effect.AlreadyDone, By: "evt_0"}}, "processed", 0, []string{"review", "FinishRun"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, asking)
			f.answer("review", tt.opened)
			if tt.decide != "" {
				f.decide(time.Hour, tt.decide, ada)
			}
			if result := f.run(); result.Outcome != tt.outcome {
				t.Errorf("outcome %s (%s)", result.Outcome, result.Reason)
			}
			order := f.order()
			from := slices.Index(order, "review")
			if got := order[from : from+len(tt.order)]; !slices.Equal(got, tt.order) {
				t.Errorf("order %v, want %v", got, tt.order)
			}
			rejected := 0
			if tt.decide == workflows.UpdateCompensate {
				rejected = 1 // concurrently with the compensations of the sinks, in any order
			}
			if n := len(f.callsOf("reject-review")); n != rejected {
				t.Errorf("%d calls of reject-review, want %d", n, rejected)
			}
			parked := f.callsOf("ParkRun")
			if len(parked) != tt.parks {
				t.Fatalf("parked %d times", len(parked))
			}
			if tt.parks > 0 && parked[0].input.(activities.ParkRunInput).Reason != "toy_review: a person must review" {
				t.Errorf("parked with %+v", parked[0].input)
			}
		})
	}
}
