package flowtest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
)

// asked counts the questions about single runs.
type asked struct {
	client.Client
	count atomic.Int64
}

func (a *asked) DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	a.count.Add(1)
	return a.Client.DescribeWorkflowExecution(ctx, workflowID, runID)
}

// Temporal's own list has a parked run while it waits, so that nothing is asked about it, and lacks it when somebody has
// terminated it.
func TestLost_ParkedRunTerminated_NoticedByList(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(e)
	r.status(e, receipt.Dead)
	temporal := &asked{Client: r.Temporal}
	d, err := dispatch.New(dispatch.Config{Temporal: temporal, Receipts: r.Receipts, Runs: r.Runs, TaskQueue: "none"})
	if err != nil {
		t.Fatal(err)
	}
	look := func() (mended int, asked int64) {
		before := temporal.count.Load()
		mended, err := d.LookOnce(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return mended, temporal.count.Load() - before
	}
	r.until("the list has the run", func() bool {
		mended, asked := look()
		if mended > 0 {
			t.Fatalf("mended a run that waits: %v", r.rows(`select status || ' ' || reason from receipts`))
		}
		return asked == 0
	})
	if err := r.Temporal.TerminateWorkflow(t.Context(), workflowID, "", "by a person"); err != nil {
		t.Fatal(err)
	}
	r.until("the end is noticed", func() bool {
		mended, _ := look()
		return mended == 1
	})
	if reason := r.rows(`select status || ' ' || reason from receipts`)[0]; !strings.HasPrefix(reason, "needs_review "+receipt.RunEnded) || !strings.Contains(reason, "the run was terminated in Temporal by ") || !strings.Contains(reason, "(by a person)") {
		t.Errorf("receipt is %s; want it to say that its run was terminated", reason)
	}
}
