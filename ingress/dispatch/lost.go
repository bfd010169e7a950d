package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/activities/intervention"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

const (
	// searchEvery is the pause between searches for lost runs. A search checks only runs that recorded nothing for the
	// time quiet. A terminated run is therefore detected within a minute.
	searchEvery = 25 * time.Second
	quiet       = 30 * time.Second
	// listPage is the maximum number of runs that Temporal returns per request. By default, Temporal answers ten list
	// requests per second for all clients together. The pause pageEvery leaves more than half of them for the Temporal
	// UI.
	listPage    = 1000
	pageEvery   = 250 * time.Millisecond
	listTimeout = 10 * time.Second
	// mostMissing is the maximum number of runs that one search checks. Each check is a request. If a search repaired a
	// receipt, the next search starts at once.
	mostMissing = 1000
	// sample is how many running and how many parked receipts are checked although Temporal lists their runs as
	// running.
	sample = 50
	// checkers is how many runs are checked in parallel. A search ends after checkFailures failures in a row: if
	// Temporal does not answer, each failure takes startTimeout.
	checkers      = 4
	checkFailures = 3
	// stuckAfter is the number of failed attempts of a workflow task after which its run is stuck. Temporal makes this
	// number of attempts in a minute and a half. The replacement of a worker, or a deployment with two versions, causes
	// fewer failures.
	stuckAfter = 7
)

// search searches for lost runs until ctx ends.
func (d *Dispatcher) search(ctx context.Context) {
	pause := searchEvery
	// The random part keeps several processes from searching at the same time.
	for wait(ctx, pause/2+rand.N(pause/2+1)) {
		mended, err := d.SearchOnce(ctx, quiet)
		if err == nil && mended > 0 {
			pause = 0 // more runs may be lost
			continue
		}
		pause = searchEvery
		_, closely := d.SearchSample(ctx, quiet)
		if err := errors.Join(err, closely); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("cannot search for lost runs", "error", err)
		}
	}
}

// SearchOnce searches for runs that ended without finishing their receipt, and returns how many receipts it repaired.
// It checks each run that recorded nothing for the time quiet and that Temporal does not list as running. Because the
// list may be outdated, SearchOnce reads each of these runs before it acts.
//
// If Temporal no longer has the run, because its database was lost or restored from an older copy, SearchOnce starts
// the run again. The ledger prevents that effects happen twice. If the run recorded its end, the receipt gets that
// outcome. If the run was terminated or failed, SearchOnce parks the receipt. SearchOnce does not start a terminated
// run again after Temporal has deleted it.
func (d *Dispatcher) SearchOnce(ctx context.Context, quiet time.Duration) (mended int, err error) {
	ids, err := d.cfg.Runs.Quiet(ctx, quiet)
	if err != nil {
		return 0, fmt.Errorf("search for lost runs: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	missing := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		missing[id] = struct{}{}
	}
	if err := d.eachRunning(ctx, func(receiptID string) (more bool) {
		delete(missing, receiptID)
		return len(missing) > 0
	}); err != nil {
		return 0, fmt.Errorf("search for lost runs: %w", err)
	}
	var suspect []string
	for id := range missing { // in random order, so that runs which cannot be checked do not hide others
		if suspect = append(suspect, id); len(suspect) == mostMissing {
			break
		}
	}
	open, err := d.cfg.Runs.Open(ctx, suspect)
	if err != nil {
		return 0, fmt.Errorf("search for lost runs: %w", err)
	}
	return d.checkAll(ctx, open)
}

// SearchSample checks some receipts that recorded nothing for the time quiet, even if Temporal lists their runs as
// running. It returns how many receipts it repaired. It chooses the receipts at random, so that it eventually checks
// each run that the list wrongly contains. It also finds runs that no worker can continue, because their flow has
// changed, and parks their receipts.
func (d *Dispatcher) SearchSample(ctx context.Context, quiet time.Duration) (mended int, err error) {
	open, err := d.cfg.Runs.QuietSample(ctx, quiet, sample)
	if err != nil {
		return 0, fmt.Errorf("check runs: %w", err)
	}
	return d.checkAll(ctx, open)
}

// eachRunning calls f with the receipt ID of each run that Temporal lists as running, until f returns false.
func (d *Dispatcher) eachRunning(ctx context.Context, f func(receiptID string) (more bool)) error {
	name := workflows.PawlReceipt.GetName()
	request := &workflowservice.ListWorkflowExecutionsRequest{PageSize: listPage,
		Query: "ExecutionStatus = 'Running' AND " + name + " IS NOT NULL"}
	for {
		listing, cancel := context.WithTimeout(ctx, listTimeout)
		page, err := d.cfg.Temporal.ListWorkflow(listing, request)
		cancel()
		if err != nil {
			return fmt.Errorf("list running workflows: %w", err)
		}
		for _, info := range page.GetExecutions() {
			if receiptID, ok := owner(info); ok && !f(receiptID) {
				return nil
			}
		}
		request.NextPageToken = page.GetNextPageToken()
		if len(request.NextPageToken) == 0 {
			return nil
		}
		if !wait(ctx, pageEvery) {
			return ctx.Err()
		}
	}
}

// checkAll checks the runs of open and returns how many receipts it repaired. It stops after checkFailures failed
// checks in a row.
func (d *Dispatcher) checkAll(ctx context.Context, open []run.Open) (mended int, err error) {
	var inARow atomic.Int64
	var mu sync.Mutex // guards the results
	var faults []error
	each(checkers, open, func(o run.Open) {
		if inARow.Load() >= checkFailures {
			return
		}
		done, err := d.check(ctx, o)
		if err != nil {
			inARow.Add(1)
		} else {
			inARow.Store(0)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			faults = append(faults, fmt.Errorf("check run of receipt %s: %w", o.ReceiptID, err))
		}
		if done {
			mended++
		}
	})
	return mended, errors.Join(faults...)
}

// check reads the run of o in Temporal, and repairs the receipt if it does not match the run.
func (d *Dispatcher) check(ctx context.Context, o run.Open) (mended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	recorded := o.WorkflowID != ""
	if !recorded {
		o.WorkflowID = workflows.EventInput{Ref: o.Ref}.ID()
	}
	found, err := d.cfg.Temporal.DescribeWorkflowExecution(ctx, o.WorkflowID, "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return true, d.startAgain(ctx, o)
	}
	if err != nil {
		return false, err
	}
	info := found.GetWorkflowExecutionInfo()
	if another := checkOwner(info, o.ReceiptID); another != nil {
		return d.cfg.Runs.ParkOpen(ctx, o, another.Error())
	}
	if !recorded {
		// The process that started the run died before it recorded the start.
		if err := d.cfg.Runs.MarkStarted(ctx, run.Started{ReceiptID: o.ReceiptID, WorkflowID: o.WorkflowID,
			RunID: info.GetExecution().GetRunId(), StartedAt: info.GetStartTime().AsTime()}); err != nil {
			return false, err
		}
	}
	mended, err = d.settle(ctx, o, found)
	return mended || !recorded, err
}

// settle parks o's receipt if its run has ended, or if no worker can continue the run.
func (d *Dispatcher) settle(ctx context.Context, o run.Open,
	found *workflowservice.DescribeWorkflowExecutionResponse) (settled bool, err error) {
	var reason string
	advice := "; `pawl events replay` starts a new run"
	switch status := found.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		terminated, err := d.terminated(ctx, o, found.GetWorkflowExecutionInfo())
		if err != nil {
			return false, err
		}
		reason = fmt.Sprintf("%s: the run was %s", receipt.RunTerminated, terminated)
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		reason = fmt.Sprintf("%s: the run was ended from outside (%s)", receipt.RunTerminated, status)
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		// A suspended worker may resume a task that another worker has finished, and park the receipt after the run has
		// ended. SettleOpen restores the outcome that the run recorded.
		settled, err := d.cfg.Runs.SettleOpen(ctx, o, found.GetWorkflowExecutionInfo().GetExecution().GetRunId())
		if settled || err != nil {
			return settled, err
		}
		reason = receipt.RunTerminated + ": the run completed without finishing this receipt"
	default:
		tries := found.GetPendingWorkflowTask().GetAttempt()
		if tries < stuckAfter || strings.HasPrefix(o.Reason, receipt.WorkflowTaskFailing+": ") {
			return false, nil
		}
		reason = fmt.Sprintf("%s: no worker can continue the run: its workflow task failed %d times; the workers' log has the reason", receipt.WorkflowTaskFailing, tries)
		advice = "; if the flow has changed since the run started, `pawl events replay` ends the run and starts a new one"
	}
	reason += advice
	if o.Reason != "" {
		reason += "; it was " + string(o.Status) + ": " + o.Reason
	}
	// A run finishes its receipt before it ends. If this run ended after o was read from the database, the status of
	// the receipt has changed, and ParkOpen does nothing.
	return d.cfg.Runs.ParkOpen(ctx, o, reason)
}

// terminated returns who terminated o's run, and the reason. If Temporal no longer has the history, it returns neither.
func (d *Dispatcher) terminated(ctx context.Context, o run.Open,
	info *workflowpb.WorkflowExecutionInfo) (run.Intervention, error) {
	runID := info.GetExecution().GetRunId()
	found, ok, err := intervention.Find(ctx, d.cfg.Temporal, run.Terminated, o.WorkflowID, runID)
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
		return found, fmt.Errorf("read who terminated the run: %w", err) // the next search retries
	}
	if !ok {
		found = run.Intervention{WorkflowID: o.WorkflowID, RunID: runID, What: run.Terminated,
			At: info.GetCloseTime().AsTime()}
	}
	found.ReceiptID = o.ReceiptID
	return found, d.cfg.Runs.Intervened(ctx, found)
}

// startAgain starts a run that Temporal no longer has again, with the same workflow ID.
func (d *Dispatcher) startAgain(ctx context.Context, o run.Open) error {
	in := runOf(o.Pending)
	in.Replay = &workflows.ReplayInput{Actor: "pawl", Reason: "Temporal had forgotten the run"}
	runID, _, err := d.execute(ctx, d.options(o.WorkflowID, in), in)
	if err != nil {
		return err
	}
	d.cfg.Log.Warn("Temporal no longer has a run; pawl started it again", "workflow_id", o.WorkflowID, "run_id", runID,
		"receipt_id", o.ReceiptID)
	d.metrics.start(ctx, o.Provider, "restarted")
	return d.cfg.Runs.MarkStarted(ctx, run.Started{
		ReceiptID: o.ReceiptID, WorkflowID: o.WorkflowID, RunID: runID, StartedAt: d.cfg.Now(),
		Kind: run.Replay, RequestedBy: in.Replay.Actor, Reason: in.Replay.Reason,
	})
}
