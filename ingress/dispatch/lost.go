package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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
	// lookFailures in a row end a look: with a Temporal that does not answer, each takes startTimeout.
	lookFailures = 3
	// stuckAfter is how many tries of a workflow task say that the next one will fail, too. Temporal makes as many
	// in a minute and a half; a worker that is being replaced, or one of two versions at work, costs fewer.
	stuckAfter = 7
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
// again: the ledger keeps what it had done from being done twice. A receipt whose run has recorded its end
// goes back to that outcome. One that has ended without finishing its receipt, whether from outside or by
// itself, parks it, since nobody else would finish it; what a person has ended is not started again when
// Temporal's retention is over. One that no worker can go on with, because the flow was changed under it, parks its
// receipt, too: what that says would otherwise stay as it was when the run still went on.
func (d *Dispatcher) LookOnce(ctx context.Context, quiet time.Duration) (mended int, err error) {
	unheard, err := d.cfg.Receipts.Unheard(ctx, lookBatch, quiet, lookAgain)
	if err != nil {
		return 0, fmt.Errorf("look for lost runs: %w", err)
	}
	// A run that cannot be looked at must not keep the others from being looked at. Several of them in a row mean that
	// Temporal as a whole does not answer, and end the look. The order is random because the next look takes the same
	// runs together: in a fixed one, those that failed would come first again, and end it again.
	rand.Shuffle(len(unheard), func(i, j int) { unheard[i], unheard[j] = unheard[j], unheard[i] })
	var faults []error
	for inARow := 0; len(unheard) > 0 && inARow < lookFailures; unheard = unheard[1:] {
		done, err := d.lookAt(ctx, unheard[0])
		switch {
		case err != nil:
			inARow++
			faults = append(faults, fmt.Errorf("look at run of %s: %w", unheard[0].WorkflowID, err))
			continue
		case done:
			mended++
		}
		inARow = 0
	}
	return mended, errors.Join(faults...)
}

func (d *Dispatcher) lookAt(ctx context.Context, u receipt.Unheard) (mended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	found, err := d.cfg.Inspect.DescribeWorkflowExecution(ctx, u.WorkflowID, "")
	var missing *serviceerror.NotFound
	ended := strings.HasPrefix(u.Reason, receipt.RunEnded)
	if errors.As(err, &missing) {
		if ended {
			return false, nil
		}
		return true, d.startAgain(ctx, u)
	}
	if err != nil || ended {
		return false, err
	}
	info := found.GetWorkflowExecutionInfo()
	if another := checkOwner(info, u.ReceiptID); another != nil {
		return d.cfg.Receipts.ParkUnheard(ctx, u, another.Error())
	}
	reason := receipt.RunEnded
	advice := " (`pawl events run` the event where Temporal no longer has it)"
	switch status := info.GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		reason += fmt.Sprintf("the run was ended from outside (%s); reset the workflow to go on", status)
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		// A worker that was stopped for a while goes on with a task that another one has finished meanwhile, and may
		// park the receipt after the run has ended. The run itself has recorded its outcome: that one counts.
		settled, err := d.cfg.Receipts.SettleUnheard(ctx, u, info.GetExecution().GetRunId())
		if settled || err != nil {
			return settled, err
		}
		reason += "the run is complete and has not finished this receipt; look at it, and reset the workflow to go on"
	default:
		tries := found.GetPendingWorkflowTask().GetAttempt()
		if tries < stuckAfter || strings.HasPrefix(u.Reason, receipt.RunStuck) {
			return false, nil
		}
		reason = fmt.Sprintf("%sno worker can go on with the run: its workflow task was tried %d times, and the workers' log says why it fails", receipt.RunStuck, tries)
		advice = "; where the run is older than the flow, reset the workflow to go on"
	}
	reason += advice
	if u.Reason != "" {
		reason += "; it was " + string(u.Status) + ": " + u.Reason
	}
	// A run finishes its receipt before it ends: one that ended between the two looks has moved it.
	return d.cfg.Receipts.ParkUnheard(ctx, u, reason)
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
