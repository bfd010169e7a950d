package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
)

func (tp *temporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	if _, ok := tp.runs[id]; !ok {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	status := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if tp.terminated {
		status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

// begun is a receipt whose run has begun and been silent for long enough to be looked at.
func begun(t *testing.T, b *bench) receipt.Pending {
	t.Helper()
	d, err := dispatch.New(dispatch.Config{Temporal: b.temporal, Inspect: b.temporal, Receipts: b.store, TaskQueue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	b.d = d
	p := b.insert(t)
	b.due(t)
	if found, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("found %d, %v", found, err)
	}
	if _, err := b.pool.Exec(t.Context(), `update receipts set dispatch_at = now() - interval '1 second', updated_at = now() - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bench) lookOnce(t *testing.T) int {
	t.Helper()
	mended, err := b.d.LookOnce(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return mended
}

func TestLookOnce_TemporalForgotTheRun_StartedAgainUnderItsID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	b.temporal.set(func(tp *temporal) { clear(tp.runs) })

	if got := b.lookOnce(t); got != 1 {
		t.Fatalf("mended %d runs, want 1", got)
	}
	if s, ok := b.temporal.get("stripe:evt_1"); !ok || s.in.ReceiptID != p.ReceiptID {
		t.Errorf("started %+v, %v; want the receipt's run", s, ok)
	}
	if got := b.lookOnce(t); got != 0 {
		t.Errorf("looked again at once and mended %d", got)
	}
}

func TestLookOnce_RunIsThere_LeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	if got := b.lookOnce(t); got != 0 {
		t.Errorf("mended %d runs, want none", got)
	}
	if got := b.status(t, p.ReceiptID); got != receipt.Processing {
		t.Errorf("receipt is %s, want processing", got)
	}
}

func TestLookOnce_RunTerminatedFromOutside_ReceiptSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := begun(t, b)
	b.temporal.set(func(tp *temporal) { tp.terminated = true })

	if got := b.lookOnce(t); got != 1 {
		t.Fatalf("mended %d, want 1", got)
	}
	r, err := b.store.Get(t.Context(), p.ReceiptID)
	if err != nil || r.Status != receipt.NeedsReview || !strings.Contains(r.Reason, "run_ended") {
		t.Errorf("receipt is %s (%s), %v; want needs_review with the reason", r.Status, r.Reason, err)
	}
}
