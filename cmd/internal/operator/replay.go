package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// stuckAfter is how many tries of a workflow task say that a run does not go on: a worker that is being replaced costs
// fewer.
const stuckAfter = 3

// replay asks for another run of a receipt whose run has ended: under the same workflow ID, on today's code. It takes what
// is processed, compensated, or was ignored by a run; what was ended from outside; and what is parked, where Temporal says
// that its run has ended or that no worker can go on with it, which the start then ends. That Temporal has forgotten the
// run is no hindrance.
//
// The ledger is the same: what is done stays done, what was skipped stays skipped, and what was taken back stays so. What
// had failed is tried again, and what is in doubt asked about.
//
// The wish is durable once replay returns, in one commit with the audit trail: the dispatcher of a running ingress starts
// the run, once for each request, and the runs hold who asked, why, and after which run.
func (d *Desk) replay(ctx context.Context, ask Ask, r *timeline.Receipt) (*Answer, error) {
	if err := d.replayable(ask, r); err != nil {
		return nil, err
	}
	stands := d.standOf(r)
	workflowID, previous, err := d.lastRun(ctx, r)
	if err != nil {
		return nil, err
	}
	latest, err := d.describe(ctx, workflowID)
	if err != nil {
		return nil, err
	}
	rerun := receipt.Rerun{Request: ask.RequestID, Who: ask.Who, Why: ask.Why, Previous: previous}
	if latest != nil {
		rerun.Previous = latest.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		if latest.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			rerun.Ends = stands != closed && latest.GetPendingWorkflowTask().GetAttempt() >= stuckAfter
			if !rerun.Ends {
				return nil, d.stillRuns(ask, r, workflowID)
			}
		}
	}
	after := map[string]any{"status": receipt.Received, "workflow_id": workflowID, "previous_run": rerun.Previous}
	added, err := d.Audit.AppendWith(ctx, d.action(ask, r, after), func(ctx context.Context, tx pgx.Tx) error {
		return receipt.AskRerun(ctx, tx, r.ID, workflowID, receipt.Status(r.Status), r.Reason, rerun)
	})
	if answer, err := d.settled(ctx, ask, r, added, err); answer != nil || err != nil {
		return answer, err
	}
	answer := ask.answer(r)
	answer.WorkflowID, answer.PreviousRun = workflowID, rerun.Previous
	answer.Says = "it will run again; what the ledger has as done or skipped stays so, and what had failed is tried again"
	switch {
	case r.Status == string(receipt.Compensated):
		answer.Says = "it will run again; what was taken back stays so, and it ends as compensated"
	case rerun.Ends:
		answer.Says = "its run, which no worker can go on with, is ended, and it will run again; what the ledger has as done or skipped stays so"
	}
	return answer, nil
}

// replayable refuses to replay what has not run, or has not ended, as far as the receipt tells.
func (d *Desk) replayable(ask Ask, r *timeline.Receipt) error {
	switch d.standOf(r) {
	case closed, ended, stuck, parked:
	case left, asked:
		return d.refuse(ask, r, "is %s, and has never run: there is nothing to replay", d.status(r))
	default:
		return d.refuse(ask, r, "is %s: only what has ended is replayed", d.status(r))
	}
	return nil
}

// stillRuns refuses a replay of what has a run in Temporal that goes on.
func (d *Desk) stillRuns(ask Ask, r *timeline.Receipt, workflowID string) error {
	if d.standOf(r) == parked {
		return d.refuse(ask, r, "is %s, and its run waits for a decision", d.status(r))
	}
	// Somebody has reset it in Temporal, or its worker was mended: the receipt says so in a moment.
	return &RefusedError{
		EventID: ask.ID, Verb: ask.Verb, Why: "has a run in Temporal that goes on (" + workflowID + ")",
		Try: []Choice{cancel(workflowID)},
	}
}

// lastRun returns under which workflow ID a receipt has run, or is to run again, and its last run there: "" where none is
// recorded. What the clock did about it is not run again, but for such a run that has not finished.
func (d *Desk) lastRun(ctx context.Context, r *timeline.Receipt) (workflowID, runID string, err error) {
	e, err := timeline.Show(ctx, d.DB, r.ID)
	if err != nil {
		return "", "", err
	}
	_, byClock := workflows.DueOf(r.WorkflowID)
	if !byClock || d.standOf(r) != closed {
		workflowID = r.WorkflowID
	}
	for _, run := range e.Runs {
		if _, due := workflows.DueOf(run.WorkflowID); workflowID == "" && !due {
			workflowID = run.WorkflowID
		}
	}
	workflowID = cmp.Or(workflowID, inputOf(r).ID())
	for _, run := range e.Runs {
		if run.WorkflowID == workflowID {
			runID = run.RunID
		}
	}
	return workflowID, runID, nil
}

// describe returns how Temporal knows the latest run under a workflow ID, nil where it has none.
func (d *Desk) describe(ctx context.Context, workflowID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	ctx, stop := context.WithTimeout(ctx, decideTimeout)
	defer stop()
	found, err := d.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask Temporal about %s: %w", workflowID, err)
	}
	return found, nil
}
