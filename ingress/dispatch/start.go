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

// errUnable means that Temporal is unavailable, so that no other start would succeed either.
var errUnable = errors.New("temporal is unavailable")

// start starts p's workflow and returns the run to record. It does not change the receipt, so after an error the sweep
// retries. The error wraps errUnable if Temporal is unavailable.
func (d *Dispatcher) start(ctx context.Context, p receipt.Pending) (run.Started, error) {
	in := runOf(p)
	ctx = p.Traced(ctx)
	failpoint.Hit("dispatch-before-start")
	if p.Rerun != nil {
		return d.startRerun(ctx, p, in)
	}
	// If a run with this ID exists, the search for lost runs checks within a minute that the run belongs to this
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
		// If its worker is killed during a task, a run makes no progress for this time. The SDK extends the task while
		// local activities run, so a slow effect is not interrupted.
		WorkflowTaskTimeout: taskTimeout,
		// With these two policies, a second start returns the error "already started" as long as Temporal has the
		// history of the first run. After that, the unique receipt prevents a second run.
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         d.cfg.Eager,
		StaticSummary:                            in.Summary(),
		StaticDetails:                            details,
		TypedSearchAttributes:                    in.SearchAttributes(),
	}
}

// manyRefused is the number of rejections in a row after which the namespace or pawl's requests must be faulty, and not
// the receipts. The dispatcher then stops parking receipts.
const manyRefused = 3

// execute starts one workflow. Its error wraps errUnable if Temporal accepts no starts.
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
		// Temporal has accepted other starts in the meantime, so only a part of it does not answer, for example a
		// history shard.
	case unable(err):
		err = fmt.Errorf("%w: %w", errUnable, err)
	}
	return "", false, err
}

// isRefusal reports whether Temporal rejected a start permanently.
func isRefusal(err error) bool {
	_, invalid := errors.AsType[*serviceerror.InvalidArgument](err)
	return invalid
}

// prepare registers pawl's search attributes. Concurrent calls register them once. Temporal accepts them some seconds
// later, and the sweep retries until then.
func (d *Dispatcher) prepare(ctx context.Context) error {
	if d.cfg.Prepare == nil || !d.preparing.TryLock() {
		return nil
	}
	defer d.preparing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	return d.cfg.Prepare(ctx)
}

// unregistered reports whether Temporal rejected a start because the namespace lacks one of pawl's search attributes.
// Temporal does so after its database was lost and the namespace was created again. Temporal 1.29 has no error type for
// this, only these texts: the first in a namespace with aliases, the second in a namespace without.
func unregistered(err error) bool {
	return isRefusal(err) && strings.Contains(strings.ToLower(err.Error()), "search attribute") &&
		(strings.Contains(err.Error(), "no mapping defined") || strings.Contains(err.Error(), "is not defined"))
}

// unable reports whether err means that no start can succeed: Temporal cannot be reached, is overloaded, or denies
// access. After any other error, the next start may succeed.
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
