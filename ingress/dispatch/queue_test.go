package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/workflows"
)

// slow simulates a Temporal that executes one start per tick.
type slow struct {
	*temporal
	tick <-chan time.Time
}

func (s slow) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	<-s.tick
	return s.temporal.ExecuteWorkflow(ctx, o, workflow, args...)
}

// More events arrive than the queue can start in time. The queue or the sweep starts each event once.
func TestRun_Overload_EachStartedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ticker := time.NewTicker(10 * time.Millisecond)
	t.Cleanup(ticker.Stop)
	var err error
	b.d, err = dispatch.New(dispatch.Config{Temporal: slow{b.temporal, ticker.C}, Receipts: b.store, Runs: b.starts, TaskQueue: "q", Every: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	b.run(t)
	const events = 700
	begun := time.Now()
	offer(t, b, events)
	eventually(t, "all are started", func() bool {
		backlog, err := b.store.Backlog(t.Context())
		return err == nil && backlog.Count == 0
	})
	b.temporal.set(func(tp *temporal) {
		if tp.calls > events*105/100 || tp.asked > 0 {
			t.Errorf("%d starts and %d questions for %d events", tp.calls, tp.asked, events)
		}
		if len(tp.runs) != events {
			t.Errorf("%d runs, want %d", len(tp.runs), events)
		}
	})
	t.Logf("%d events at 100/s took %s", events, time.Since(begun))
}

// offer commits n events in one delivery and offers them to the dispatcher.
func offer(t *testing.T, b *bench, n int) []receipt.Pending {
	t.Helper()
	d := receipt.Delivery{Source: "s", Provider: "stripe", ReceivedAt: time.Now()}
	for i := range n {
		d.Events = append(d.Events, receipt.New{Mode: "live", EventID: fmt.Sprint("evt_", i), Identity: receipt.ByID, Type: "invoice.paid", Status: receipt.Received, Body: []byte("{}")})
	}
	out, err := b.store.Insert(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	pending := make([]receipt.Pending, n)
	for i, o := range out {
		pending[i] = receipt.Pending{Ref: event.Ref{ReceiptID: o.ReceiptID, Provider: "stripe", Mode: "live", EventID: o.EventID, Type: "invoice.paid"}, ReceivedAt: d.ReceivedAt}
	}
	b.d.Offer(pending)
	return pending
}

// Receipts in the queue of a stopped dispatcher are due at once. A receipt whose lease has nearly expired is not
// changed, because another sweep may already have leased it.
func TestRun_Stopped_GivesBackItsQueue(t *testing.T) {
	t.Parallel()
	const events = 20
	for waited, want := range map[time.Duration]int{0: events, receipt.Lease: 0} {
		t.Run(waited.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			now := time.Now()
			var err error
			b.d, err = dispatch.New(dispatch.Config{Temporal: b.temporal, Receipts: b.store, Runs: b.starts, TaskQueue: "q", Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			offer(t, b, events)
			now = now.Add(waited)
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			b.d.Run(stopped)
			due, err := b.store.Due(t.Context(), 100)
			if err != nil || len(due) != want || b.temporal.calls != 0 {
				t.Errorf("%d receipts are due, %v, and %d were started; want %d and none", len(due), err, b.temporal.calls, want)
			}
		})
	}
}

func TestOffer_StartsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t)
	p := b.insert(t)
	b.d.Offer([]receipt.Pending{p})
	eventually(t, "processing", func() bool { return b.status(t, p.ReceiptID) == receipt.Processing })

	s, _ := b.temporal.get("stripe:evt_1")
	want := workflows.EventInput{Ref: event.Ref{ReceiptID: p.ReceiptID, Provider: "stripe", Mode: "live", EventID: "evt_1", Type: "invoice.paid", ObjectID: "in_1"}}
	if s.flow != "InvoicePaid" || s.in != want {
		t.Errorf("started %s with %+v, want InvoicePaid with %+v", s.flow, s.in, want)
	}
	if s.options.TaskQueue != "q" || s.options.StaticSummary != "invoice.paid in_1" || s.options.WorkflowExecutionTimeout != 0 || s.options.RetryPolicy != nil {
		t.Errorf("options %+v", s.options)
	}
	if want := "[This event in the console](https://pawl.example.com/events/" + p.ReceiptID + ")"; s.options.StaticDetails != want {
		t.Errorf("details %q, want %q", s.options.StaticDetails, want)
	}
	if got := s.options.WorkflowTaskTimeout; got <= 0 || got >= 10*time.Second {
		t.Errorf("workflow task time-out %s: the runs of a killed worker stop for that long", got)
	}
	attributes := s.options.TypedSearchAttributes
	if got, _ := attributes.GetKeyword(workflows.PawlReceipt); got != p.ReceiptID {
		t.Errorf("PawlReceipt %q, want %s", got, p.ReceiptID)
	}
	runs := b.runs(t, p.ReceiptID)
	if len(runs) != 1 || runs[0].RunID != s.runID || runs[0].WorkflowID != "stripe:evt_1" || runs[0].Kind != string(run.Original) {
		t.Errorf("runs %+v", runs)
	}
}

// A full queue drops receipts, and the sweep finds them in the table.
func TestOffer_Full_DoesNotBlock(t *testing.T) {
	t.Parallel()
	b := setup(t) // no dispatcher reads the queue
	p := b.insert(t)
	for range 5000 {
		b.d.Offer([]receipt.Pending{p})
	}
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Errorf("sweep: %d, %v; want 1", found, err)
	}
}
