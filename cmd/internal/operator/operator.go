package operator

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/workflows"
)

// Operator is what decisions and questions need. DB and Audit are required; of the rest, each verb needs what its
// comment names.
type Operator struct {
	DB    *pgxpool.Pool
	Audit *audit.Store
	// Remote is set in a console. A worker then decides, previews and reads payloads for it; see
	// [Operator.ServeConsoles]. The other fields are for the worker.
	Remote bool
	// Temporal takes decisions about runs, and the runs of jobs on TaskQueue. Questions do without it.
	Temporal  Temporal
	TaskQueue string
	// Unstick has a run's next task go to any worker, with the run's whole history; see [Unstick]. nil leaves it out.
	Unstick func(ctx context.Context, workflowID string) error
	// Outlook begins a preview of a run; done ends it. Previews need it.
	Outlook func(context.Context) (outlook workflows.Outlook, done func(), err error)
	// Relays lists the consumers of each source that relays its events.
	Relays map[string][]string
	// Places lists what can be paused, by the kinds [Sink], [Consumer] and [Source].
	Places map[string][]string
	// Policy is what accounts are folded with.
	Policy fact.Policy
	// FourEyes is set if two people decide about live money.
	FourEyes bool
	// Verify checks a kept request again against its own receive time, as its source does, and returns the delivery
	// that a live one would have been. Its error says why the request is still refused.
	Verify func(context.Context, rejection.Rejection) (receipt.Delivery, error)
	// Insert takes deliveries in, as an ingress does.
	Insert func(context.Context, receipt.Delivery) ([]receipt.Outcome, error)
	// Asked are the sources with an api_key. Jobs that reconcile, and the schedules, ask them.
	Asked map[string]Asked
	// Signatures are the headers that sources name for signatures. Their values are never shown.
	Signatures []string
}

// Temporal is what an operator needs of Temporal; a client.Client.
type Temporal interface {
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	DescribeWorkflowExecution(ctx context.Context, workflowID,
		runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
}

// Unstick returns an [Operator]'s. Temporal sends the tasks of a run to the worker that had it in memory, with the new
// events only, even when that worker has let go of it since. The task of an update fails then, for want of the older
// events, and succeeds at the second try (temporalio/temporal#7741): the decision takes longer, and a failed task shows
// that nobody can mend.
func Unstick(c client.Client, namespace string) func(ctx context.Context, workflowID string) error {
	return func(ctx context.Context, workflowID string) error {
		_, err := c.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
			Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
		})
		return err
	}
}
