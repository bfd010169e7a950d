// Package decide implements decisions of operators. It defines no verbs: [Operator].Verbs lists them.
//
// A decision is checked, recorded in the audit trail and made in one transaction. If [Operator.Decide] is called
// again with the same request ID, it repeats nothing. [Operator.Preview] runs the same check and rolls the change
// back. A decision about live money can need the approval of a second person. A console sends its decisions to a
// worker.
package decide

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/workflows"
)

// Operator holds the dependencies of reads and decisions. Verbs, DB and Audit are required. Each of the other fields
// is required by the verbs that its comment names.
type Operator struct {
	// Verbs lists the decisions that can be made.
	Verbs Verbs
	DB    *pgxpool.Pool
	Audit *audit.Store
	// Remote is set in a console process. A worker then decides, previews and reads payloads for it; see
	// [Operator.ServeConsoles]. Only the worker needs the fields below.
	Remote bool
	// Temporal receives decisions about runs, and starts the runs of jobs on TaskQueue. Reads do not need it.
	Temporal  Temporal
	TaskQueue string
	// Unstick, if set, resets the sticky task queue of a run before an update; see [Unstick].
	Unstick func(ctx context.Context, workflowID string) error
	// Outlook starts the preview of a run. The caller ends the preview with done.
	Outlook func(context.Context) (outlook workflows.Outlook, done func(), err error)
	// Relays returns the destinations of a source that select a type. Their conditions can still exclude an event. It
	// may be nil.
	Relays func(source, eventType string) []string
	// FlowOf returns the name of the flow in the configuration that handles a type of a source, or "". It may be nil.
	FlowOf func(source, eventType string) string
	// Places lists the targets that can be paused, by kind: [Sink] and [Source].
	Places map[string][]string
	// Policy is the configured billing policy.
	Policy fact.Policy
	// CancelCompensates is set if policy.on_workflow_cancel is compensate.
	CancelCompensates bool
	// FourEyes is set if decisions about live money need two people.
	FourEyes bool
	// Verify checks a stored request as its source would have checked it at the time of receipt. Verify returns the
	// delivery, or the reason why the source still rejects the request.
	Verify func(context.Context, rejection.Rejection) (receipt.Delivery, error)
	// Insert stores a delivery as an ingress does.
	Insert func(context.Context, receipt.Delivery) ([]receipt.Outcome, error)
	// APIs holds the sources with an API key. Reconciliation uses them.
	APIs map[string]APISource
	// Signatures lists the configured signature headers. Their values are never shown.
	Signatures []string
}

// APISource is a source with a key for the provider's API. Background work uses its requests.
type APISource struct {
	API *stripe.Client
	// Mode is the mode of the source. Empty means both modes.
	Mode string
}

// Background returns a client with few retries, because a job or a schedule tries again later.
func (s APISource) Background() *stripe.Client {
	return s.API.With(stripe.Patience{Tries: 4, First: time.Second})
}

// Live is the mode in which real money moves.
const Live = "live"

// Temporal is the part of client.Client that an operator uses.
type Temporal interface {
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	DescribeWorkflowExecution(ctx context.Context, workflowID,
		runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
}

// Unstick returns a function for [Operator].Unstick. The function resets the sticky task queue of a run, so that any
// worker gets the complete history. Without the reset, Temporal sends only the new events to the worker that had the
// run in its cache. If that worker has evicted the run, the workflow task of an update fails, and only the second
// attempt succeeds: https://github.com/temporalio/temporal/issues/7741.
func Unstick(c client.Client, namespace string) func(ctx context.Context, workflowID string) error {
	return func(ctx context.Context, workflowID string) error {
		_, err := c.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
			Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
		})
		return err
	}
}

// The kinds of targets that can be paused. A destination is paused like a sink.
const (
	Sink   = "sink"
	Source = "source"
)
