package flowtest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric/noop"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

// A run is reset while its worker executes a local activity. The worker does not learn of the reset. It continues and
// finishes the old run after the new run has parked. The receipt must show that the new run waits for a person.
func TestReset_WorkerGoesOnWithTheOldRun_ReceiptShowsTheNewOne(t *testing.T) {
	t.Parallel()
	c := dialTemporal(t)
	pool := schematest.New(t)
	receipts := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	defer receipts.Close()
	eventID := "evt_" + uuid.NewString()[:8] // the server remembers workflow IDs if a test runs more than once
	kept, err := receipts.Insert(t.Context(), receipt.Delivery{Source: "github", Provider: "github", ReceivedAt: time.Now(),
		Events: []receipt.New{{Mode: "live", EventID: eventID, Identity: receipt.ByID, Type: "push", Status: receipt.Received, Body: []byte("{}")}}})
	if err != nil {
		t.Fatal(err)
	}
	id := kept[0].ReceiptID

	measures, err := activities.NewMeasures(noop.Meter{}, workflows.Written)
	if err != nil {
		t.Fatal(err)
	}
	queue := "outrun-" + uuid.NewString()
	w := worker.New(c, queue, worker.Options{})
	workflows.Register(w)
	starts := run.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	defer starts.Close()
	book := ledger.New(pool, groupcommit.Config{})
	defer book.Close()
	runs := &activities.Runs{Log: slog.New(slog.DiscardHandler), Receipts: receipts, Runs: starts, Ledger: book, Audit: audit.New(pool, slog.New(slog.DiscardHandler)), Measures: measures}
	named := func(name string, f any) { w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	named("ParkRun", runs.ParkRun)
	named("RecordDecision", runs.RecordDecision)
	named("SkipEffect", runs.SkipEffect)
	named("WakeWaiting", runs.WakeWaiting)
	loading, goOn, finished := make(chan struct{}), make(chan struct{}), make(chan string, 2)
	named("FinishRun", func(ctx context.Context, in activities.FinishRunInput) (activities.FinishRunResult, error) {
		result, err := runs.FinishRun(ctx, in)
		finished <- activity.GetInfo(ctx).WorkflowExecution.RunID
		return result, err
	})
	var first string
	named("LoadRelay", func(ctx context.Context, _ activities.LoadRelayInput) (activities.LoadRelayResult, error) {
		if activity.GetInfo(ctx).WorkflowExecution.RunID != first {
			return activities.LoadRelayResult{Code: "no_destination", Reason: "nowhere to go"}, nil
		}
		close(loading)
		<-goOn
		return activities.LoadRelayResult{}, nil // no destination is configured, so the run finishes at once
	})

	in := workflows.EventInput{Ref: event.Ref{ReceiptID: id, Provider: "github", Mode: "live", EventID: eventID, Type: "push"}}
	begun, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: in.ID(), TaskQueue: queue}, in.Flow(), in)
	if err != nil {
		t.Fatal(err)
	}
	first = begun.GetRunID()
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	<-loading

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	again := resetTo(ctx, t, c, in.ID(), firstStarted)
	stands := func() (s string) {
		if err := pool.QueryRow(ctx, `select concat_ws(' ', status, reason) from receipts where id = $1`, id).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	fence := func() (at time.Time) {
		if err := pool.QueryRow(ctx, `select fence from receipts where id = $1`, id).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	// started returns the time when the last workflow task of the new run started.
	started := func() (at time.Time) {
		events := c.GetWorkflowHistory(ctx, in.ID(), again, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_STARTED {
				at = e.EventTime.AsTime().Truncate(time.Microsecond)
			}
		}
		return at
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("waited in vain until %s; the receipt is %s", what, stands())
			}
		}
	}
	// next waits for the end of the next run. This takes up to one heartbeat interval of the worker, which then
	// abandons the old run.
	next := func() string {
		select {
		case run := <-finished:
			return run
		case <-ctx.Done():
			return ""
		}
	}
	const parked = "needs_review no_destination: nowhere to go"
	until("the new run is parked", func() bool { return stands() == parked })
	close(goOn)
	if got := next(); got != first {
		t.Fatalf("run %q has finished, want the old one", got)
	}
	if got := stands(); got != parked {
		t.Errorf("the old run was finished, and the receipt is %s; want %s", got, parked)
	}

	// A receipt's status stores the start time of its workflow task, in Temporal's time, and rejects changes from
	// earlier tasks. Later statuses of the new run have later times.
	if got, want := fence(), started(); !got.Equal(want) {
		t.Errorf("parked as of %s, want the begin of the task, %s", got, want)
	}
	until("the decision is taken", func() bool {
		return decideAbout(ctx, &decide.Operator{Verbs: operator.Verbs, DB: pool, Temporal: c, Audit: runs.Audit}, id, workflows.UpdateSkip, workflows.DecisionInput{}) == nil
	})
	if got := next(); got != again {
		t.Fatalf("run %q has finished, want the new one", got)
	}
	if got := stands(); !strings.HasPrefix(got, "processed ") {
		t.Errorf("the new run is finished, and the receipt is %s", got)
	}
	if err := c.GetWorkflow(ctx, in.ID(), again).Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := fence(), started(); !got.Equal(want) {
		t.Errorf("finished as of %s, want the begin of the task, %s", got, want)
	}
}
