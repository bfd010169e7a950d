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
	// searchEvery is the pause between searches for lost runs. A run is searched for after it recorded nothing for
	// the time quiet. So a run that a person terminated is noticed within a minute.
	searchEvery = 25 * time.Second
	quiet       = 30 * time.Second
	// listPage is the most that Temporal gives at once. By default it answers ten lists a second for all clients
	// together: pageEvery leaves more than half of them to the people at the Temporal UI.
	listPage    = 1000
	pageEvery   = 250 * time.Millisecond
	listTimeout = 10 * time.Second
	// mostMissing bounds the runs that one search checks, each by a request of its own. After a search that found
	// something, the next one follows at once.
	mostMissing = 1000
	// sample is how many working receipts, and how many parked ones, are checked although Temporal lists their runs.
	sample = 50
	// checkers check runs side by side. checkFailures in a row end a search: each takes startTimeout when Temporal
	// does not answer.
	checkers      = 4
	checkFailures = 3
	// stuckAfter is how many failed tries of a workflow task mean that the next one will fail, too. Temporal makes as
	// many in a minute and a half; the replacement of a worker, or a deployment of two versions, costs fewer.
	stuckAfter = 7
)

// search goes on finding lost runs until ctx ends.
func (d *Dispatcher) search(ctx context.Context) {
	pause := searchEvery
	// The random part keeps several processes from searching at the same time.
	for wait(ctx, pause/2+rand.N(pause/2+1)) {
		mended, err := d.SearchOnce(ctx, quiet)
		if err == nil && mended > 0 {
			pause = 0 // there may be more
			continue
		}
		pause = searchEvery
		_, closely := d.SearchSample(ctx, quiet)
		if err := errors.Join(err, closely); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("cannot search for lost runs", "error", err)
		}
	}
}

// SearchOnce searches for runs that ended without finishing their receipt, and returns how many it repaired. A
// receipt is suspect if its run recorded nothing for the time quiet and Temporal does not list the run as running.
// The cost grows with the number of open runs, not with the number of lost ones. A list that lags makes a healthy run
// suspect, so each suspect's run is checked itself.
//
// A run that Temporal no longer knows (its database was lost, or restored from an older copy) is started again: the
// ledger keeps its effects from being done twice. A receipt whose run recorded its end goes back to that outcome. A
// run that ended without finishing its receipt, from outside or by itself, parks the receipt, since nobody else would
// finish it. A run that a person ended is not started again when Temporal's retention is over.
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
	for id := range missing { // in no order, so that those which cannot be checked hide no others
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

// SearchSample checks some receipts whose runs recorded nothing for the time quiet, even if Temporal lists the runs
// as running, and returns how many it repaired. It chooses them at random, so that it comes to each run whose end the
// list never learns. It also finds runs that no worker can continue, because their flow was changed under them. It
// parks their receipts, which would otherwise show the state before that for ever.
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

// checkAll checks the runs of open and returns how many it mended. A failed check does not stop the others; several
// in a row mean that Temporal as a whole does not answer, and end the search.
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

// check looks at the run of o in Temporal and repairs o's receipt if the two differ.
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

// settle writes to o's receipt that the run has ended, or that no worker can continue it: the run itself cannot any
// more.
func (d *Dispatcher) settle(ctx context.Context, o run.Open,
	found *workflowservice.DescribeWorkflowExecutionResponse) (settled bool, err error) {
	var reason string
	advice := "; `pawl events replay` goes on with a new run"
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
		// A worker that was stopped for a while may finish a task that another worker has finished meanwhile, and so
		// park the receipt after the run has ended. The outcome that the run recorded counts.
		settled, err := d.cfg.Runs.SettleOpen(ctx, o, found.GetWorkflowExecutionInfo().GetExecution().GetRunId())
		if settled || err != nil {
			return settled, err
		}
		reason = receipt.RunEnded + ": the run is complete and has not finished this receipt"
	default:
		tries := found.GetPendingWorkflowTask().GetAttempt()
		if tries < stuckAfter || strings.HasPrefix(o.Reason, receipt.RunStuck+": ") {
			return false, nil
		}
		reason = fmt.Sprintf("%s: no worker can go on with the run: its workflow task was tried %d times, and the workers' log says why it fails", receipt.RunStuck, tries)
		advice = "; where the run is older than the flow, `pawl events replay` ends it and goes on with a new one"
	}
	reason += advice
	if o.Reason != "" {
		reason += "; it was " + string(o.Status) + ": " + o.Reason
	}
	// A run finishes its receipt before it ends: one that ended between the two reads has moved it.
	return d.cfg.Runs.ParkOpen(ctx, o, reason)
}

// terminated records who terminated o's run, and why. If the history may not be read or is gone, it records only that
// the run was terminated.
func (d *Dispatcher) terminated(ctx context.Context, o run.Open,
	info *workflowpb.WorkflowExecutionInfo) (run.Intervention, error) {
	runID := info.GetExecution().GetRunId()
	found, ok, err := intervention.Find(ctx, d.cfg.Temporal, run.Terminated, o.WorkflowID, runID)
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled:
		return found, fmt.Errorf("read who terminated it: %w", err) // the next search may
	}
	if !ok {
		found = run.Intervention{WorkflowID: o.WorkflowID, RunID: runID, What: run.Terminated,
			At: info.GetCloseTime().AsTime()}
	}
	found.ReceiptID = o.ReceiptID
	return found, d.cfg.Runs.Intervened(ctx, found)
}

// startAgain starts a run that Temporal has forgotten, under the ID that it had.
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
