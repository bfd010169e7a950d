package process

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// showWaiting shows on the receipt that an effect waits for its sink. It informs, like showRetrying.
func (n *Node) showWaiting(ctx context.Context, c effect.Call, sink, words string, out bool) {
	reason := receipt.SinkBusy + ": " + sink + " " + words
	if out {
		reason = receipt.OutReason(sink, words)
	}
	n.showRetrying(ctx, c, reason)
}

// tellBack has the runs let in that wait for a sink. Where nobody listens, they look for themselves.
func (n *Node) tellBack(sink string) {
	select {
	case n.back <- sink:
	default:
	}
}

// letIn tells the runs that wait for a sink that it is back, a few after the other: this process has closed its breaker.
// Where it dies over that, they look for themselves. It stops when the sink is out again.
func (n *Node) letIn(ctx context.Context, sink string, gate *effect.Gate) {
	n.log.InfoContext(ctx, "sink is back", "sink", sink)
	pace := rate.NewLimiter(rate.Limit(n.Breaking.Back), 1)
	// More than one pass: a run may have begun to wait while this one was under way, in a process that did not know yet.
	const passes, page = 5, 200
	for range passes {
		told := 0
		for after := ""; ; {
			ids, runs, err := n.Receipts.WaitsForSink(ctx, sink, after, page)
			if err != nil {
				n.log.WarnContext(ctx, "cannot list the runs that wait for a sink", "sink", sink, "error", err)
				break
			}
			for _, run := range runs {
				if _, _, out := gate.Out(); out || pace.Wait(ctx) != nil {
					return
				}
				n.tell(ctx, run)
			}
			if told += len(runs); len(runs) < page {
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
	err := n.Temporal.SignalWorkflow(ctx, run, "", workflows.SignalSinkBack, nil)
	var ended *serviceerror.NotFound
	if err != nil && !errors.As(err, &ended) {
		n.log.WarnContext(ctx, "cannot tell a run that its sink is back; it looks for itself later", "workflow_id", run, "error", err)
	}
}
