package process

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// showWaiting shows on the receipt what an effect waits for. It informs, like showRetrying.
func (n *Node) showWaiting(ctx context.Context, c effect.Call, sink, words string, why effect.Hindrance) {
	reason := receipt.SinkBusy + ": " + sink + " " + words
	switch why {
	case effect.SinkOut:
		reason = run.OutReason(sink, words)
	case effect.SinkPaused:
		reason = run.PausedReason(sink, words)
	case effect.NotFirst:
		reason = receipt.WaitsForEntry + ": waits for " + words
	}
	n.showRetrying(ctx, c, reason)
}

// tellBack has the runs let in that wait for a sink. If nobody listens, they poll by themselves.
func (n *Node) tellBack(sink string) {
	select {
	case n.back <- sink:
	default:
	}
}

// letIn tells the runs that wait for a sink that it is back, a few after the other: this process has closed its
// breaker, or was the first to hear that its pause is over. If it dies meanwhile, they poll by themselves. It stops
// when the sink is out again, or paused.
func (n *Node) letIn(ctx context.Context, sink string, gate *effect.Gate) {
	n.log.InfoContext(ctx, "sink is back", "sink", sink)
	pace := rate.NewLimiter(rate.Limit(n.Breaking.Back), 1)
	// More than one pass: a run may have begun to wait while this one was under way, in a process that did not know
	// yet. Side by side, because one signal after the other takes longer than the pace allows where Temporal has much
	// to do.
	const passes, page, sideBySide = 5, 200, 8
	for range passes {
		told := 0
		for after := ""; ; {
			ids, waiting, err := n.Runs.WaitsForSink(ctx, sink, after, page)
			if err != nil {
				n.log.WarnContext(ctx, "cannot list the runs that wait for a sink", "sink", sink, "error", err)
				break
			}
			var telling errgroup.Group
			telling.SetLimit(sideBySide)
			for _, workflowID := range waiting {
				_, _, out := gate.Out()
				if _, paused := gate.Paused(); out || paused || pace.Wait(ctx) != nil {
					_ = telling.Wait() // tell has logged what failed
					return
				}
				telling.Go(func() error { n.tell(ctx, workflowID); return nil })
			}
			_ = telling.Wait()
			if told += len(waiting); len(waiting) < page {
				break
			}
			after = ids[len(ids)-1]
		}
		if told == 0 {
			return
		}
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// tell signals one run. One that has ended meanwhile needs nothing.
func (n *Node) tell(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := n.Temporal.SignalWorkflow(ctx, run, "", activities.SignalTryAgain, nil)
	var ended *serviceerror.NotFound
	if err != nil && !errors.As(err, &ended) {
		n.log.WarnContext(ctx, "cannot tell a run that its sink is back; it polls by itself later", "workflow_id", run,
			"error", err)
	}
}
