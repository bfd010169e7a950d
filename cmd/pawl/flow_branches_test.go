package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// branch is one way that a flow can go.
type branch struct {
	name, plan string
	tune       func(*config.Config)
	// prepare is what the world is like before the event comes.
	prepare func(r *rig, e forge.Event)
	// parks is the status in which the run waits for decide.
	parks  receipt.Status
	reason string
	decide string
	effect string

	outcome string
	// effects are the states of the effects that are not simply done.
	effects map[string]string
	// done counts what the services of the sandbox did.
	done map[string]int
}

// once is what every healthy run does.
func once(changed map[string]int) map[string]int {
	counts := map[string]int{"workspaces": 1, "finance": 1, "email": 1, "events": 1}
	maps.Copy(counts, changed)
	return counts
}

const (
	financeDown   = `{"service":"finance","next":3,"status":503}`
	refuse        = `{"service":"workspaces","status":403}`
	tooLate       = `{"service":"email","drop":"after"}`
	financePasses = `{"service":"finance","latency_ms":1}`
)

func faults(list ...string) func(*rig, forge.Event) {
	return func(r *rig, _ forge.Event) { r.fault(list...) }
}

// ended makes us hold the purchase's subscription as canceled.
func ended(r *rig, e forge.Event) {
	var body struct {
		Data struct {
			Object struct {
				Parent struct {
					Details struct{ Subscription string } `json:"subscription_details"`
				}
			}
		}
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		r.Fatal(err)
	}
	r.exec(`insert into subscriptions (mode, id, account, status, plan, fence_at, fence_event)
		values ('live', $1, 'acct', 'canceled', 'starter', '2026-02-01', 'evt_canceled')`, body.Data.Object.Parent.Details.Subscription)
}

// skippedBefore makes the ledger hold that a person has skipped the purchase's activation.
func skippedBefore(r *rig, e forge.Event) {
	var body struct {
		Data struct{ Object struct{ ID string } }
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		r.Fatal(err)
	}
	r.exec(`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until, error)
		values ('activate-subscription:stripe:live:' || $1, 'activate-subscription', 'skipped', gen_random_uuid(), 'evt_before', 'stripe:evt_before',
			gen_random_uuid()::text, now(), 'skipped by ada: it has ended')`, body.Data.Object.ID)
}

var compensation = map[string]string{
	"activate-subscription": "compensated", "finance-export": "compensated", "receipt-email": "compensated", "provision-workspace": "failed",
	"restore-subscription": "done", "reverse-finance-entry": "done", "correction-notice": "done",
}

var branches = []branch{
	{name: "happy", plan: "starter", outcome: "processed", done: once(nil)},
	{name: "enterprise", plan: "enterprise", outcome: "processed", effects: map[string]string{"onboarding-task": "done"}, done: once(nil)},
	{name: "activity-only", plan: "starter", outcome: "processed", done: once(nil), tune: func(c *config.Config) {
		c.Sinks.Workspaces.Effects, c.Sinks.Finance.Effects, c.Sinks.Email.Effects = "activity", "activity", "activity"
	}},
	{
		name: "already-done", plan: "starter", outcome: "processed", done: once(nil),
		prepare: func(r *rig, e forge.Event) {
			first := purchase(r.T, strings.TrimSuffix(strings.TrimPrefix(e.ID, "evt_"), "_second"), "invoice.paid", "starter")
			r.result(r.receive(first), "")
		},
	},
	{name: "escalated", plan: "starter", prepare: faults(`{"service":"finance","status":503}`), outcome: "processed", done: once(nil)},
	{name: "retry-after", plan: "starter", prepare: faults(`{"service":"finance","status":429,"retry_after":1}`), outcome: "processed", done: once(nil)},
	{
		name: "dead-retry", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "finance-export is exhausted",
		decide: workflows.UpdateRetry, outcome: "processed", done: once(nil),
	},
	{
		name: "dead-skip", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "finance-export is exhausted",
		decide: workflows.UpdateSkip, effect: "finance-export", outcome: "processed",
		effects: map[string]string{"finance-export": "skipped"}, done: once(map[string]int{"finance": 0}),
	},
	{
		name: "dead-compensate", plan: "starter", prepare: faults(financeDown), parks: receipt.Dead, reason: "finance-export is exhausted",
		decide: workflows.UpdateCompensate, outcome: "compensated",
		effects: map[string]string{
			"activate-subscription": "compensated", "provision-workspace": "compensated", "receipt-email": "compensated", "finance-export": "failed",
			"restore-subscription": "done", "release-workspace": "done", "correction-notice": "done",
		},
		done: map[string]int{"workspaces": 2, "finance": 0, "email": 2, "events": 2},
	},
	{
		name: "refused", plan: "enterprise", prepare: faults(refuse), outcome: "compensated",
		effects: with(compensation, "onboarding-task", "compensated", "cancel-onboarding-task", "done"),
		done:    map[string]int{"workspaces": 0, "finance": 2, "email": 2, "events": 2},
	},
	{
		name: "undo-fails-for-a-while", plan: "starter", outcome: "compensated", effects: compensation,
		prepare: faults(refuse, financePasses, `{"service":"finance","next":5,"status":503}`),
		done:    map[string]int{"workspaces": 0, "finance": 2, "email": 2, "events": 2},
	},
	{
		name: "review-retry", plan: "starter", prepare: ended, parks: receipt.NeedsReview, reason: "subscription_ended",
		decide: workflows.UpdateRetry, outcome: "processed", done: once(nil),
	},
	{
		name: "review-skip", plan: "starter", prepare: ended, parks: receipt.NeedsReview, reason: "subscription_ended",
		decide: workflows.UpdateSkip, outcome: "processed", effects: map[string]string{
			"activate-subscription": "", "provision-workspace": "", "finance-export": "", "receipt-email": "",
		},
		done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},
	{
		name: "skipped-before", plan: "starter", prepare: skippedBefore, outcome: "processed", effects: map[string]string{
			"activate-subscription": "skipped", "provision-workspace": "", "finance-export": "", "receipt-email": "",
		},
		done: map[string]int{"workspaces": 0, "finance": 0, "email": 0, "events": 0},
	},
	{
		name: "uncertain-mail-skip", plan: "starter", prepare: faults(tooLate), parks: receipt.NeedsReview, reason: "receipt-email is uncertain",
		decide: workflows.UpdateSkip, outcome: "processed", effects: map[string]string{"receipt-email": "skipped"}, done: once(nil),
	},
	{
		name: "uncertain-mail-retry", plan: "starter", prepare: faults(tooLate), parks: receipt.NeedsReview, reason: "receipt-email is uncertain",
		decide: workflows.UpdateRetry, outcome: "processed", done: once(map[string]int{"email": 2}), // a person wanted it
	},
}

func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// Every branch of InvoicePaid against a real Temporal, Postgres and sandbox: it ends as promised, its
// history holds nothing personal, and a reset to the first workflow task repeats no effect and comes to
// the same end.
func TestInvoicePaid_EveryBranch(t *testing.T) {
	t.Parallel()
	for _, b := range branches {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, b.tune)
			seed := b.name
			if !*update {
				seed += "-" + uuid.NewString()[:8] // the server remembers workflow IDs when tests run more than once
			}
			eventType, id := "invoice.paid", "evt_"+seed
			if b.name == "already-done" {
				eventType, id = "invoice.payment_succeeded", id+"_second"
			}
			e := purchase(t, seed, eventType, b.plan)
			e = rename(t, e, id)
			if b.prepare != nil {
				b.prepare(r, e)
			}
			workflowID := r.receive(e)
			if b.parks != "" {
				r.status(e, b.parks)
				if got := r.rows(`select reason from receipts where event_id = $1`, e.ID); !strings.Contains(got[0], b.reason) {
					t.Errorf("parked because %q, want %q", got[0], b.reason)
				}
				r.decide(workflowID, b.decide, workflows.DecisionInput{Effect: b.effect})
			}
			result := r.result(workflowID, "")
			r.check(b, e, result)
			first := r.temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID()
			history := r.history(workflowID, first)
			noCanary(t, history)
			if *update {
				writeGolden(t, b.name, history)
			}
			r.resetAndCheck(b, e, workflowID, history)
		})
	}
}

// Two events tell of one payment, and both runs park on the same effect. Once a person has taken back what the
// one did, a decision about the other neither does what failed nor ends as if all were well.
func TestInvoicePaid_TakenBackWhileAnotherRunIsParked(t *testing.T) {
	t.Parallel()
	for _, decision := range []string{workflows.UpdateRetry, workflows.UpdateSkip, workflows.UpdateCompensate} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.fault(financeDown)
			seed := "two-" + uuid.NewString()[:8]
			paid := purchase(t, seed, "invoice.paid", "starter")
			succeeded := rename(t, purchase(t, seed, "invoice.payment_succeeded", "starter"), paid.ID+"_succeeded")
			first := r.receive(paid)
			r.status(paid, receipt.Dead)
			second := r.receive(succeeded)
			r.status(succeeded, receipt.Dead)

			r.decide(first, workflows.UpdateCompensate, workflows.DecisionInput{})
			if result := r.result(first, ""); result.Outcome != "compensated" {
				t.Errorf("the first run ended %s (%s)", result.Outcome, result.Reason)
			}
			before := r.footprint()
			r.decide(second, decision, workflows.DecisionInput{}) // finance is well again
			if result := r.result(second, ""); result.Outcome != "compensated" {
				t.Errorf("the second run ended %s (%s), want compensated", result.Outcome, result.Reason)
			}
			after := r.footprint()
			delete(before, "audit") // the decision itself
			for name := range before {
				if !reflect.DeepEqual(before[name], after[name]) {
					t.Errorf("%s changed %s\nfrom %v\nto   %v", decision, name, before[name], after[name])
				}
			}
			if got := r.journal("finance"); len(got) != 0 {
				t.Errorf("finance has %v of a payment that was taken back", got)
			}
		})
	}
}

// An invoice that came late was superseded, so that its own provisioning was skipped. When the newer one is taken
// back, the workspace gets its plan; when it is, too, the workspace must not keep it.
func TestInvoicePaid_BothTakenBack_WorkspaceReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	seed := "back-" + uuid.NewString()[:8]
	older := purchase(t, seed, "invoice.paid", "enterprise")
	newer := later(t, purchase(t, seed, "invoice.paid", "starter"))
	var ids []string
	for _, e := range []forge.Event{newer, older} {
		r.fault(financeDown)
		ids = append(ids, r.receive(e))
		r.status(e, receipt.Dead)
	}
	for i, want := range []string{"enterprise active", "enterprise released"} {
		r.decide(ids[i], workflows.UpdateCompensate, workflows.DecisionInput{})
		if result := r.result(ids[i], ""); result.Outcome != "compensated" {
			t.Fatalf("ended %s (%s)", result.Outcome, result.Reason)
		}
		all := r.journal("workspaces")
		last := all[len(all)-1].Body
		if got := fmt.Sprint(last["plan"], " ", last["state"]); got != want {
			t.Errorf("workspace is %s, want %s", got, want)
		}
	}
}

// Provisioning of the newer invoice is refused, after an older one was skipped in its favour: that one stands,
// and the customer gets what it paid for.
func TestInvoicePaid_NewerRefused_WorkspaceOfTheOlder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(`{"service":"workspaces","next":3,"status":503}`)
	seed := "refused-" + uuid.NewString()[:8]
	older := purchase(t, seed, "invoice.paid", "enterprise")
	newer := later(t, purchase(t, seed, "invoice.paid", "starter"))
	first := r.receive(newer)
	r.status(newer, receipt.Dead)
	if result := r.result(r.receive(older), ""); result.Outcome != "processed" {
		t.Fatalf("the older ended %s (%s)", result.Outcome, result.Reason)
	}
	r.fault(refuse)
	r.decide(first, workflows.UpdateRetry, workflows.DecisionInput{})
	if result := r.result(first, ""); result.Outcome != "compensated" {
		t.Fatalf("the newer ended %s (%s)", result.Outcome, result.Reason)
	}
	if got := fmt.Sprint(r.rows(`select plan || ' ' || state from workspaces`)); got != "[enterprise active]" {
		t.Errorf("workspace is %s, want that of the invoice that stands", got)
	}
}

// rename gives the event an ID.
func rename(t *testing.T, e forge.Event, id string) forge.Event {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	body["id"], e.ID = id, id
	var err error
	if e.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	return e
}

func (r *rig) check(b branch, e forge.Event, result workflows.EventResult) {
	r.Helper()
	if result.Outcome != b.outcome {
		r.Errorf("outcome %s (%s), want %s", result.Outcome, result.Reason, b.outcome)
	}
	if got := r.status(e, receipt.Processed, receipt.Compensated); string(got) != b.outcome {
		r.Errorf("receipt is %s, want %s", got, b.outcome)
	}
	want := map[string]string{"activate-subscription": "done", "provision-workspace": "done", "finance-export": "done", "receipt-email": "done"}
	maps.Copy(want, b.effects)
	maps.DeleteFunc(want, func(_, state string) bool { return state == "" })
	if got := r.effects(); !maps.Equal(got, want) {
		r.Errorf("effects\n got %v\nwant %v", got, want)
	}
	r.footprint() // waits for the outbox
	for service, n := range b.done {
		if got := r.done(service); got != n {
			r.Errorf("%s did %d things, want %d: %v", service, got, n, r.journal(service))
		}
	}
	if b.name == "already-done" {
		for _, effect := range result.Effects {
			if effect.State != "already_done" || effect.By == "" || effect.By == e.ID {
				r.Errorf("effect %+v, want it done by the other event", effect)
			}
		}
	}
	if b.outcome == "compensated" {
		r.checkTakenBack(b)
	}
}

// checkTakenBack looks at the world after a compensation.
func (r *rig) checkTakenBack(b branch) {
	r.Helper()
	if got := r.rows(`select feature from entitlements where enabled`); len(got) != 0 {
		r.Errorf("features %v are still on", got)
	}
	if got := r.rows(`select status from subscriptions where status = 'active'`); len(got) != 0 {
		r.Error("the subscription is still active")
	}
	if got := r.rows(`select state from onboarding_tasks where state <> 'cancelled'`); len(got) != 0 {
		r.Errorf("onboarding tasks: %v", got)
	}
	if all := r.journal("workspaces"); len(all) > 0 && all[len(all)-1].Body["state"] != "released" {
		r.Errorf("the workspace was left as %v", all[len(all)-1].Body)
	}
	if all := r.journal("email"); len(all) == 0 || !strings.HasPrefix(fmt.Sprint(all[len(all)-1].Body["subject"]), "Correction") {
		r.Errorf("mails %v, want a correction last", all)
	}
	if n := b.done["finance"]; n > 0 {
		all := r.journal("finance")
		last, paid := all[len(all)-1], all[0]
		if last.Body["type"] != "reversal" || last.Body["reverses"] != paid.Key || last.Body["amount"] != paid.Body["amount"] {
			r.Errorf("finance %v, want the entry reversed", all)
		}
	}
	if got := r.rows(`select type from outbox order by id`); !reflect.DeepEqual(got, []string{"invoice.paid", "invoice.paid.compensated"}) {
		r.Errorf("announced: %v", got)
	}
}

// resetAndCheck resets the finished run to its first workflow task and wants nothing to happen again.
func (r *rig) resetAndCheck(b branch, e forge.Event, workflowID string, history *historypb.History) {
	r.Helper()
	before := r.footprint()
	resetID := r.reset(workflowID, history)
	if result := r.result(workflowID, resetID); result.Outcome != b.outcome {
		r.Errorf("the reset run ended %s (%s), want %s", result.Outcome, result.Reason, b.outcome)
	}
	after := r.footprint()
	for name := range before {
		if !reflect.DeepEqual(before[name], after[name]) {
			r.Errorf("the reset changed %s\nfrom %v\nto   %v", name, before[name], after[name])
		}
	}
	if got := r.status(e, receipt.Processed, receipt.Compensated); string(got) != b.outcome {
		r.Errorf("the receipt is %s after the reset, want %s", got, b.outcome)
	}
	first := history.Events[0].GetWorkflowExecutionStartedEventAttributes().OriginalExecutionRunId
	got := r.rows(`select concat_ws(' ', run_id, kind, previous_run_id, outcome) from runs where workflow_id = $1 order by started_at, kind`, workflowID)
	want := []string{first + " original  " + b.outcome, resetID + " reset " + first + " " + b.outcome}
	if !reflect.DeepEqual(got, want) {
		r.Errorf("runs\n got %q\nwant %q", got, want)
	}
}

// reset resets a run to its first workflow task and returns the new run's ID.
func (r *rig) reset(workflowID string, history *historypb.History) string {
	r.Helper()
	var task int64
	for _, event := range history.Events {
		if event.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			task = event.EventId
			break
		}
	}
	return resetTo(r.Context(), r.T, r.temporal, workflowID, task)
}

// firstStarted is the event that starts a run's first workflow task: a run can be reset to it before the
// task has ended.
const firstStarted = 3

// resetTo resets a run to the workflow task of an event and returns the new run's ID.
func resetTo(ctx context.Context, t *testing.T, c client.Client, workflowID string, event int64) string {
	t.Helper()
	reset, err := c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
		Reason: "a test", RequestId: uuid.NewString(), WorkflowTaskFinishEventId: event,
	})
	if err != nil {
		t.Fatal(err)
	}
	return reset.RunId
}

// A dismissal before anything was begun says nothing about an effect that fails after a reset.
func TestReset_DecisionAboutAnotherQuestion_IsAskedAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := purchase(t, "dismissed-"+uuid.NewString()[:8], "invoice.paid", "starter")
	ended(r, e)
	id := r.receive(e)
	r.status(e, receipt.NeedsReview)
	r.decide(id, workflows.UpdateSkip, workflows.DecisionInput{})
	r.result(id, "")
	r.exec(`update subscriptions set status = 'incomplete'`) // it was a mistake: it had not ended
	r.fault(financeDown)
	run := r.reset(id, r.history(id, ""))
	r.status(e, receipt.Dead)
	r.clearFaults()
	r.decide(id, workflows.UpdateRetry, workflows.DecisionInput{})
	if result := r.result(id, run); result.Outcome != "processed" || r.done("finance") != 1 {
		t.Errorf("after the reset %+v with %d entries booked", result, r.done("finance"))
	}
}

// noCanary looks at every byte of a history: the payloads stand in it as they are.
func noCanary(t *testing.T, history *historypb.History) {
	t.Helper()
	raw, err := proto.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	readable := func(word string) bool { return bytes.Contains(raw, []byte(word)) }
	if !slices.ContainsFunc([]string{"provision-workspace", "subscription_ended", "relay:"}, readable) {
		t.Error("the history holds no readable payload; this test would see nothing")
	}
	if at := bytes.Index(raw, []byte(canary)); at >= 0 {
		t.Errorf("personal data in the history: …%q…", raw[max(0, at-80):min(len(raw), at+80)])
	}
}

// machine matches what says where a history was made.
var machine = regexp.MustCompile(`"(identity|binaryChecksum|buildId|requestId|workerInstanceKey)": "[^"]*"`)

// writeGolden writes a history to where package workflows replays it from.
func writeGolden(t *testing.T, name string, history *historypb.History) {
	t.Helper()
	content, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	content = machine.ReplaceAll(content, []byte(`"$1": "pawl"`))
	if host, err := os.Hostname(); err == nil {
		content = bytes.ReplaceAll(content, []byte(host), []byte("host"))
	}
	dir := filepath.Join("..", "..", "workflows", "testdata", "histories")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), append(content, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}
