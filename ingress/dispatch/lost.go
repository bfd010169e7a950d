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
	// searchEvery is the pause between searches for lost runs. A run is a candidate after it recorded nothing for the
	// time quiet. So the search notices a terminated run within a minute.
	searchEvery = 25 * time.Second
	quiet       = 30 * time.Second
	// listPage is the most that Temporal returns at once. By default Temporal answers ten lists per second for all
	// clients together; pageEvery leaves more than half of them to the users of the Temporal UI.
	listPage    = 1000
	pageEvery   = 250 * time.Millisecond
	listTimeout = 10 * time.Second
	// mostMissing bounds the runs that one search checks, each with its own request. A search that repaired something
	// is followed by the next one at once.
	mostMissing = 1000
	// sample is how many running receipts, and how many parked ones, are checked even if Temporal lists their runs.
	sample = 50
	// checkers is how many runs are checked at once. A search ends after checkFailures failures in a row, because each
	// takes startTimeout if Temporal does not answer.
	checkers      = 4
	checkFailures = 3
	// stuckAfter is how many failed attempts of a workflow task mean that the next attempt fails as well. Temporal
	// makes as many in a minute and a half. The replacement of a worker, or a deployment of two versions, causes fewer.
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

// SearchOnce searches for runs that ended without finishing their receipt, and returns how many receipts it repaired. A
// run is suspect if it recorded nothing for the time quiet and Temporal does not list it as running. The cost grows
// with the number of open runs, not with the number of lost ones. Because the list may lag, SearchOnce reads each
// suspect run before it acts.
//
// A run that Temporal no longer has (its database was lost, or restored from an older copy) is started again: the
// ledger keeps its effects from being done twice. If the run recorded its end, the receipt gets that outcome. If a run
// ended without finishing its receipt, because it was terminated or failed, SearchOnce parks the receipt. A run that a
// person terminated is not started again when Temporal's retention ends.
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

// SearchSample checks some receipts without a record for the time quiet, even if Temporal lists their runs as running,
// and returns how many it repaired. It chooses them at random, so that it eventually checks each run that the list
// wrongly reports as running. It also finds runs that no worker can continue, because their flow has changed, and parks
// their receipts, which would otherwise keep their last state for ever.
func (d *Dispatcher) SearchSample(ctx context.Context, quiet time.Duration) (mended int, err error) {
	open, err := d.cfg.Runs.QuietSample(ctx, quiet, sample)
	if err != nil {
		return 0, fmt.Errorf("check runs: %w", err)
	}
	return d.checkAll(ctx, open)
}

// eachRunning calls f with the receipt of each run that Temporal lists as running, until f returns false.
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

// checkAll checks the runs of open and returns how many it repaired. A failed check does not stop the others. Several
// failures in a row mean that Temporal does not answer, and end the search.
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

// check reads the run of o in Temporal and repairs o's receipt if the two differ.
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
		// The process that started the run died before it could record that.
		if err := d.cfg.Runs.MarkStarted(ctx, run.Started{ReceiptID: o.ReceiptID, WorkflowID: o.WorkflowID,
			RunID: info.GetExecution().GetRunId(), StartedAt: info.GetStartTime().AsTime()}); err != nil {
			return false, err
		}
	}
	mended, err = d.settle(ctx, o, found)
	return mended || !recorded, err
}

// settle records on o's receipt that its run has ended, or that no worker can continue the run.
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
		reason = fmt.Sprintf("%s: the run was %s", receipt.RunEnded, terminated)
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		reason = fmt.Sprintf("%s: the run was ended from outside (%s)", receipt.RunEnded, status)
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		// A worker that was suspended may finish a task that another worker has finished meanwhile, and so park the
		// receipt after the run has ended. The outcome that the run recorded counts.
		settled, err := d.cfg.Runs.SettleOpen(ctx, o, found.GetWorkflowExecutionInfo().GetExecution().GetRunId())
		if settled || err != nil {
			return settled, err
		}
		reason = receipt.RunEnded + ": the run completed without finishing this receipt"
	default:
		tries := found.GetPendingWorkflowTask().GetAttempt()
		if tries < stuckAfter || strings.HasPrefix(o.Reason, receipt.RunStuck+": ") {
			return false, nil
		}
		reason = fmt.Sprintf("%s: no worker can continue the run: its workflow task failed %d times; the workers' log has the reason", receipt.RunStuck, tries)
		advice = "; if the flow has changed since the run started, `pawl events replay` ends the run and starts a new one"
	}
	reason += advice
	if o.Reason != "" {
		reason += "; it was " + string(o.Status) + ": " + o.Reason
	}
	// A run finishes its receipt before it ends. If the run ended between the two reads, the receipt has moved on and
	// ParkOpen does nothing.
	return d.cfg.Runs.ParkOpen(ctx, o, reason)
}

// terminated records who terminated o's run, and the reason. If the history cannot be read or is gone, it records only
// the termination.
func (d *Dispatcher) terminated(ctx context.Context, o run.Open,
	info *workflowpb.WorkflowExecutionInfo) (run.Intervention, error) {
	runID := info.GetExecution().GetRunId()
	found, ok, err := intervention.Find(ctx, d.cfg.Temporal, run.Terminated, o.WorkflowID, runID)
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
		return found, fmt.Errorf("read who terminated the run: %w", err) // the next search tries again
	}
	if !ok {
		found = run.Intervention{WorkflowID: o.WorkflowID, RunID: runID, What: run.Terminated,
			At: info.GetCloseTime().AsTime()}
	}
	found.ReceiptID = o.ReceiptID
	return found, d.cfg.Runs.Intervened(ctx, found)
}

// startAgain starts a run that Temporal no longer has, under its former ID.
func (d *Dispatcher) startAgain(ctx context.Context, o run.Open) error {
	in := runOf(o.Pending)
	in.Replay = &workflows.ReplayInput{Who: "pawl", Why: "Temporal had forgotten the run"}
	runID, _, err := d.execute(ctx, d.options(o.WorkflowID, in), in)
	if err != nil {
		return err
	}
	d.cfg.Log.Warn("Temporal had forgotten a run; it was started again", "workflow_id", o.WorkflowID, "run_id", runID,
		"receipt_id", o.ReceiptID)
	d.metrics.start(ctx, o.Provider, "restarted")
	return d.cfg.Runs.MarkStarted(ctx, run.Started{
		ReceiptID: o.ReceiptID, WorkflowID: o.WorkflowID, RunID: runID, StartedAt: d.cfg.Now(),
		Kind: run.Replay, RequestedBy: in.Replay.Who, Reason: in.Replay.Why,
	})
}
