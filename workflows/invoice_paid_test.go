package workflows_test

import (
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
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
)

// call is one execution of an activity, as the outside sees it.
type call struct {
	activity string
	local    bool
	id       string
	effect   effect.Call
	input    any
}

// answer is what an activity returns when it is called.
type answer struct {
	result effect.Result
	err    error
}

// flowTest runs InvoicePaid in the SDK's test environment. Every effect is done unless told otherwise.
type flowTest struct {
	*testing.T
	env  *testsuite.TestWorkflowEnvironment
	load []activities.LoadInvoicePaidResult

	mu      sync.Mutex
	calls   []call
	answers map[string][]answer
	// seen is what the ledger shows of other runs, look by look.
	seen    []activities.LookAtEffectsResult
	refused []string
}

var periodStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func loaded(plan string) activities.LoadInvoicePaidResult {
	return activities.LoadInvoicePaidResult{
		Onboarding: plan == "enterprise",
		Fact: billing.InvoicePaid{
			Provider: "stripe", Mode: "live", Account: "acme", Customer: "cus_1", Invoice: "in_1", Subscription: "sub_1",
			Amount: 4900, Currency: "usd", Plan: plan, PeriodStart: periodStart, PeriodEnd: periodStart.AddDate(0, 1, 0),
			OccurredAt: periodStart, EventID: "evt_1", ReceiptID: "receipt",
		},
	}
}

func review(reason string, ended bool) activities.LoadInvoicePaidResult {
	return activities.LoadInvoicePaidResult{Review: reason, Ended: ended}
}

func setup(t *testing.T, load ...activities.LoadInvoicePaidResult) *flowTest {
	t.Helper()
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	f := &flowTest{T: t, env: suite.NewTestWorkflowEnvironment(), load: load, answers: map[string][]answer{}}
	f.env.SetTestTimeout(10 * time.Second)
	for _, receiver := range []any{
		&activities.Invoices{}, &activities.Subscriptions{}, &activities.Provisioning{}, &activities.Finance{},
		&activities.Email{}, &activities.Onboarding{}, &activities.Runs{},
	} {
		f.env.RegisterActivity(receiver)
	}
	f.env.OnActivity("LoadInvoicePaid", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.LoadInvoicePaidInput) (activities.LoadInvoicePaidResult, error) {
			f.record(ctx, effect.Call{}, in)
			f.mu.Lock()
			defer f.mu.Unlock()
			next := f.load[0]
			if len(f.load) > 1 {
				f.load = f.load[1:]
			}
			return next, nil
		})
	effectOf(f, "ActivateSubscription", func(in activities.ActivateSubscriptionInput) effect.Call { return in.Effect })
	effectOf(f, "RestoreSubscription", func(in activities.RestoreSubscriptionInput) effect.Call { return in.Effect })
	for _, name := range []string{
		"ProvisionWorkspace", "ReleaseWorkspace", "AlignWorkspace", "ExportToFinance", "ReverseFinanceEntry", "SendReceiptEmail", "SendCorrectionNotice",
		"CreateOnboardingTask", "CancelOnboardingTask",
	} {
		effectOf(f, name, func(in activities.InvoiceEffectInput) effect.Call { return in.Effect })
	}
	recorded[activities.ParkRunInput, activities.ParkRunResult](f, "ParkRun")
	recorded[activities.FinishRunInput, activities.FinishRunResult](f, "FinishRun")
	recorded[activities.SkipEffectInput, activities.SkipEffectResult](f, "SkipEffect")
	recorded[activities.RecordDecisionInput, activities.RecordDecisionResult](f, "RecordDecision")
	f.env.OnActivity("LookAtEffects", mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.LookAtEffectsInput) (activities.LookAtEffectsResult, error) {
			f.record(ctx, effect.Call{}, in)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.seen) == 0 {
				return activities.LookAtEffectsResult{}, nil
			}
			next := f.seen[0]
			f.seen = f.seen[1:]
			return next, nil
		})
	return f
}

// effectOf lets an effect answer as the test says.
func effectOf[I any](f *flowTest, name string, of func(I) effect.Call) {
	f.env.OnActivity(name, mock.Anything, mock.Anything).Return(func(ctx context.Context, in I) (effect.Result, error) {
		f.record(ctx, of(in), in)
		f.mu.Lock()
		defer f.mu.Unlock()
		if list := f.answers[name]; len(list) > 0 {
			f.answers[name] = list[1:]
			return list[0].result, list[0].err
		}
		return effect.Result{State: effect.Done, Value: json.RawMessage(`{"From":"` + name + `"}`)}, nil
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
	f.calls = append(f.calls, call{activity: info.ActivityType.Name, local: info.IsLocalActivity, id: info.ActivityID, effect: c, input: in})
}

// answer tells what an activity says when it is called next.
func (f *flowTest) answer(name string, list ...answer) {
	f.answers[name] = append(f.answers[name], list...)
}

func failed(kind string, wait time.Duration) answer {
	return answer{err: temporal.NewApplicationErrorWithOptions("busy", kind, temporal.ApplicationErrorOptions{NextRetryDelay: wait})}
}

func came(state effect.State, reason string) answer {
	return answer{result: effect.Result{State: state, Reason: reason}}
}

// decide sends an update at a time of the workflow's clock; it is kept whether it was refused.
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

var ada = workflows.DecisionInput{Who: "ada", Why: "looked at it"}

func (f *flowTest) run() workflows.EventResult {
	f.Helper()
	f.env.ExecuteWorkflow(workflows.InvoicePaid, workflows.EventInput{
		ReceiptID: "receipt", Provider: "stripe", Mode: "live", EventID: "evt_1", Type: "invoice.paid", Object: "in_1",
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

// order returns the activities in the order of their calls, repeats included.
func (f *flowTest) order() []string {
	var names []string
	for _, c := range f.calls {
		names = append(names, c.activity)
	}
	return names
}

func (f *flowTest) callsOf(name string) []call {
	return slices.DeleteFunc(slices.Clone(f.calls), func(c call) bool { return c.activity != name })
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
	if in := finish[0].input.(activities.FinishRunInput); in.Status != outcome || in.Reason != got.Reason || in.Flow != "InvoicePaid" || in.ResetOf != "" {
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

func TestInvoicePaid_Starter_EachEffectOnceUnderItsKey(t *testing.T) {
	f := setup(t, loaded("starter"))
	result := f.run()
	f.wantOutcome(result, "processed", "")
	want := map[string]string{
		"activate-subscription:stripe:live:in_1":    "done",
		"provision-workspace:stripe:live:acme:in_1": "done",
		"finance-export:stripe:live:acme:in_1":      "done",
		"receipt-email:stripe:live:in_1":            "done",
	}
	if got := states(result); !reflect.DeepEqual(got, want) {
		t.Errorf("effects\n got %v\nwant %v", got, want)
	}
	if got := f.order(); len(got) != 6 || got[0] != "LoadInvoicePaid" || got[1] != "ActivateSubscription" || got[5] != "FinishRun" {
		t.Errorf("activities: %v", got)
	}
	for _, c := range f.calls {
		if !c.local {
			t.Errorf("%s ran as a regular activity though nothing failed", c.activity)
		}
	}
}

func TestInvoicePaid_Enterprise_OnboardingTaskOfPeriod(t *testing.T) {
	f := setup(t, loaded("enterprise"))
	result := f.run()
	f.wantOutcome(result, "processed", "")
	if got := states(result)["onboarding-task:stripe:live:acme:2026-03-01:in_1"]; got != "done" || len(result.Effects) != 5 {
		t.Errorf("effects: %v", states(result))
	}
}

func TestInvoicePaid_ConnectedAccount_StandsInKeys(t *testing.T) {
	load := loaded("starter")
	load.Fact.ProviderAccount = "acct_9"
	f := setup(t, load)
	if got := states(f.run())["finance-export:stripe:live:acct_9:acme:in_1"]; got != "done" {
		t.Errorf("no key with the connected account in %v", f.calls)
	}
}

func TestInvoicePaid_OtherEventDidIt_AlreadyDoneByIt(t *testing.T) {
	f := setup(t, loaded("starter"))
	already := answer{result: effect.Result{State: effect.AlreadyDone, By: "evt_0"}}
	for _, name := range []string{"ActivateSubscription", "ProvisionWorkspace", "ReleaseWorkspace", "ExportToFinance", "SendReceiptEmail"} {
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

func TestInvoicePaid_OtherEventWasTakenBack_EndsCompensated(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Compensated, ""))
	f.wantOutcome(f.run(), "compensated", "taken back before")
	f.wantOrder("LoadInvoicePaid", "ActivateSubscription", "FinishRun")
}

func TestInvoicePaid_LocalTryFails_RegularActivityUnderTheKey(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", failed(effect.TypeTransient, 500*time.Millisecond), failed(effect.TypeTransient, 500*time.Millisecond))
	f.wantOutcome(f.run(), "processed", "")
	calls := f.callsOf("ExportToFinance")
	if len(calls) != 3 || !calls[0].local || calls[1].local || calls[2].local {
		t.Fatalf("calls: %+v, want one local and two regular ones", calls)
	}
	for _, c := range calls[1:] {
		if c.id != "finance-export:stripe:live:acme:in_1" {
			t.Errorf("activity ID is %q, want the effect's key", c.id)
		}
	}
	if !reflect.DeepEqual(calls[0].input, calls[1].input) {
		t.Errorf("the escalated effect got another input:\n%+v\n%+v", calls[0].input, calls[1].input)
	}
}

func TestInvoicePaid_ActivityOnly_NoLocalTry(t *testing.T) {
	load := loaded("starter")
	load.Effects = map[string]activities.EffectSettings{"finance-export": {Timeout: time.Second, ActivityOnly: true}}
	f := setup(t, load)
	f.wantOutcome(f.run(), "processed", "")
	if calls := f.callsOf("ExportToFinance"); len(calls) != 1 || calls[0].local {
		t.Errorf("calls: %+v, want one regular activity", calls)
	}
	if calls := f.callsOf("ProvisionWorkspace"); len(calls) != 1 || !calls[0].local {
		t.Errorf("calls: %+v, want the setting to concern finance only", calls)
	}
}

func TestInvoicePaid_RetryAfter_WaitsByTimer(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", failed(effect.TypeTransient, 42*time.Second))
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

func TestInvoicePaid_ProvisioningRefused_UndoneLastInFirstOut(t *testing.T) {
	f := setup(t, loaded("enterprise"))
	f.answer("ProvisionWorkspace", came(effect.Refused, "sink answered 403"))
	result := f.run()
	f.wantOutcome(result, "compensated", "provision-workspace was refused: sink answered 403")
	undone := f.order()[6:]
	// Steps began in the order provision, finance, mail, task; what was refused has nothing to undo.
	want := []string{"CancelOnboardingTask", "SendCorrectionNotice", "ReverseFinanceEntry", "RestoreSubscription", "FinishRun"}
	if !slices.Equal(undone, want) {
		t.Errorf("undone\n got %v\nwant %v", undone, want)
	}
	for name, keys := range map[string][2]string{
		"CancelOnboardingTask": {"cancel-onboarding-task:stripe:live:acme:2026-03-01:in_1", "onboarding-task:stripe:live:acme:2026-03-01:in_1"},
		"SendCorrectionNotice": {"correction-notice:stripe:live:in_1", "receipt-email:stripe:live:in_1"},
		"ReverseFinanceEntry":  {"reverse-finance-entry:stripe:live:acme:in_1", "finance-export:stripe:live:acme:in_1"},
		"RestoreSubscription":  {"restore-subscription:stripe:live:in_1", "activate-subscription:stripe:live:in_1"},
	} {
		if c := f.callsOf(name)[0].effect; c.Key != keys[0] || c.Compensates != keys[1] {
			t.Errorf("%s: key %q undoes %q, want %v", name, c.Key, c.Compensates, keys)
		}
	}
	if in := f.callsOf("RestoreSubscription")[0].input.(activities.RestoreSubscriptionInput); string(in.Activation) != `{"From":"ActivateSubscription"}` {
		t.Errorf("the undo got %s, want what the activation recorded", in.Activation)
	}
	if got := states(result)["restore-subscription:stripe:live:in_1"]; got != "done" {
		t.Errorf("the undos are missing in the result: %v", states(result))
	}
}

// The workspace was not this invoice's to take back, and yet it is not what the other invoices give.
func TestInvoicePaid_WorkspaceDiffersAfterwards_Aligned(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]answer{
		"by this run":    {result: effect.Result{State: effect.Done, Value: json.RawMessage(`{"WorkspaceDiffers":true}`)}},
		"by another run": {result: effect.Result{State: effect.AlreadyDone, Value: json.RawMessage(`{"WorkspaceDiffers":true}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, loaded("starter"))
			f.answer("ProvisionWorkspace", came(effect.Refused, "403"))
			f.answer("RestoreSubscription", restored)
			f.wantOutcome(f.run(), "compensated", "refused")
			if order := f.order(); !slices.Equal(order[len(order)-3:], []string{"RestoreSubscription", "AlignWorkspace", "FinishRun"}) {
				t.Fatalf("order %v, want the workspace to be aligned last", order)
			}
			if c := f.callsOf("AlignWorkspace")[0].effect; c.Key != "align-workspace:stripe:live:acme:in_1" || c.Compensates != "activate-subscription:stripe:live:in_1" {
				t.Errorf("key %q compensates %q", c.Key, c.Compensates)
			}
		})
	}
}

// A decision about an undo that parks is about it alone: what is still to be taken back is.
func TestInvoicePaid_ParkedUndoSkipped_OtherUndosGoOn(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ProvisionWorkspace", came(effect.Refused, "403"))
	f.answer("ExportToFinance", answer{result: effect.Result{State: effect.Exhausted, Reason: "timeouts", Unanswered: true}})
	f.answer("SendCorrectionNotice", came(effect.Refused, "mailbox is gone"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "compensated", "refused")
	if skipped := f.callsOf("SkipEffect"); len(skipped) != 1 || skipped[0].input.(activities.SkipEffectInput).Effect.Key != "correction-notice:stripe:live:in_1" {
		t.Errorf("skipped %+v, want the notice alone", skipped)
	}
	for _, name := range []string{"ReverseFinanceEntry", "RestoreSubscription"} {
		if n := len(f.callsOf(name)); n != 1 {
			t.Errorf("%s was called %d times, want once", name, n)
		}
	}
}

// Somebody fails the recording by hand in Temporal: what the audit trail does not hold is not followed.
func TestInvoicePaid_DecisionNotRecorded_IsNotFollowed(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", came(effect.Refused, "unknown account"))
	byHand := answer{err: temporal.NewNonRetryableApplicationError("failed by hand", "", nil)}
	f.answer("RecordDecision", byHand, byHand) // the local try and the regular one
	var told error
	f.env.RegisterDelayedCallback(func() {
		f.env.UpdateWorkflow(workflows.UpdateCompensate, "lost", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { f.Error(err) },
			OnComplete: func(_ any, err error) { told = err },
		}, workflows.DecisionInput{Who: "bob", Why: "never mind"})
	}, time.Hour)
	f.decide(2*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	if told == nil || !strings.Contains(told.Error(), "not in the audit trail") {
		t.Errorf("bob was told %v", told)
	}
	if n := len(f.callsOf("RestoreSubscription")); n != 0 {
		t.Error("what bob wanted was done")
	}
}

// A run that followed such a decision before there was that rule has the rest of its history from it.
func TestInvoicePaid_DecisionNotRecorded_HistoryFromBefore_IsFollowed(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.env.OnGetVersion("follow-what-is-recorded", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	f.env.OnGetVersion(mock.Anything, workflow.DefaultVersion, workflow.Version(1)).Return(workflow.Version(1))
	f.answer("ExportToFinance", came(effect.Refused, "unknown account"))
	byHand := answer{err: temporal.NewNonRetryableApplicationError("failed by hand", "", nil)}
	f.answer("RecordDecision", byHand, byHand) // the local try and the regular one
	f.env.RegisterDelayedCallback(func() {
		f.env.UpdateWorkflow(workflows.UpdateSkip, "lost", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { f.Error(err) }, OnComplete: func(any, error) {},
		}, ada)
	}, time.Hour)
	f.wantOutcome(f.run(), "processed", "")
}

// Whoever skips the activation wants none of it: the rest hangs on its fence.
func TestInvoicePaid_RefusedActivationSkipped_NothingIsDone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Refused, "subscription_ended"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "nothing done: skipped by ada: looked at it")
	f.wantOrder("LoadInvoicePaid", "ActivateSubscription", "ParkRun", "RecordDecision", "LookAtEffects", "SkipEffect", "FinishRun")
}

func TestInvoicePaid_RefusedAfterUnansweredTry_IsUndone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ProvisionWorkspace", answer{result: effect.Result{State: effect.Refused, Reason: "403", Unanswered: true}})
	f.wantOutcome(f.run(), "compensated", "refused")
	if calls := f.callsOf("ReleaseWorkspace"); len(calls) != 1 {
		t.Errorf("ReleaseWorkspace was called %d times: what may have happened has to be taken back", len(calls))
	}
}

// Whatever moves the receipt says by which workflow task: an attempt that outlives it must not.
func TestInvoicePaid_EveryWriteSaysSinceWhenItsTaskRuns(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.env.SetCurrentHistoryLength(3)
	f.env.SetStartTime(periodStart)
	f.answer("ExportToFinance", answer{result: effect.Result{State: effect.Exhausted, Reason: "answered 503"}})
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
		seen[c.activity]++
		if !asOf.Equal(periodStart) {
			t.Errorf("%s as of %s, want %s", c.activity, asOf, periodStart)
		}
	}
	if seen["ParkRun"] != 1 || seen["RecordDecision"] != 1 || seen["FinishRun"] != 1 || seen["ExportToFinance"] != 2 {
		t.Errorf("called %v", seen)
	}
}

func TestInvoicePaid_Exhausted_OthersFinishAndRunParksDead(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", answer{result: effect.Result{State: effect.Exhausted, Reason: "answered 503", Round: 4}})
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
	if in := parked[0].input.(activities.ParkRunInput); in.Status != "dead" || in.Reason != "finance-export is exhausted: answered 503" {
		t.Errorf("parked with %+v", in)
	}
	calls := f.callsOf("ExportToFinance")
	if len(calls) != 2 || calls[1].effect.Round != 5 {
		t.Errorf("retry: %+v, want one of a later round than the ledger's 4", calls)
	}
	for _, name := range []string{"ActivateSubscription", "ProvisionWorkspace", "SendReceiptEmail"} {
		if n := len(f.callsOf(name)); n != 1 {
			t.Errorf("%s was called %d times; retry goes on from what failed", name, n)
		}
	}
	decision := f.callsOf("RecordDecision")[0].input.(activities.RecordDecisionInput)
	if decision.Who != "ada" || decision.Why != "looked at it" || decision.Action != "retry" || decision.RequestID == "" ||
		!slices.Equal(decision.Effects, []string{"finance-export:stripe:live:acme:in_1"}) {
		t.Errorf("recorded decision: %+v", decision)
	}
}

func TestInvoicePaid_Skip_ByKindAndRecorded(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", came(effect.Exhausted, "503"))
	f.answer("SendReceiptEmail", came(effect.Uncertain, "no answer to the final dot"), came(effect.AlreadyDone, ""))
	f.decide(time.Hour, workflows.UpdateSkip, workflows.DecisionInput{Who: "ada", Why: "booked by hand", Effect: "finance-export"})
	f.decide(2*time.Hour, workflows.UpdateRetry, ada)
	result := f.run()
	f.wantOutcome(result, "processed", "")
	if got := states(result); got["finance-export:stripe:live:acme:in_1"] != "skipped" {
		t.Errorf("effects: %v", got)
	}
	skipped := f.callsOf("SkipEffect")
	if len(skipped) != 1 {
		t.Fatalf("SkipEffect was called %d times", len(skipped))
	}
	if in := skipped[0].input.(activities.SkipEffectInput); in.Effect.Key != "finance-export:stripe:live:acme:in_1" || in.Reason != "skipped by ada: booked by hand" {
		t.Errorf("skipped with %+v", in)
	}
	if n := len(f.callsOf("ExportToFinance")); n != 1 {
		t.Errorf("a skipped effect was tried %d times", n)
	}
}

func TestInvoicePaid_UncertainMail_NeedsReview(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("SendReceiptEmail", came(effect.Uncertain, "no answer to the final dot"))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "")
	in := f.callsOf("ParkRun")[0].input.(activities.ParkRunInput)
	if in.Status != "needs_review" || !strings.Contains(in.Reason, "receipt-email is uncertain") {
		t.Errorf("parked with %+v", in)
	}
	if n := len(f.callsOf("SendReceiptEmail")); n != 1 {
		t.Errorf("a doubtful mail was sent %d times", n)
	}
}

// What a person skipped is theirs, whether it had happened or not: nothing takes it back.
func TestInvoicePaid_SkippedThenCompensated_NotTakenBack(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", came(effect.Exhausted, "503"), came(effect.Exhausted, "503"))
	f.answer("SendReceiptEmail", came(effect.Uncertain, "no answer to the final dot"))
	f.decide(time.Hour, workflows.UpdateSkip, workflows.DecisionInput{Who: "ada", Why: "the relay's log has it", Effect: "receipt-email"})
	f.decide(2*time.Hour, workflows.UpdateCompensate, ada)
	f.wantOutcome(f.run(), "compensated", "ada decided to compensate: looked at it")
	for name, want := range map[string]int{"SendCorrectionNotice": 0, "ReleaseWorkspace": 1, "RestoreSubscription": 1} {
		if n := len(f.callsOf(name)); n != want {
			t.Errorf("%s was called %d times, want %d", name, n, want)
		}
	}
}

func TestInvoicePaid_CompensateByOperator_DoubtfulIsUndoneRefusedIsNot(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", came(effect.Exhausted, "503"))
	f.answer("SendReceiptEmail", came(effect.Uncertain, "nobody knows"))
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	f.wantOutcome(f.run(), "compensated", "ada decided to compensate: looked at it")
	undone := f.order()[slices.Index(f.order(), "RecordDecision")+1:]
	if want := []string{"LookAtEffects", "SendCorrectionNotice", "ReleaseWorkspace", "RestoreSubscription", "LookAtEffects", "FinishRun"}; !slices.Equal(undone, want) {
		t.Errorf("undone\n got %v\nwant %v", undone, want)
	}
}

// What the ledger shows when another event for the same invoice has been decided about.
var (
	takenBack = activities.LookAtEffectsResult{Settled: map[string]effect.Result{
		"activate-subscription:stripe:live:in_1":    {State: effect.Compensated, By: "evt_2"},
		"provision-workspace:stripe:live:acme:in_1": {State: effect.Compensated, By: "evt_2"},
		"receipt-email:stripe:live:in_1":            {State: effect.Compensated, By: "evt_2"},
	}}
	booked = activities.LookAtEffectsResult{Settled: map[string]effect.Result{
		"finance-export:stripe:live:acme:in_1": {State: effect.AlreadyDone, By: "evt_2"},
	}}
	undoBegun = activities.LookAtEffectsResult{Undoing: "correction-notice:stripe:live:in_1"}
)

func TestInvoicePaid_OtherRunDecidedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		decide string
		seen   []activities.LookAtEffectsResult
		// exports and reversals are how often finance was called.
		exports, reversals int
		outcome            string
	}{
		"taken back before the retry":     {workflows.UpdateRetry, []activities.LookAtEffectsResult{takenBack}, 1, 0, "compensated"},
		"undo begun before the retry":     {workflows.UpdateRetry, []activities.LookAtEffectsResult{undoBegun}, 1, 0, "compensated"},
		"taken back before the skip":      {workflows.UpdateSkip, []activities.LookAtEffectsResult{takenBack}, 1, 0, "compensated"},
		"taken back during the retry":     {workflows.UpdateRetry, []activities.LookAtEffectsResult{{}, takenBack}, 2, 1, "compensated"},
		"done before the retry":           {workflows.UpdateRetry, []activities.LookAtEffectsResult{booked}, 1, 0, "processed"},
		"done before the skip":            {workflows.UpdateSkip, []activities.LookAtEffectsResult{booked}, 1, 0, "processed"},
		"done before the compensation":    {workflows.UpdateCompensate, []activities.LookAtEffectsResult{booked}, 1, 1, "compensated"},
		"nothing happened, so it retries": {workflows.UpdateRetry, nil, 2, 0, "processed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, loaded("starter"))
			f.seen = tt.seen
			f.answer("ExportToFinance", came(effect.Exhausted, "503"))
			f.decide(time.Hour, tt.decide, ada)
			if result := f.run(); result.Outcome != tt.outcome {
				t.Errorf("outcome %s (%s), want %s", result.Outcome, result.Reason, tt.outcome)
			}
			if exports, reversals := len(f.callsOf("ExportToFinance")), len(f.callsOf("ReverseFinanceEntry")); exports != tt.exports || reversals != tt.reversals {
				t.Errorf("finance: %d entries tried and %d reversals, want %d and %d", exports, reversals, tt.exports, tt.reversals)
			}
			if n := len(f.callsOf("SkipEffect")); n != 0 {
				t.Errorf("%d effects were skipped that another run had settled", n)
			}
			looked := f.callsOf("LookAtEffects")[0].input.(activities.LookAtEffectsInput)
			if !slices.Contains(looked.Keys, "finance-export:stripe:live:acme:in_1") || !slices.Contains(looked.Undos, "reverse-finance-entry:stripe:live:acme:in_1") {
				t.Errorf("looked at %+v", looked)
			}
		})
	}
}

// Looking is for runs that were parked: a healthy run, and one that is refused, do without.
func TestInvoicePaid_NoDecision_NoLook(t *testing.T) {
	f := setup(t, loaded("enterprise"))
	f.answer("ProvisionWorkspace", came(effect.Refused, "403"))
	f.wantOutcome(f.run(), "compensated", "refused")
	if n := len(f.callsOf("LookAtEffects")); n != 0 {
		t.Errorf("looked %d times", n)
	}
}

func TestInvoicePaid_UndoFailsForAWhile_TriedUntilDone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ProvisionWorkspace", came(effect.Refused, "403"))
	for range 8 { // the test environment gives up after ten; a server never does
		f.answer("ReverseFinanceEntry", failed(effect.TypeTransient, 500*time.Millisecond))
	}
	f.wantOutcome(f.run(), "compensated", "refused")
	if n := len(f.callsOf("ReverseFinanceEntry")); n != 9 {
		t.Errorf("the undo was tried %d times, want 9", n)
	}
	order := f.order()
	if slices.Index(order, "RestoreSubscription") < slices.Index(order, "ReverseFinanceEntry")+8 {
		t.Errorf("the next undo did not wait for the one before: %v", order)
	}
}

func TestInvoicePaid_UndoRefused_ParksAndGoesOn(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ProvisionWorkspace", came(effect.Refused, "403"))
	f.answer("ReverseFinanceEntry", came(effect.Refused, "period closed"), came(effect.Refused, "period closed"))
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	f.decide(2*time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "compensated", "refused")
	calls := f.callsOf("ReverseFinanceEntry")
	if len(calls) != 2 || calls[1].effect.Round != 1 {
		t.Errorf("undo calls: %+v, want a second one of round 1", calls)
	}
	if n := len(f.callsOf("ParkRun")); n != 2 {
		t.Errorf("parked %d times, want 2: an undo is never passed over in silence", n)
	}
	if n := len(f.callsOf("RestoreSubscription")); n != 1 {
		t.Errorf("RestoreSubscription was called %d times after the skip", n)
	}
}

func TestInvoicePaid_ReviewOfEnded_RetryReopens(t *testing.T) {
	f := setup(t, review("subscription_ended: sub_1 is held as canceled", true), loaded("starter"))
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	if in := f.callsOf("ParkRun")[0].input.(activities.ParkRunInput); in.Status != "needs_review" || !strings.HasPrefix(in.Reason, "subscription_ended") {
		t.Errorf("parked with %+v", in)
	}
	if in := f.callsOf("LoadInvoicePaid")[1].input.(activities.LoadInvoicePaidInput); !in.Reopen {
		t.Error("the second load does not know that a person has reviewed it")
	}
	if in := f.callsOf("ActivateSubscription")[0].input.(activities.ActivateSubscriptionInput); !in.Reopen {
		t.Error("the activation may not reopen")
	}
}

func TestInvoicePaid_ReviewOfOtherReason_RetryDoesNotReopen(t *testing.T) {
	for _, reason := range []string{"plan_unknown: none of price_9 stands in plans.prices", "unreadable_payload: invoice.currency: absent"} {
		t.Run(reason[:12], func(t *testing.T) {
			f := setup(t, review(reason, false), loaded("starter"))
			f.decide(time.Hour, workflows.UpdateRetry, ada)
			f.wantOutcome(f.run(), "processed", "")
			if in := f.callsOf("LoadInvoicePaid")[1].input.(activities.LoadInvoicePaidInput); in.Reopen {
				t.Error("the second load lets an ended subscription pass that nobody has reviewed")
			}
			if in := f.callsOf("ActivateSubscription")[0].input.(activities.ActivateSubscriptionInput); in.Reopen {
				t.Error("the activation reopens what nobody has reviewed")
			}
		})
	}
}

func TestInvoicePaid_ReviewThenSkip_NothingIsDone(t *testing.T) {
	f := setup(t, review("subscription_ended: sub_1", true))
	f.decide(time.Hour, workflows.UpdateSkip, ada)
	f.wantOutcome(f.run(), "processed", "nothing done: skip by ada: looked at it")
	f.wantOrder("LoadInvoicePaid", "ParkRun", "RecordDecision", "FinishRun")
}

// The subscription ends between load and activation: the fence in the database refuses.
func TestInvoicePaid_ActivationRefused_RetryReopens(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Refused, "subscription_ended"))
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	calls := f.callsOf("ActivateSubscription")
	if first := calls[0].input.(activities.ActivateSubscriptionInput); first.Reopen {
		t.Error("the first activation may reopen")
	}
	if second := calls[1].input.(activities.ActivateSubscriptionInput); !second.Reopen || second.Effect.Round != 1 {
		t.Errorf("the retry is %+v, want one that may reopen", second)
	}
	if n := len(f.callsOf("SendReceiptEmail")); n != 1 {
		t.Errorf("the mail went out %d times; nothing may happen before the activation", n)
	}
}

// A person has skipped the activation, for another event of this invoice or for this one before a reset: nothing of
// what depends on it is done.
func TestInvoicePaid_ActivationSkippedBefore_NothingIsDone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Skipped, "skipped by ada: it has ended"))
	f.wantOutcome(f.run(), "processed", "nothing done: skipped by ada: it has ended")
	f.wantOrder("LoadInvoicePaid", "ActivateSubscription", "FinishRun")
}

// The same, where this run is parked, too, and finds it by its look.
func TestInvoicePaid_ActivationSkippedMeanwhile_NothingIsDone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Refused, "subscription_ended"))
	f.seen = []activities.LookAtEffectsResult{{Settled: map[string]effect.Result{
		"activate-subscription:stripe:live:in_1": {State: effect.Skipped, By: "evt_2", Reason: "skipped by ada: it has ended"},
	}}}
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "nothing done: skipped by ada: it has ended")
	if order := f.order(); slices.Contains(order, "ExportToFinance") || slices.Contains(order, "ProvisionWorkspace") {
		t.Errorf("order %v, want nothing done", order)
	}
}

// This run is parked at the activation, and the invoice's other event has meanwhile done everything. A decision to
// compensate takes all of it back, not only the activation.
func TestInvoicePaid_CompensatedAtTheActivation_WhatAnotherRunDidIsUndone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Refused, "subscription_ended"))
	by := effect.Result{State: effect.AlreadyDone, By: "evt_2", Value: json.RawMessage(`{}`)}
	f.seen = []activities.LookAtEffectsResult{
		{Settled: map[string]effect.Result{"activate-subscription:stripe:live:in_1": by}},
		{Settled: map[string]effect.Result{
			"provision-workspace:stripe:live:acme:in_1": by, "finance-export:stripe:live:acme:in_1": by,
			"receipt-email:stripe:live:in_1": {State: effect.Skipped, By: "evt_2"},
		}},
	}
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	result := f.run()
	f.wantOutcome(result, "compensated", "ada decided")
	undone := f.order()[slices.Index(f.order(), "RecordDecision")+1:]
	want := []string{"LookAtEffects", "LookAtEffects", "ReverseFinanceEntry", "ReleaseWorkspace", "RestoreSubscription", "FinishRun"}
	if !slices.Equal(undone, want) {
		t.Errorf("undone\n got %v\nwant %v", undone, want)
	}
}

// The other run has not begun an effect yet: there is nothing to take back, and nothing to say about it.
func TestInvoicePaid_CompensatedAtTheActivation_WhatNobodyDidIsNotTold(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ActivateSubscription", came(effect.Refused, "subscription_ended"))
	f.seen = []activities.LookAtEffectsResult{
		{Settled: map[string]effect.Result{"activate-subscription:stripe:live:in_1": {State: effect.AlreadyDone, By: "evt_2", Value: json.RawMessage(`{}`)}}},
	}
	f.decide(time.Hour, workflows.UpdateCompensate, ada)
	result := f.run()
	f.wantOutcome(result, "compensated", "ada decided")
	if got := states(result); len(got) != 2 || len(f.callsOf("ReverseFinanceEntry")) != 0 {
		t.Errorf("effects %v, want the activation and its undo", got)
	}
}

// A run that was parked before it did anything looks when it has done its effects: another may have begun to take
// back the activation meanwhile.
func TestInvoicePaid_ParkedBeforeItsEffects_LooksAfterThem(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		load       []activities.LoadInvoicePaidResult
		activation effect.State
		looks      []activities.LookAtEffectsResult
	}{
		"at the review":     {[]activities.LoadInvoicePaidResult{review("subscription_ended: sub_1", true), loaded("starter")}, effect.Done, []activities.LookAtEffectsResult{{}, undoBegun}},
		"at the activation": {[]activities.LoadInvoicePaidResult{loaded("starter")}, effect.Refused, []activities.LookAtEffectsResult{{}, {}, undoBegun}},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, tt.load...)
			f.answer("ActivateSubscription", came(tt.activation, ""))
			f.seen = tt.looks
			f.decide(time.Hour, workflows.UpdateRetry, ada)
			f.wantOutcome(f.run(), "compensated", "another run has begun to take back")
			if n := len(f.callsOf("ReverseFinanceEntry")); n != 1 {
				t.Errorf("%d reversals of what this run has booked, want one", n)
			}
		})
	}
}

// An activity that was completed by hand, with {}: nobody knows whether the effect happened.
func TestInvoicePaid_ResultSaysNothing_Uncertain(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", failed(effect.TypeTransient, time.Minute), answer{})
	f.decide(time.Hour, workflows.UpdateRetry, ada)
	f.wantOutcome(f.run(), "processed", "")
	parked := f.callsOf("ParkRun")
	if len(parked) != 1 {
		t.Fatalf("parked %d times, want once", len(parked))
	}
	if in := parked[0].input.(activities.ParkRunInput); in.Status != "needs_review" || !strings.HasPrefix(in.Reason, "finance-export is uncertain: its activity was completed by hand") {
		t.Errorf("parked as %s: %q", in.Status, in.Reason)
	}
}

// An undo that was completed by hand, in the word for what it undoes.
func TestInvoicePaid_UndoSaysCompensated_IsDone(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ProvisionWorkspace", came(effect.Refused, "403"))
	f.answer("ReverseFinanceEntry", came(effect.Compensated, ""))
	f.wantOutcome(f.run(), "compensated", "refused")
	if n := len(f.callsOf("ReverseFinanceEntry")); n != 1 {
		t.Errorf("it was done %d times, want once", n)
	}
}

func TestInvoicePaid_Decisions_RefusedWhereTheyMakeNoSense(t *testing.T) {
	f := setup(t, loaded("starter"))
	f.answer("ExportToFinance", failed(effect.TypeTransient, time.Minute), came(effect.Exhausted, "503"))
	f.decide(time.Second, workflows.UpdateRetry, ada) // not parked yet: it waits for the sink
	f.decide(time.Hour, workflows.UpdateRetry, workflows.DecisionInput{Who: "ada"})
	f.decide(time.Hour+time.Second, workflows.UpdateRetry, workflows.DecisionInput{Who: " ", Why: "x"})
	f.decide(time.Hour+2*time.Second, workflows.UpdateSkip, workflows.DecisionInput{Who: "ada", Why: "x", Effect: "receipt-email"})
	f.decide(time.Hour+3*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Who: "ada", Why: "x\x00"})
	f.decide(time.Hour+4*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Who: "a\x00da", Why: "x"})
	f.decide(time.Hour+5*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Who: "ada", Why: strings.Repeat("x", 2001)})
	f.decide(time.Hour+6*time.Second, workflows.UpdateRetry, workflows.DecisionInput{Who: strings.Repeat("x", 201), Why: "x"})
	f.decide(2*time.Hour, workflows.UpdateRetry, workflows.DecisionInput{Who: strings.Repeat("a", 200), Why: strings.Repeat("é", 1000)})
	f.wantOutcome(f.run(), "processed", "")
	want := []string{
		"the run waits for no decision",
		"who and why are required: both go into the audit trail",
		"who and why are required: both go into the audit trail",
		`no unfinished effect "receipt-email"; unfinished are: finance-export:stripe:live:acme:in_1`,
		"who (200 bytes at most) and why (2000) must be text without NUL",
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

func TestInvoicePaid_OurOwnFault_FailsTheRunVisibly(t *testing.T) {
	f := setup(t, loaded("starter"))
	wiring := answer{err: temporal.NewNonRetryableApplicationError("no such column", "Wiring", nil)}
	f.answer("ExportToFinance", wiring, wiring)
	f.env.ExecuteWorkflow(workflows.InvoicePaid, workflows.EventInput{ReceiptID: "receipt"})
	var app *temporal.ApplicationError
	if err := f.env.GetWorkflowError(); !errors.As(err, &app) || !strings.Contains(err.Error(), "finance-export") {
		t.Errorf("error is %v, want one that names the effect", err)
	}
}
