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

// checkReplay asks for another run of a receipt whose run has ended: under the same workflow ID, on today's code. It
// takes a receipt that is processed, compensated, or was ignored by a run; one whose run was ended from outside; and
// a parked one if Temporal says that its run has ended, or that no worker can go on with it. The start ends such a
// run. A run that Temporal has forgotten is no hindrance.
//
// The ledger is the same: effects that are done, skipped or taken back stay so.
// A failed effect is tried again, and a person is asked about one that is in doubt.
//
// The dispatcher of a running ingress starts the run, once for each request, and the runs hold who asked, why, and
// after which run.
func checkReplay(ctx context.Context, d *Decision, r *timeline.Receipt) (*change, error) {
	s := situationOf(d.o, r)
	waits := fmt.Sprintf("is %s, and its run waits for a decision", statusOf(r))
	switch s {
	case closed, ended, stuck:
	case parked:
		if d.preview {
			return nil, d.refuseEvent(r, "%s", waits)
		}
	default:
		return nil, d.refuseEvent(r, "%s", s.words(r, "there is nothing to replay"))
	}
	workflowID, previous, err := d.o.lastRun(ctx, r)
	if err != nil {
		return nil, err
	}
	rerun := receipt.Rerun{Request: d.requestID(), Who: d.Who, Why: d.Why, Previous: previous,
		Release: d.Verb == VerbRelease}
	latest, err := d.describe(ctx, workflowID)
	if err != nil {
		return nil, err
	}
	if latest != nil {
		rerun.Previous = latest.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	if latest.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		rerun.Ends = s != closed && latest.GetPendingWorkflowTask().GetAttempt() >= stuckAfter
		switch {
		case rerun.Ends:
		case s == parked:
			return nil, d.refuseEvent(r, "%s", waits)
		default:
			// Somebody has reset it in Temporal, or its worker was mended: the receipt says so in a moment.
			return nil, &RefusedError{
				Target: d.Target, Verb: d.Verb, Why: "has a run in Temporal that goes on (" + workflowID + ")",
				Try: []Choice{{Command: []string{"pawl", "events", "show", d.Target},
					Does: "says how it stands in a moment"}},
			}
		}
	}
	c := eventChange(r, map[string]any{"status": receipt.Received, "workflow_id": workflowID,
		"previous_run": rerun.Previous})
	c.do = func(ctx context.Context, tx pgx.Tx) error {
		return d.came(ctx, r, receipt.AskRerun(ctx, tx, r.ID, workflowID, receipt.Status(r.Status), r.Reason, rerun))
	}
	return c, nil
}

// lastRun returns the workflow ID that a receipt has run under, or is to run under again, and its last run there: "" if
// none is recorded. A run of the clock is not run again, unless it has not finished.
func (o *Operator) lastRun(ctx context.Context, r *timeline.Receipt) (workflowID, runID string, err error) {
	e, err := timeline.Show(ctx, o.DB, r.ID)
	if err != nil {
		return "", "", err
	}
	_, byClock := workflows.DueOf(r.WorkflowID)
	if !byClock || situationOf(o, r) != closed {
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

// describe returns how Temporal knows the latest run under a workflow ID, nil where it has none. A preview does not
// ask.
func (d *Decision) describe(ctx context.Context,
	workflowID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if d.preview {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, decideTimeout)
	defer stop()
	found, err := d.o.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask Temporal about %s: %w", workflowID, err)
	}
	return found, nil
}
