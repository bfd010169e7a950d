package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/schema/failpoint"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// errUnable marks a failure of Temporal, or of the connection to it, rather than of one start.
var errUnable = errors.New("temporal is unavailable")

// start starts p's workflow and returns the run to record. An error leaves the receipt unchanged, for the sweep. The
// error wraps errUnable if no other start would succeed either.
func (d *Dispatcher) start(ctx context.Context, p receipt.Pending) (run.Started, error) {
	in := runOf(p)
	ctx = p.Traced(ctx)
	failpoint.Hit("dispatch-before-start")
	if p.Rerun != nil {
		return d.startRerun(ctx, p, in)
	}
	// If the ID was started before, the search for lost runs checks within a minute that the run belongs to this
	// receipt.
	workflowID := cmp.Or(p.WorkflowID, in.ID())
	runID, already, err := d.execute(ctx, d.options(workflowID, in), in)
	if err != nil {
		outcome := "failed"
		if isRefusal(err) {
			outcome = "refused"
		}
		d.metrics.start(ctx, p.Provider, outcome)
		return run.Started{}, fmt.Errorf("start %s: %w", in.ID(), err)
	}
	d.down.Store(false)
	if already {
		d.metrics.start(ctx, p.Provider, "already_started")
	} else {
		d.metrics.start(ctx, p.Provider, "started")
		d.cfg.Log.Info("run started", p.Log("source", p.Source, "workflow_id", workflowID, "run_id", runID)...)
		d.metrics.lag.Record(ctx, d.cfg.Now().Sub(p.ReceivedAt).Seconds())
	}
	failpoint.Hit("dispatch-after-start")
	return run.Started{ReceiptID: p.ReceiptID, WorkflowID: workflowID, RunID: runID, StartedAt: d.cfg.Now()}, nil
}

func (d *Dispatcher) options(workflowID string, in workflows.EventInput) client.StartWorkflowOptions {
	details := ""
	if page := d.cfg.Page(in.ReceiptID); page != "" {
		details = "[This event in the console](" + page + ")"
	}
	return client.StartWorkflowOptions{
		ID:        workflowID,
		TaskQueue: d.cfg.TaskQueue,
		// A run makes no progress for this long if its worker is killed in the middle of a task. The SDK keeps a task
		// alive while its local activities run, so a slow effect is not cut off.
		WorkflowTaskTimeout: taskTimeout,
		// Both together: one run per event while Temporal keeps its history, and an "already started" error instead of
		// the handle of another run. The unique receipt deduplicates for longer.
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         d.cfg.Eager,
		StaticSummary:                            in.Summary(),
		StaticDetails:                            details,
		TypedSearchAttributes:                    in.SearchAttributes(),
	}
}

// manyRefused is how many rejections in a row show a fault of the namespace or of pawl's requests rather than of the
// receipts. The receipts before the last one have been parked by then.
const manyRefused = 3

// execute makes one start. Its error wraps errUnable if Temporal accepts no starts.
func (d *Dispatcher) execute(ctx context.Context, options client.StartWorkflowOptions,
	in workflows.EventInput) (runID string, already bool, err error) {
	taken := d.taken.Load()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	run, err := d.cfg.Temporal.ExecuteWorkflow(starting, options, in.Flow(), in)
	started, already := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	switch {
	case err == nil, already:
		d.taken.Add(1)
		d.refused.Store(0)
		if already {
			return started.RunId, true, nil
		}
		return run.GetRunID(), false, nil
	case unregistered(err):
		return "", false, fmt.Errorf("%w: %w", errUnable, errors.Join(err, d.prepare(ctx)))
	case isRefusal(err):
		if d.refused.Add(1) >= manyRefused {
			err = fmt.Errorf("%w: it rejects every start: %w", errUnable, err)
		}
	case serviceerror.ToStatus(err).Code() == codes.DeadlineExceeded && d.taken.Load() > taken:
		// One part of Temporal does not answer (some of its history shards, for example): it has accepted other starts
		// meanwhile.
	case unable(err):
		err = fmt.Errorf("%w: %w", errUnable, err)
	}
	return "", false, err
}

// isRefusal reports whether Temporal rejected a start for good.
func isRefusal(err error) bool {
	_, invalid := errors.AsType[*serviceerror.InvalidArgument](err)
	return invalid
}

// prepare registers the search attributes of the starts. Concurrent calls register once. Every part of Temporal has
// them some seconds later; receipts wait meanwhile.
func (d *Dispatcher) prepare(ctx context.Context) error {
	if d.cfg.Prepare == nil || !d.preparing.TryLock() {
		return nil
	}
	defer d.preparing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	return d.cfg.Prepare(ctx)
}

// unregistered reports whether the namespace lacks one of pawl's search attributes, for example because it was created
// again after Temporal's database was lost. The rejected event is not at fault. Temporal (1.29) has no error type for
// this, only these texts: the first in a namespace with aliases, the second in one without.
func unregistered(err error) bool {
	return isRefusal(err) && strings.Contains(strings.ToLower(err.Error()), "search attribute") &&
		(strings.Contains(err.Error(), "no mapping defined") || strings.Contains(err.Error(), "is not defined"))
}

// unable reports whether err concerns Temporal as a whole: it cannot be reached, is overloaded, or denies access. Any
// other error concerns one start, and the next one may succeed.
func unable(err error) bool {
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled,
		codes.NotFound, codes.FailedPrecondition, // the namespace is missing
		codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	_, unreachable := errors.AsType[net.Error](err)
	return unreachable
}
