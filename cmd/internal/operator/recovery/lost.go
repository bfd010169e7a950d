// Package recovery continues work after the database has lost its last transactions: it was restored from a backup, or
// a standby was promoted that had not received them. Temporal then has runs with progress that the database does not
// contain.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/workflows"
	"github.com/pawlhq/pawl/workflows/jobs"
)

// Temporal is the part of client.Client that this package uses.
type Temporal interface {
	ListWorkflow(ctx context.Context,
		r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	WorkflowService() workflowservice.WorkflowServiceClient
}

// Runs reads the runs of one task queue in Temporal and compares them with the database.
type Runs struct {
	Temporal             Temporal
	Namespace, TaskQueue string
	DB                   *pgxpool.Pool
}

// Run is a run in Temporal that the database does not match.
type Run struct {
	WorkflowID string    `json:"workflow_id"`
	RunID      string    `json:"run_id"`
	StartedAt  time.Time `json:"started_at"`
	// ReceiptID is the ID of the receipt of the event. It is empty for the run of a job.
	ReceiptID string `json:"receipt_id,omitempty"`
	// Unknown is set if the database does not contain the receipt. The provider must send the event again.
	Unknown bool `json:"unknown"`

	closed bool
}

// newest is the number of closed runs that [Runs.Unknown] checks.
const newest = 200

// Unknown returns runs without a receipt in the database, among the open and the newest closed runs.
// pawl commits a receipt before it starts the run and never deletes a receipt, so such a run proves that the database
// has lost transactions. The visibility store of Temporal may show a new run some seconds late.
func (r Runs) Unknown(ctx context.Context) (unknown []Run, err error) {
	add := func(page []*workflowpb.WorkflowExecutionInfo) error {
		compared, err := r.compare(ctx, page)
		if err != nil {
			return err
		}
		for _, c := range compared {
			if !c.Unknown {
				continue
			}
			// The list may contain a run that Temporal no longer has.
			switch err := r.describe(ctx, c.Run); {
			case err == nil:
				unknown = append(unknown, c.Run)
			case !isGone(err):
				return fmt.Errorf("read run %s: %w", c.WorkflowID, err)
			}
		}
		return nil
	}
	if err := r.each(ctx, ofReceipts+" AND ExecutionStatus = 'Running'", add); err != nil {
		return nil, err
	}
	page, err := r.list(ctx, ofReceipts+" AND ExecutionStatus != 'Running'", newest, nil)
	if err != nil {
		return nil, err
	}
	return unknown, add(page.GetExecutions())
}

// clocks is the largest difference between the clocks of Postgres and Temporal.
const clocks = time.Minute

// ahead returns the runs with progress after the time since that the database does not have: the run is open, or the
// database has not recorded its end. It also returns the older open runs of unknown receipts.
func (r Runs) ahead(ctx context.Context, since time.Time) (ahead []Run, err error) {
	since = since.Add(-clocks)
	which := fmt.Sprintf("(ExecutionStatus = 'Running' OR CloseTime >= '%s')", since.UTC().Format(time.RFC3339Nano))
	err = r.each(ctx, ofReceipts+" AND "+which, func(page []*workflowpb.WorkflowExecutionInfo) error {
		compared, err := r.compare(ctx, page)
		if err != nil {
			return err
		}
		for _, c := range compared {
			is, err := r.isAhead(ctx, c, since)
			if err != nil {
				return err
			}
			if is {
				ahead = append(ahead, c.Run)
			}
		}
		return nil
	})
	return ahead, err
}

func (r Runs) isAhead(ctx context.Context, c compared, since time.Time) (bool, error) {
	switch {
	case c.Unknown:
		return true, nil
	case c.closed:
		return c.unfinished || !c.recorded, nil
	}
	last, err := r.lastEvent(ctx, c.Run)
	return last.After(since), err
}

// started is the number of events in the history of a run that has only started.
const started = 2

// lastEvent returns the time of the last event in the history of a run. It returns the zero time if the run has only
// started or is gone: it does not rely on lost state.
func (r Runs) lastEvent(ctx context.Context, run Run) (time.Time, error) {
	found, err := r.Temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx,
		&workflowservice.GetWorkflowExecutionHistoryReverseRequest{
			Namespace: r.Namespace, Execution: run.execution(), MaximumPageSize: 1,
		})
	if err != nil && !isGone(err) {
		return time.Time{}, fmt.Errorf("read the last event of run %s: %w", run.WorkflowID, err)
	}
	events := found.GetHistory().GetEvents()
	if len(events) == 0 || events[0].GetEventId() <= started {
		return time.Time{}, nil
	}
	return events[0].GetEventTime().AsTime(), nil
}

// jobs returns the open runs of jobs that are finished in the database, or that it does not contain.
func (r Runs) jobs(ctx context.Context) (lost []Run, err error) {
	open, err := schema.List[string](ctx, r.DB, "list open jobs",
		`select id from jobs where state in ('running', 'paused')`)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, id := range open {
		known[jobs.Input{ID: id}.WorkflowID()] = true
	}
	err = r.each(ctx, "WorkflowType = 'Job' AND ExecutionStatus = 'Running'",
		func(page []*workflowpb.WorkflowExecutionInfo) error {
			for _, info := range page {
				if run := runOf(info); !known[run.WorkflowID] {
					lost = append(lost, run)
				}
			}
			return nil
		})
	return lost, err
}

// ofReceipts selects the runs of events.
var ofReceipts = workflows.PawlReceipt.GetName() + " IS NOT NULL"

// listed is the number of runs that one request lists.
const listed = 500

// each calls f with each page of the runs that the query which selects.
func (r Runs) each(ctx context.Context, which string, f func([]*workflowpb.WorkflowExecutionInfo) error) error {
	for token := []byte(nil); ; {
		page, err := r.list(ctx, which, listed, token)
		if err == nil {
			err = f(page.GetExecutions())
		}
		if token = page.GetNextPageToken(); err != nil || len(token) == 0 {
			return err
		}
	}
}

func (r Runs) list(ctx context.Context, which string, size int32,
	token []byte) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	page, err := r.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: size, NextPageToken: token, Query: which + " AND TaskQueue = '" + r.TaskQueue + "'",
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// compared is a run with the state of its receipt.
type compared struct {
	Run
	// unfinished is set if the receipt exists and has no outcome, recorded if the database contains the end of the run.
	unfinished, recorded bool
}

const receiptsSQL = `
select id, status not in ('processed', 'compensated', 'ignored') as unfinished from receipts where id = any($1)`

const recordedSQL = `
select run_id from runs
 where closed_at is not null and (workflow_id, run_id) in (select * from unnest($1::text[], $2::text[]))`

// compare reads the receipts of runs. A receipt ID that is not a UUID is unknown.
func (r Runs) compare(ctx context.Context, infos []*workflowpb.WorkflowExecutionInfo) (all []compared, err error) {
	ids, workflowIDs, runIDs := []uuid.UUID{}, []string{}, []string{}
	for _, info := range infos {
		c := compared{Run: runOf(info)}
		attribute := info.GetSearchAttributes().GetIndexedFields()[workflows.PawlReceipt.GetName()]
		if err := converter.GetDefaultDataConverter().FromPayload(attribute, &c.ReceiptID); err != nil {
			return nil, fmt.Errorf("read the receipt ID of run %s: %w", c.WorkflowID, err)
		}
		all = append(all, c)
		workflowIDs, runIDs = append(workflowIDs, c.WorkflowID), append(runIDs, c.RunID)
		if id, err := uuid.Parse(c.ReceiptID); err == nil {
			ids = append(ids, id)
		}
	}
	type row struct {
		ID         uuid.UUID
		Unfinished bool
	}
	rows, err := schema.List[row](ctx, r.DB, "read the receipts of runs", receiptsSQL, ids)
	if err != nil {
		return nil, err
	}
	ended, err := schema.List[string](ctx, r.DB, "read the ends of runs", recordedSQL, workflowIDs, runIDs)
	if err != nil {
		return nil, err
	}
	unfinished := map[string]bool{}
	for _, of := range rows {
		unfinished[of.ID.String()] = of.Unfinished
	}
	for i, c := range all {
		is, known := unfinished[c.ReceiptID]
		all[i].Unknown, all[i].unfinished, all[i].recorded = !known, is, slices.Contains(ended, c.RunID)
	}
	return all, nil
}

// describe returns nil if Temporal has the run. [isGone] reports whether Temporal does not have it.
func (r Runs) describe(ctx context.Context, run Run) error {
	_, err := r.Temporal.WorkflowService().DescribeWorkflowExecution(ctx,
		&workflowservice.DescribeWorkflowExecutionRequest{Namespace: r.Namespace, Execution: run.execution()})
	return err
}

func isGone(err error) bool {
	_, gone := errors.AsType[*serviceerror.NotFound](err)
	return gone
}

func runOf(info *workflowpb.WorkflowExecutionInfo) Run {
	return Run{
		WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(),
		StartedAt: info.GetStartTime().AsTime(),
		closed:    info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
}

func (run Run) execution() *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: run.WorkflowID, RunId: run.RunID}
}
