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

// errUnable marks a failure of Temporal as a whole, or of the way to it, rather than of one start.
var errUnable = errors.New("temporal is unable")

// start starts p's workflow and returns what is to be recorded of it. An error leaves the receipt as it
// is, for the sweep; it is errUnable where no other start would fare better.
func (d *Dispatcher) start(ctx context.Context, p receipt.Pending) (run.Started, error) {
	in := runOf(p)
	failpoint.Hit("dispatch-before-start")
	if p.Rerun != nil {
		return d.startRerun(ctx, p, in)
	}
	// Where it has been started before, the search for lost runs finds out within a minute whether that run is its own.
	workflowID := cmp.Or(p.WorkflowID, in.ID())
	runID, already, err := d.executeAs(ctx, workflowID, in.Flow(), in)
	if err != nil {
		outcome := "failed"
		if refused(err) {
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
		d.metrics.lag.Record(ctx, d.cfg.Now().Sub(p.ReceivedAt).Seconds())
	}
	failpoint.Hit("dispatch-after-start")
	return run.Started{ReceiptID: p.ReceiptID, WorkflowID: workflowID, RunID: runID, StartedAt: d.cfg.Now()}, nil
}

func eventInput(p receipt.Pending) workflows.EventInput {
	return workflows.EventInput{Ref: p.Ref}
}

// executeAs is one start under workflowID. Its error wraps errUnable where Temporal as a whole takes no starts.
func (d *Dispatcher) executeAs(ctx context.Context, workflowID, flow string, in workflows.EventInput) (runID string, already bool, err error) {
	return d.executeWith(ctx, d.options(workflowID, in), flow, in)
}

func (d *Dispatcher) options(workflowID string, in workflows.EventInput) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:        workflowID,
		TaskQueue: d.cfg.TaskQueue,
		// How long a run stands still when its worker is killed in the middle of a task. The SDK keeps
		// a task alive for as long as its local activities run, so a slow effect is not cut off.
		WorkflowTaskTimeout: taskTimeout,
		// Together: one run per event for as long as Temporal remembers, and "already started" comes
		// back as an error instead of somebody else's run. The unique receipt remembers for longer.
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		EnableEagerStart:                         d.cfg.Eager,
		StaticSummary:                            in.Summary(),
		TypedSearchAttributes:                    in.SearchAttributes(),
	}
}

func (d *Dispatcher) executeWith(ctx context.Context, options client.StartWorkflowOptions, flow string, in workflows.EventInput) (runID string, already bool, err error) {
	answered := d.answered.Load()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	run, err := d.cfg.Temporal.ExecuteWorkflow(starting, options, flow, in)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		d.answered.Add(1)
		d.refusals.end()
		return run.GetRunID(), false, nil
	case errors.As(err, &started):
		d.answered.Add(1)
		d.refusals.end()
		return started.RunId, true, nil
	case unregistered(err):
		return "", false, fmt.Errorf("%w: %w", errUnable, errors.Join(err, d.prepare(ctx)))
	case timedOut(err) && !d.silent(answered):
		return "", false, err
	case unable(err):
		return "", false, fmt.Errorf("%w: %w", errUnable, err)
	case refused(err) && d.refusedAlike(in.ReceiptID, err.Error()):
		return "", false, fmt.Errorf("%w: it refuses every start alike: %w", errUnable, err)
	}
	return "", false, err
}

// prepare registers what starts need, once however many of them have found that it is missing. What is registered
// is known to every part of Temporal some seconds later; receipts wait meanwhile.
func (d *Dispatcher) prepare(ctx context.Context) error {
	if d.cfg.Prepare == nil || !d.preparing.TryLock() {
		return nil
	}
	defer d.preparing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	return d.cfg.Prepare(ctx)
}

// unregistered reports whether the namespace does not know one of our search attributes: it was made anew, with
// Temporal's database lost, say. That is no fault of the event whose start is refused for it. Temporal (1.29) tells
// it by these words only: the first where a namespace has aliases, the second where it has none.
func unregistered(err error) bool {
	var invalid *serviceerror.InvalidArgument
	if !errors.As(err, &invalid) {
		return false
	}
	says := strings.ToLower(invalid.Error())
	for _, key := range workflows.SearchAttributeKeys() {
		name := strings.ToLower(key.GetName())
		if strings.Contains(says, "no mapping defined for search attribute "+name) || strings.Contains(says, "search attribute "+name+" is not defined") {
			return true
		}
	}
	return false
}

// timedOut reports whether Temporal gave no answer in time. Where a part of it hangs (some of its history shards,
// say), so do the starts that this part would take, and no others.
func timedOut(err error) bool { return serviceerror.ToStatus(err).Code() == codes.DeadlineExceeded }

// silent notes that a start has timed out; answered is how many starts had been answered when it began. It reports
// whether Temporal as a whole gives no answers, for which it takes two starts in a row: none was answered while this
// one waited, and another one had timed out at the same count. A single one may have met the part that hangs.
func (d *Dispatcher) silent(answered int64) bool {
	return d.answered.Load() == answered && d.timedOutAt.Swap(answered) == answered
}

// unable reports whether err tells of Temporal as a whole: it cannot be reached, is overloaded, or does
// not let us in; of a start that has timed out, see silent first. Whatever else went wrong went wrong for
// one start, and the next may fare better.
func unable(err error) bool {
	var connection net.Error
	var notActive *serviceerror.NamespaceNotActive
	var invalidState *serviceerror.NamespaceInvalidState
	var oldClient *serviceerror.ClientVersionNotSupported
	var oldServer *serviceerror.ServerVersionNotSupported
	switch serviceerror.ToStatus(err).Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Canceled,
		codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented: // NotFound: the namespace
		return true
	}
	return errors.As(err, &connection) || errors.As(err, &notActive) || errors.As(err, &invalidState) ||
		errors.As(err, &oldClient) || errors.As(err, &oldServer)
}
