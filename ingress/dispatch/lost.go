package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Inspector tells how a run stands; a client.Client. Its answer comes from the run itself and not from
// the visibility store, which lags.
type Inspector interface {
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

const (
	// lookEvery is the pause between looks for lost runs, quiet how long nothing must have been heard of
	// one, and lookAgain when the same one is looked at next: a parked run may wait for days.
	lookEvery = 30 * time.Second
	quiet     = 2 * time.Minute
	lookAgain = 10 * time.Minute
	lookBatch = 100
)

// look goes on finding lost runs until ctx ends.
func (d *Dispatcher) look(ctx context.Context) {
	for wait(ctx, lookEvery) {
		if _, err := d.LookOnce(ctx, quiet); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("cannot look for lost runs", "error", err)
		}
	}
}

// LookOnce looks at runs of which nothing was heard for the time quiet, and returns how many it mended. A
// run that Temporal no longer knows (its database was lost, or restored from an older copy) is started
// again: the ledger keeps what it had done from being done twice. One that was ended from outside parks
// its receipt, since nobody would finish it.
func (d *Dispatcher) LookOnce(ctx context.Context, quiet time.Duration) (mended int, err error) {
	unheard, err := d.cfg.Receipts.Unheard(ctx, lookBatch, quiet, lookAgain)
	if err != nil {
		return 0, fmt.Errorf("look for lost runs: %w", err)
	}
	for _, u := range unheard {
		done, err := d.lookAt(ctx, u)
		if err != nil {
			return mended, fmt.Errorf("look at run of %s: %w", u.WorkflowID, err)
		}
		if done {
			mended++
		}
	}
	return mended, nil
}

func (d *Dispatcher) lookAt(ctx context.Context, u receipt.Unheard) (mended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	found, err := d.cfg.Inspect.DescribeWorkflowExecution(ctx, u.WorkflowID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return true, d.startAgain(ctx, u)
	}
	if err != nil {
		return false, err
	}
	switch status := found.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		if u.Status == receipt.NeedsReview {
			return false, nil
		}
		reason := fmt.Sprintf("run_ended: the run was ended from outside (%s); reset the workflow to go on", status)
		return true, d.cfg.Receipts.Transition(ctx, u.ReceiptID, receipt.NeedsReview, reason, reason)
	}
	return false, nil
}

// startAgain starts a run that Temporal has forgotten, under the ID that it had.
func (d *Dispatcher) startAgain(ctx context.Context, u receipt.Unheard) error {
	flow := workflows.Route(u.Provider, u.Type)
	in := eventInput(u.Pending)
	runID, _, err := d.executeAs(ctx, u.WorkflowID, flow, in)
	if err != nil {
		return err
	}
	d.cfg.Log.Warn("Temporal had forgotten a run; it was started again", "workflow_id", u.WorkflowID, "run_id", runID, "receipt_id", u.ReceiptID)
	d.metrics.start(ctx, u.Provider, "restarted")
	return d.cfg.Receipts.MarkStarted(ctx, receipt.Started{
		ReceiptID: u.ReceiptID, WorkflowID: u.WorkflowID, RunID: runID, StartedAt: d.cfg.Now(),
		Kind: receipt.Replay, RequestedBy: "pawl", Reason: "Temporal had forgotten the run",
	})
}
