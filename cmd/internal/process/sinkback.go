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

// showWaiting stores in the receipt that an effect waits for a sink. It is for information only, like showRetrying.
func (n *Node) showWaiting(ctx context.Context, c effect.Call, sink, words string, why effect.Hindrance) {
	reason := receipt.SinkBusy + ": " + sink + " " + words
	switch why {
	case effect.SinkOut:
		reason = run.DownReason(sink, words)
	case effect.SinkPaused:
		reason = run.PausedReason(sink, words)
	case effect.NotFirst:
		reason = receipt.WaitingForEntry + ": waits for " + words
	}
	n.showRetrying(ctx, c, reason)
}

// notifyRecovered starts resume for a sink. Runs that are not resumed poll by themselves.
func (n *Node) notifyRecovered(sink string) {
	select {
	case n.back <- sink:
	default:
	}
}

// resume wakes the runs that wait for a sink after the sink has recovered, a few at a time. It runs in the process that
// closed the breaker, or in the first process that noticed the end of the pause. If this process dies, the runs poll by
// themselves. resume stops if the sink is down or paused again.
func (n *Node) resume(ctx context.Context, sink string, gate *effect.Gate) {
	n.log.InfoContext(ctx, "sink has recovered", "sink", sink)
	pace := rate.NewLimiter(rate.Limit(n.Breaking.Back), 1)
	// More than one pass is needed, because a run may start to wait during a pass, in a process that does not know
	// the new state yet. Several runs are signalled at once, because a busy Temporal takes too long for each.
	const passes, page, sideBySide = 5, 200, 8
	for range passes {
		told := 0
		for after := ""; ; {
			ids, waiting, err := n.Runs.WaitsForSink(ctx, sink, after, page)
			if err != nil {
				n.log.WarnContext(ctx, "cannot list the runs that wait for a sink", "sink", sink, "error", err)
				break
			}
			var signals errgroup.Group
			signals.SetLimit(sideBySide)
			for _, workflowID := range waiting {
				_, _, out := gate.Out()
				if _, paused := gate.Paused(); out || paused || pace.Wait(ctx) != nil {
					_ = signals.Wait() // signal has logged the failures
					return
				}
				signals.Go(func() error { n.signal(ctx, workflowID); return nil })
			}
			_ = signals.Wait()
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

// signal wakes one run. It ignores a run that has ended meanwhile.
func (n *Node) signal(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := n.Temporal.SignalWorkflow(ctx, run, "", activities.SignalTryAgain, nil)
	var ended *serviceerror.NotFound
	if err != nil && !errors.As(err, &ended) {
		n.log.WarnContext(ctx, "cannot signal a run after its sink recovered; it polls later", "workflow_id", run,
			"error", err)
	}
}
