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

// resets records the runs that resets in Temporal make, and why they were made. A worker notices such a run at its
// first task, whatever state it was reset to: the run itself cannot say anything there that its copied history has
// not said. So this stands beside the workflows and changes nothing in them.
type resets struct {
	interceptor.WorkerInterceptorBase
	histories intervention.Histories
	record    func(context.Context, run.Intervention) error
	log       *slog.Logger

	mu sync.Mutex // guards what follows
	// noticed are the runs that this process has noticed: a run is begun anew whenever it has left the worker's cache.
	noticed map[string]struct{}
	waiting []run.Intervention
	wake    chan struct{}
}

func newResets(histories intervention.Histories, record func(context.Context, run.Intervention) error,
	log *slog.Logger) *resets {
	return &resets{histories: histories, record: record, log: log, noticed: map[string]struct{}{},
		wake: make(chan struct{}, 1)}
}

// mostNoticed bounds the remembered runs. A forgotten run is recorded again, which changes nothing.
const mostNoticed = 100_000

// notice has a run recorded soon. It does not wait.
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

// resetPause is how long a run waits that could not be recorded: Temporal or the database may be away.
const resetPause = 5 * time.Second

// run records the noticed runs until ctx ends.
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
					r.log.WarnContext(ctx, "a run was reset, and that is not recorded yet", "workflow_id",
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
		return nil // with its retention
	}
	if err != nil || !ok {
		return err // without an error, no reset has made it: another cluster has taken it over, say
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
