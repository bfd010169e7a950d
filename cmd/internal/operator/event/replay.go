package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

const verbReplay = "replay"

// Replay implements `pawl events replay`.
var Replay = decide.Verb{
	Name: verbReplay, Command: "events replay", Target: "ID", Rule: ruleOf(checkReplay, forecastReplay),
	Previews: true,
	Many: []string{string(receipt.Processed), string(receipt.Compensated), string(receipt.NeedsReview),
		string(receipt.Dead)},
	Short: "Run an event again after its run has ended",
	Long: `Run an event again after its run has completed, was compensated, or was ended in Temporal. The new run has the same
workflow ID and uses the current code. Effects that are done, skipped or compensated are not repeated. A run with a
failing workflow task is ended first. The dispatcher of a running ingress starts the new run within seconds.`,
}

// stuckAfter is the number of failed workflow task attempts after which a run counts as stuck. Restarting a worker
// causes fewer failures.
const stuckAfter = 3

// checkReplay requests another run of an event after its run has ended. The new run has the same workflow ID and uses
// the current code. The receipt must be processed, compensated or ignored by a run, or its run must be terminated. A
// parked receipt is also accepted if Temporal reports that its run has ended or that its workflow task keeps failing.
// In that case, starting the new run terminates the old run. It is no error if Temporal has no record of the last
// run.
//
// The new run uses the same ledger: effects that are done, skipped or compensated are not repeated. A failed effect is
// tried again, and an uncertain effect parks the run.
//
// The dispatcher of a running ingress starts the run, once per request. The run records the person, the reason and the
// previous run.
func checkReplay(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
	return rerun(ctx, d, r, false)
}

// rerun implements [checkReplay] and [Release]. release is set if the new run also executes the withheld effects.
func rerun(ctx context.Context, d *decide.Decision, r *timeline.Receipt, release bool) (*decide.Change, error) {
	s := situationOf(d.Operator, r)
	waits := fmt.Sprintf("is %s, and its run waits for a decision", statusOf(r))
	switch s {
	case closed, ended, stuck:
	case parked:
		if d.DryRun {
			return nil, refuseEvent(d, r, "%s", waits)
		}
	default:
		return nil, refuseEvent(d, r, "%s", s.words(r, "there is nothing to replay"))
	}
	workflowID, previous, err := lastRun(ctx, d.Operator, r)
	if err != nil {
		return nil, err
	}
	next := receipt.Rerun{Request: d.RequestID(), Actor: d.Actor, Reason: d.Reason, Previous: previous,
		Release: release}
	latest, err := describe(ctx, d, workflowID)
	if err != nil {
		return nil, err
	}
	if latest != nil {
		next.Previous = latest.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	}
	if latest.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		next.Ends = s != closed && latest.GetPendingWorkflowTask().GetAttempt() >= stuckAfter
		switch {
		case next.Ends:
		case s == parked:
			return nil, refuseEvent(d, r, "%s", waits)
		default:
			// A person has reset the run in Temporal, or the run's worker was repaired. The receipt will show this
			// state shortly.
			return nil, &decide.RefusedError{
				Target: d.Target, Verb: d.Verb,
				Reason: "has a run in Temporal that is still running (" + workflowID + ")",
				Try: []decide.Choice{{Command: []string{"pawl", "events", "show", d.Target},
					Effect: "shows the current state"}},
			}
		}
	}
	c := changeOf(r, map[string]any{"status": receipt.Received, "workflow_id": workflowID,
		"previous_run": next.Previous})
	c.Do = func(ctx context.Context, tx pgx.Tx) error {
		return came(ctx, d, r, receipt.AskRerun(ctx, tx, r.ID, workflowID, receipt.Status(r.Status), r.Reason, next))
	}
	return c, nil
}

// lastRun returns the workflow ID for a replay, and the ID of the last run with this workflow ID, or "" if no run is
// recorded. The workflow ID belongs to a scheduled action only if the action's run has not finished.
func lastRun(ctx context.Context, o *decide.Operator, r *timeline.Receipt) (workflowID, runID string, err error) {
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
	workflowID = cmp.Or(workflowID, decide.InputOf(r).ID())
	for _, run := range e.Runs {
		if run.WorkflowID == workflowID {
			runID = run.RunID
		}
	}
	return workflowID, runID, nil
}

// describe returns Temporal's description of the latest run under a workflow ID. It returns nil if Temporal has no such
// run, and always in a preview.
func describe(ctx context.Context, d *decide.Decision,
	workflowID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if d.DryRun {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, decideTimeout)
	defer stop()
	found, err := d.Operator.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask Temporal about %s: %w", workflowID, err)
	}
	return found, nil
}
