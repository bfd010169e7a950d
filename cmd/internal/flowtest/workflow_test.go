package flowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities/step"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// merchant is a worker of the user with the workflow OrderPaid. It counts the executions.
type merchant struct {
	queue, order string

	mu sync.Mutex
	// begun holds the workflow IDs of the executions in order, and inputs their inputs.
	begun  []string
	inputs []step.StartedInput
	// fails is the number of executions that fail with failure.
	fails   int
	failure error
	// holds makes an execution wait for the signal "go".
	holds bool
}

// newMerchant returns a merchant without a worker. Its order is in no other test.
func newMerchant(name string) *merchant {
	seed := branchSeed(name)
	return &merchant{queue: "orders-" + seed, order: seed}
}

// hire runs a worker until the test ends.
func (c *merchant) hire(t *testing.T, r *rig) {
	t.Helper()
	w := worker.New(r.Temporal, c.queue, worker.Options{})
	w.RegisterWorkflowWithOptions(c.orderPaid, workflow.RegisterOptions{Name: "OrderPaid"})
	w.RegisterWorkflowWithOptions(c.orderUndone, workflow.RegisterOptions{Name: "OrderUndone"})
	w.RegisterActivityWithOptions(c.count, activity.RegisterOptions{Name: "Count"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

// orderPaid counts its execution, waits while holds is set, and fails or returns a result.
func (c *merchant) orderPaid(ctx workflow.Context, in step.StartedInput) (map[string]any, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
	var holds bool
	if err := workflow.ExecuteActivity(ctx, "Count", in).Get(ctx, &holds); err != nil {
		return nil, err
	}
	if holds {
		if err := workflow.Await(ctx, func() bool {
			return workflow.GetSignalChannel(ctx, "go").ReceiveAsync(nil)
		}); err != nil {
			return nil, err
		}
	}
	return map[string]any{"order": 5678901234567890123, "note": "a secret of the result"}, nil
}

func (c *merchant) orderUndone(ctx workflow.Context, in step.StartedInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	return workflow.ExecuteActivity(ctx, "Count", in).Get(ctx, nil)
}

// count is the receiver of the executions.
func (c *merchant) count(ctx context.Context, in step.StartedInput) (holds bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = append(c.begun, activity.GetInfo(ctx).WorkflowExecution.ID)
	c.inputs = append(c.inputs, in)
	if c.fails > 0 {
		c.fails--
		return false, c.failure
	}
	return c.holds, nil
}

// id is the ID of the execution for a generation of the effect.
func (c *merchant) id(generation int) string {
	id := "flow-workflow:shopify:live:orders:pay:" + c.order
	if generation > 1 {
		id += fmt.Sprintf(":g%d", generation)
	}
	return id
}

// want checks the executions in order.
func (c *merchant) want(t *testing.T, ids ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.begun, ids) {
		t.Errorf("executions\n got %q\nwant %q", c.begun, ids)
	}
}

// configure adds a flow with the workflow of the merchant to a rig's configuration.
func (c *merchant) configure(t *testing.T, s *stores) func(*config.Config) {
	t.Helper()
	return func(to *config.Config) {
		flowing(t, to, `
sources: {shop: {provider: shopify, mode: live, secrets: [{value: env:SHOPIFY_SECRET}]}}
sinks: {stock: {url: "https://stock.example.com"}}
flows:
  orders:
    on: {provider: shopify, types: [orders/paid]}
    account: "string(event.customer.id)"
    steps:
      pay:
        workflow:
          type: OrderPaid
          task_queue: `+c.queue+`
          timeout: 10m
          input: '{"total": event.total_price}'
          refusals: [OutOfStock]
        key: "event.order"
        output: {order: result.order}
        undo: {workflow: {type: OrderUndone, task_queue: `+c.queue+`, input: output.order}}
      reserve:
        after: [pay]
        http: {sink: stock, path: "/orders/{event.order}"}
        key: "event.order"
        body: '{"order": steps.pay.order}'
        refusals: [409]
`, s)
	}
}

// event returns the event of the merchant's order.
func (c *merchant) event() string {
	return fmt.Sprintf(`{"order": %q, "total_price": "12.50", "customer": {"id": 7}, "email": "canary@personal.example"}`, c.order)
}

// reserved is the request after the workflow.
func (c *merchant) reserved() string {
	return fmt.Sprintf(`POST /orders/%s flow-request:shopify:live:orders:reserve:%s {"order":5678901234567890123}`, c.order, c.order)
}

// evidence returns the result of the effect in the ledger, without the run ID.
func (c *merchant) evidence(r *rig) string {
	r.Helper()
	return strings.Join(r.rows(`select jsonb_set(result, '{workflow,run_id}', '"r"')::text from effects where kind = 'flow-workflow'`), " ")
}

// A workflow of the user runs once, gets the IDs of the event and no payload, and its result is the evidence. A repeated
// delivery, another event with the same key and a reset of the run start nothing.
func TestConfiguredFlow_Workflow_OncePerKey(t *testing.T) {
	t.Parallel()
	c, s := newMerchant("once"), newStores(t, nil)
	r := newRig(t, c.configure(t, s))
	c.hire(t, r)
	id := branchSeed("flow-workflow")
	e, workflowID := r.paid("shop", "shopify", "orders/paid", id, c.event())
	r.paid("shop", "shopify", "orders/paid", id, c.event())
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	history := r.history(workflowID, r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID())
	encoded, err := json.Marshal(history)
	if err != nil || strings.Contains(string(encoded), "secret") || strings.Contains(string(encoded), canary) {
		t.Errorf("the history contains a result or a payload (%v)", err)
	}
	if recording() {
		writeGolden(t, "Relay", "flow-workflow", history)
	}
	in := c.inputs[0]
	want := step.StartedInput{EventID: id, ReceiptID: in.ReceiptID, Mode: "live", Source: "shop", Type: "orders/paid", Key: c.id(1), Account: "7", Input: json.RawMessage(`{"total":"12.50"}`)}
	if got, wanted := fmt.Sprintf("%+v", in), fmt.Sprintf("%+v", want); got != wanted || in.ReceiptID == "" {
		t.Errorf("input\n got %s\nwant %s", got, wanted)
	}
	wanted := fmt.Sprintf(`{"output": {"values": {"order": 5678901234567890123}}, "workflow": {"result": {"note": "a secret of the result", "order": 5678901234567890123}, "run_id": "r", "workflow_id": %q}}`, c.id(1))
	if got := c.evidence(r); got != wanted {
		t.Errorf("evidence\n got %s\nwant %s", got, wanted)
	}
	_, second := r.paid("shop", "shopify", "orders/paid", branchSeed("another"), c.event())
	if result := r.result(second, ""); result.Outcome != "processed" || result.Effects[0].By != id {
		t.Errorf("the second event: %+v", result)
	}
	r.resetAndCheck(branch{outcome: "processed"}, e, workflowID, history)
	c.want(t, c.id(1))
	s.want(t, c.reserved())
}

// A failed workflow parks the run with its reason. Only a person's retry starts it again, and a person can skip it.
func TestConfiguredFlow_Workflow_Fails_Parks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end     func(t *testing.T, r *rig, c *merchant)
		failure error
		reason  string
		decide  string
	}{
		"failed, retry": {failure: temporal.NewApplicationError("the card has expired", "CardDeclined"), reason: "workflow OrderPaid failed with CardDeclined", decide: workflows.UpdateRetry},
		"failed, skip":  {failure: temporal.NewApplicationError("the card has expired", "CardDeclined"), reason: "workflow OrderPaid failed with CardDeclined", decide: workflows.UpdateSkip},
		"terminated": {end: func(t *testing.T, r *rig, c *merchant) {
			check(t, r.Temporal.TerminateWorkflow(t.Context(), c.id(1), "", "a test"))
		}, reason: "workflow OrderPaid was terminated", decide: workflows.UpdateRetry},
		"ended by hand": {end: func(t *testing.T, r *rig, c *merchant) { check(t, r.Temporal.CancelWorkflow(t.Context(), c.id(1), "")) }, reason: "workflow OrderPaid was cancelled", decide: workflows.UpdateRetry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := newMerchant("fails-"+strings.NewReplacer(",", "", " ", "-").Replace(name)), newStores(t, nil)
			r := newRig(t, c.configure(t, s))
			if c.holds = tt.end != nil; !c.holds {
				c.fails, c.failure = 1, tt.failure
			}
			c.hire(t, r)
			e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("event"), c.event())
			if tt.end != nil {
				r.until("the workflow runs", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.begun) == 1 })
				c.mu.Lock()
				c.holds = false
				c.mu.Unlock()
				tt.end(t, r, c)
			}
			r.status(e, receipt.Dead)
			if got := r.rows(`select reason from receipts`); !strings.Contains(got[0], tt.reason) {
				t.Errorf("parked because %q, want %q", got, tt.reason)
			}
			// The user's text can contain personal data, so pawl stores it only with the attempt.
			if got := r.rows(`select error from effect_attempts`); tt.failure != nil && (len(got) == 0 || !strings.Contains(got[len(got)-1], "the card has expired")) {
				t.Errorf("the attempts failed with %q, without the message of the workflow", got)
			}
			c.want(t, c.id(1))
			r.decide(workflowID, tt.decide, workflows.DecisionInput{})
			if tt.decide == workflows.UpdateSkip { // the next step needs the output, so a person skips it as well
				r.until("the next step has failed", func() bool {
					return strings.Contains(r.rows(`select reason from receipts`)[0], "steps.pay is missing: the step pay has no output; it was skipped")
				})
				r.decide(workflowID, tt.decide, workflows.DecisionInput{})
			}
			if result := r.result(workflowID, ""); result.Outcome != "processed" {
				t.Errorf("result %+v", result)
			}
			if tt.decide == workflows.UpdateRetry {
				c.want(t, c.id(1), c.id(2))
				s.want(t, c.reserved())
			} else {
				c.want(t, c.id(1))
			}
		})
	}
}

// While the workflow runs, the run is reset and its worker is replaced. Both join the execution, and the page shows why
// the event is not done.
func TestConfiguredFlow_Workflow_Runs_JoinedAfterResetAndKill(t *testing.T) {
	t.Parallel()
	c, s := newMerchant("joined"), newStores(t, nil)
	c.holds = true
	r := newIdleRig(t, false, c.configure(t, s))
	c.hire(t, r)
	kill := r.hire()
	e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("joined"), c.event())
	waits := func() {
		t.Helper()
		r.until("the event waits for the workflow", func() bool {
			got := r.rows(`select status || ' ' || reason from receipts`)
			return got[0] == "retrying waiting_for_workflow: workflow OrderPaid on task queue "+c.queue+" (ID "+c.id(1)+") runs"
		})
	}
	waits()
	kill()
	r.exec(`update receipts set reason = 'x'`)
	r.hire()
	waits()
	resetID := r.reset(workflowID, r.history(workflowID, r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID()))
	r.exec(`update receipts set reason = 'x'`)
	waits()
	check(t, r.Temporal.SignalWorkflow(t.Context(), c.id(1), "", "go", nil))
	if result := r.result(workflowID, resetID); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	r.status(e, receipt.Processed)
	c.want(t, c.id(1))
	s.want(t, c.reserved())
}

// A worker is killed before it starts the workflow, or after the workflow has ended and before the run continues.
func TestConfiguredFlow_Workflow_WorkerKilled_Once(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := newMerchant("killed-"+name), newStores(t, nil)
			r := newIdleRig(t, false, c.configure(t, s))
			c.hire(t, r)
			g := newGate(before)
			id := branchSeed("killed-" + name)
			g.hold(id, "flow-workflow")
			kill := r.hire(g)
			_, workflowID := r.paid("shop", "shopify", "orders/paid", id, c.event())
			r.until("the activity is held up", func() bool { return g.holding() == 1 })
			kill()
			r.work()
			if result := r.result(workflowID, ""); result.Outcome != "processed" {
				t.Errorf("result %+v", result)
			}
			c.want(t, c.id(1))
			s.want(t, c.reserved())
		})
	}
}

// A worker ended between the start of the workflow and its record: the workflow has run, and the ledger has only a claim
// whose lease is over. The next attempt records the result of the execution.
func TestConfiguredFlow_Workflow_StartedAndNotRecorded_Once(t *testing.T) {
	t.Parallel()
	c, s := newMerchant("unrecorded"), newStores(t, nil)
	r := newRig(t, c.configure(t, s))
	c.hire(t, r)
	e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("unrecorded"), c.event())
	r.result(workflowID, "")
	r.status(e, receipt.Processed)
	evidence := c.evidence(r)
	r.exec(`update effects set state = 'claimed', result = null, done_at = null, lease_until = now() - interval '1 second' where kind = 'flow-workflow'`)
	resetID := r.reset(workflowID, r.history(workflowID, r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID()))
	if result := r.result(workflowID, resetID); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	if got := c.evidence(r); got != evidence {
		t.Errorf("evidence\n got %s\nwant %s", got, evidence)
	}
	c.want(t, c.id(1))
}

// The workflow is cancelled together with the run. A retry then starts it again, because it has ended.
func TestConfiguredFlow_Workflow_CancelledWithTheRun(t *testing.T) {
	t.Parallel()
	c, s := newMerchant("cancelled"), newStores(t, nil)
	c.holds = true
	r := newRig(t, c.configure(t, s))
	c.hire(t, r)
	e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("cancelled"), c.event())
	r.until("the event waits for the workflow", func() bool {
		return r.rows(`select reason_code from receipts`)[0] == "waiting_for_workflow"
	})
	check(t, r.Temporal.CancelWorkflow(t.Context(), workflowID, ""))
	r.status(e, receipt.NeedsReview)
	if got := r.rows(`select reason from receipts`); !strings.Contains(got[0], "cancelled") {
		t.Errorf("parked because %q", got)
	}
	found, err := r.Temporal.DescribeWorkflow(t.Context(), c.id(1), "")
	check(t, err)
	if found.Status != enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
		t.Errorf("the workflow is %s", found.Status)
	}
	c.mu.Lock()
	c.holds = false
	c.mu.Unlock()
	r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		t.Errorf("result %+v", result)
	}
	if recording() {
		writeGolden(t, "Relay", "flow-workflow-cancelled", r.history(workflowID, r.Temporal.GetWorkflow(t.Context(), workflowID, "").GetRunID()))
	}
	c.want(t, c.id(1), c.id(2))
	s.want(t, c.reserved())
}

// A refusal of the workflow ends the flow. A refusal of a later step runs the workflow of the undo.
func TestConfiguredFlow_Workflow_RefusedAndUndone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refuses bool
		undone  bool
	}{"workflow refuses": {refuses: true}, "later step refuses": {undone: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newMerchant("refused-" + strings.ReplaceAll(name, " ", "-"))
			s := newStores(t, map[string][]int{"POST /orders/" + c.order: {409}})
			if tt.refuses {
				c.fails, c.failure = 1, fmt.Errorf("reserve: %w", temporal.NewApplicationError("no mug is left", "OutOfStock"))
			}
			r := newRig(t, c.configure(t, s))
			c.hire(t, r)
			e, workflowID := r.paid("shop", "shopify", "orders/paid", branchSeed("refused"), c.event())
			if result := r.result(workflowID, ""); result.Outcome != "compensated" {
				t.Errorf("result %+v", result)
			}
			r.status(e, receipt.Compensated)
			s.want(t)
			wanted := []string{c.id(1)}
			if tt.undone {
				wanted = append(wanted, "undo-"+c.id(1))
			}
			c.want(t, wanted...)
			if last := c.inputs[len(c.inputs)-1]; tt.undone && string(last.Input) != "5678901234567890123" {
				t.Errorf("the undo has the input %s", last.Input)
			}
		})
	}
}

// Without a worker for the task queue, the run waits, and the event shows the reason.
func TestConfiguredFlow_Workflow_NoWorker_Waits(t *testing.T) {
	t.Parallel()
	c, s := newMerchant("nobody"), newStores(t, nil)
	r := newRig(t, c.configure(t, s))
	e, _ := r.paid("shop", "shopify", "orders/paid", branchSeed("nobody"), c.event())
	r.until("the event shows that no worker begins", func() bool {
		return strings.HasPrefix(r.rows(`select reason from receipts`)[0], "workflow_stuck: no worker has begun workflow OrderPaid on task queue "+c.queue)
	})
	c.hire(t, r)
	r.status(e, receipt.Processed)
	c.want(t, c.id(1))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
