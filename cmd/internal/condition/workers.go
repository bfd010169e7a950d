package condition

import (
	"context"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/notice"
	"github.com/pawlhq/pawl/schema/receipt"
)

const (
	// askAfter is how long an event may wait before pawl checks for workers. A run normally takes milliseconds.
	askAfter = time.Minute
	// idleAfter is how long an event may wait before people are notified that no worker polls.
	idleAfter = 3 * time.Minute
	// askTemporal is the timeout of the check for workers. A short timeout keeps the report fast if Temporal is
	// unavailable.
	askTemporal = 3 * time.Second
	// QuietPoller is the maximum age of the last poll of a running worker, because a poll lasts up to a minute.
	QuietPoller = 90 * time.Second
)

// noWorker is the kind of condition that events wait on a task queue that no worker polls. If Temporal is unavailable,
// people are notified by the kind unstarted.
var noWorker = Kind{
	Name: "no-worker", Runbook: "no-worker",
	read: func(ctx context.Context, r Reader) ([]notice.Condition, error) {
		open, err := receipt.NewReader(r.DB).Waiting(ctx, nil)
		count, oldest := 0, 0.0
		for _, w := range open {
			if w.Status == receipt.Received || w.Status == receipt.Processing {
				count, oldest = count+w.Count, max(oldest, w.Seconds)
			}
		}
		waited := time.Duration(oldest * float64(time.Second))
		if err != nil || waited < askAfter {
			return nil, err
		}
		since := r.now.Add(-waited)
		c := notice.Condition{Name: r.TaskQueue, Since: since, Count: count, Command: "doctor"}
		switch worked, err := worked(ctx, r.Operator); {
		case err != nil:
			c.Message, c.Detail = "Temporal does not answer", TemporalSays(err)
			c.Severity, c.Runbook = notice.Info, unstarted.Runbook
		case worked:
			return nil, nil
		default:
			c.Message = "no worker polls the task queue: start pawl worker, or pawl ingress --worker"
			c.Severity = r.after(idleAfter, since, notice.Page)
		}
		return []notice.Condition{c}, nil
	},
	Alerts: []Alert{
		{
			Name: "PawlNobodyWorks", Severity: "page", For: "2m",
			Comment: "Workers run and do not poll: their namespace was deleted, or Temporal rejects them. PawlCountsNothing covers the case without any worker.",
			Expr: `max(pawl_receipts_oldest_seconds{status=~"received|processing"}) > 60
unless
sum(temporal_num_pollers{poller_type="workflow_task"}) > 0`,
			Summary: "An event has waited {{ $value | humanizeDuration }}, and no worker polls",
			Cost:    "Customers who have paid wait for their access",
		},
	},
}

// polled is the part of Temporal's client.Client that returns the pollers of a task queue.
type polled interface {
	DescribeTaskQueue(ctx context.Context, queue string,
		kind enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

// worked reports whether a worker polls the task queue. It returns an error if Temporal is unavailable.
func worked(ctx context.Context, o *decide.Operator) (bool, error) {
	queues, ok := o.Temporal.(polled)
	if !ok {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTemporal)
	defer cancel()
	described, err := queues.DescribeTaskQueue(ctx, o.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	return err == nil && slices.ContainsFunc(described.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
		return time.Since(p.GetLastAccessTime().AsTime()) <= QuietPoller
	}), err
}

// TemporalSays returns the error of Temporal as one line.
func TemporalSays(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || serviceerror.ToStatus(err).Code() == codes.DeadlineExceeded {
		return "no answer in time"
	}
	return output.FirstLine(err)
}
