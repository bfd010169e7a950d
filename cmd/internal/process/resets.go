package process

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities/intervention"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// resets records runs that a reset in Temporal created, with the reason of the reset. A worker detects such a run at
// its first workflow task. The run itself cannot record the reset, because it replays a copied history. resets is
// therefore an interceptor, and workflows do not change.
type resets struct {
	interceptor.WorkerInterceptorBase
	histories intervention.Histories
	record    func(context.Context, run.Intervention) error
	log       *slog.Logger

	mu sync.Mutex // guards the fields below
	// noticed contains the runs that were detected before. A run that has left the cache of the worker replays from the
	// start and would be detected again.
	noticed map[string]struct{}
	waiting []run.Intervention
	wake    chan struct{}
}

func newResets(histories intervention.Histories, record func(context.Context, run.Intervention) error,
	log *slog.Logger) *resets {
	return &resets{histories: histories, record: record, log: log, noticed: map[string]struct{}{},
		wake: make(chan struct{}, 1)}
}

// mostNoticed limits the size of noticed. If a run is removed from noticed, the run is recorded again, which changes
// nothing.
const mostNoticed = 100_000

// notice queues a run to be recorded, without waiting.
func (r *resets) notice(receiptID string, made workflow.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.noticed[made.RunID]; ok {
		return
	}
	if len(r.noticed) >= mostNoticed {
		clear(r.noticed)
	}
	r.noticed[made.RunID] = struct{}{}
	r.waiting = append(r.waiting, run.Intervention{ReceiptID: receiptID, WorkflowID: made.ID, RunID: made.RunID})
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// resetPause is the wait after a failure to record a run, because Temporal or the database may be down.
const resetPause = 5 * time.Second

// run records the detected runs until ctx ends.
func (r *resets) run(ctx context.Context) {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		waiting := r.waiting
		r.waiting = nil
		r.mu.Unlock()
		for _, made := range waiting {
			for tries := 1; ctx.Err() == nil; tries++ {
				err := r.note(ctx, made)
				if err == nil {
					break
				}
				if tries == 1 {
					r.log.WarnContext(ctx, "the reset of a run is not recorded yet", "workflow_id",
						made.WorkflowID, "run_id", made.RunID, "error", err)
				}
				select {
				case <-time.After(resetPause):
				case <-ctx.Done():
				}
			}
		}
	}
}

func (r *resets) note(ctx context.Context, made run.Intervention) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, ok, err := intervention.Find(ctx, r.histories, run.WasReset, made.WorkflowID, made.RunID)
	if gone := new(serviceerror.NotFound); errors.As(err, &gone) {
		return nil // Temporal has deleted the run
	}
	if err != nil || !ok {
		return err // if err is nil, no reset created the run (a failover to another cluster may have, for example)
	}
	found.ReceiptID = made.ReceiptID
	return r.record(ctx, found)
}

// InterceptWorkflow implements [interceptor.WorkerInterceptor].
func (r *resets) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	i := &noticing{resets: r}
	i.Next = next
	return i
}

type noticing struct {
	interceptor.WorkflowInboundInterceptorBase
	resets *resets
}

// ExecuteWorkflow implements [interceptor.WorkflowInboundInterceptor].
func (i *noticing) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if info := workflow.GetInfo(ctx); info.OriginalRunID != info.WorkflowExecution.RunID && len(in.Args) > 0 {
		if event, ok := in.Args[0].(workflows.EventInput); ok {
			i.resets.notice(event.ReceiptID, info.WorkflowExecution)
		}
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}
