package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// requestMemo is the memo field with the ID of the request for a replay. It identifies the run of the request if the
// process that started the run died before it recorded the start.
const requestMemo = "pawl-request"

// startRerun starts the run that a person requested, with the workflow ID of the previous run. Each request starts one
// run. If an earlier attempt has started it, startRerun finds the run by its memo. The lease of the receipt prevents
// that two processes start it at the same time.
func (d *Dispatcher) startRerun(ctx context.Context, p receipt.Pending, in workflows.EventInput) (run.Started, error) {
	ask := p.Rerun
	in.Replay = &workflows.ReplayInput{Request: ask.Request, Actor: ask.Actor, Reason: ask.Reason,
		Previous: ask.Previous,
		Release:  ask.Release}
	started := run.Started{
		ReceiptID: p.ReceiptID, WorkflowID: cmp.Or(p.WorkflowID, in.ID()), StartedAt: d.cfg.Now(),
		Kind: run.Replay, RequestedBy: ask.Actor, Reason: ask.Reason, PreviousRunID: ask.Previous,
	}
	latest, err := d.latest(ctx, started.WorkflowID)
	if err != nil {
		return run.Started{}, fmt.Errorf("replay %s: %w", started.WorkflowID, err)
	}
	if latest != nil && latest.GetExecution().GetRunId() != ask.Previous {
		if err := checkOwner(latest, p.ReceiptID); err != nil {
			return run.Started{}, err
		}
	}
	running := latest.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	switch {
	case latest != nil && requestOf(latest) == ask.Request && latest.GetExecution().GetRunId() != ask.Previous:
		started.RunID = latest.GetExecution().GetRunId()
		d.down.Store(false)
		return started, nil
	case running && (!ask.Ends || latest.GetExecution().GetRunId() != ask.Previous):
		// A person has reset the run in Temporal. The run of the reset replaces the replay.
		d.cfg.Log.Warn("another run of the event is in progress; no new run is started for the requested replay",
			"workflow_id", started.WorkflowID, "run_id", latest.GetExecution().GetRunId(), "receipt_id", p.ReceiptID)
		d.down.Store(false)
		return run.Started{ReceiptID: p.ReceiptID, WorkflowID: started.WorkflowID,
			RunID:     latest.GetExecution().GetRunId(),
			StartedAt: latest.GetStartTime().AsTime(), Kind: run.Reset, PreviousRunID: ask.Previous}, nil
	}
	options := d.options(started.WorkflowID, in)
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	if ask.Ends {
		options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING
	}
	options.Memo = map[string]any{requestMemo: ask.Request}
	runID, already, err := d.execute(ctx, options, in)
	if err == nil && already {
		err = errors.New("another run of the event started at the same time")
	}
	if err != nil {
		d.metrics.start(ctx, p.Provider, "failed")
		return run.Started{}, fmt.Errorf("replay %s: %w", started.WorkflowID, err)
	}
	d.down.Store(false)
	d.metrics.start(ctx, p.Provider, "replayed")
	started.RunID = runID
	return started, nil
}

// latest returns the latest run with a workflow ID. It returns nil if Temporal has no such run.
func (d *Dispatcher) latest(ctx context.Context, workflowID string) (*workflowpb.WorkflowExecutionInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	found, err := d.cfg.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, nil
	}
	if err != nil && unable(err) {
		err = fmt.Errorf("%w: %w", errUnable, err)
	}
	return found.GetWorkflowExecutionInfo(), err
}

// requestOf returns the request ID in a run's memo, or "".
func requestOf(run *workflowpb.WorkflowExecutionInfo) (request string) {
	payload, ok := run.GetMemo().GetFields()[requestMemo]
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &request) != nil {
		return ""
	}
	return request
}
