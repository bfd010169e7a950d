package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// temporal is a simulated Temporal that stores workflow IDs for ever and rejects a second start. It can fail before or
// after it has executed a request.
type temporal struct {
	mu    sync.Mutex
	runs  map[string]started // by workflow ID
	calls int
	down  bool
	lost  int // the number of starts whose replies are lost
	// refuses is the ID of a workflow whose start is rejected; refusesAll rejects every start.
	refuses    string
	refusesAll bool
	// fails is the ID of a workflow whose start fails with the error failure.
	fails   string
	failure error
	// hangs, if set, selects the workflows whose start gets no response.
	hangs func(id string) bool
	// ended, if set, is the result of every run, or only of the named one.
	ended enumspb.WorkflowExecutionStatus
	only  string
	// tries is the number of attempts of the workflow task of every run.
	tries int32
	// unseen, if set, selects the workflows that cannot be described; asked counts the describe requests.
	unseen func(id string) bool
	asked  int
	// unlisted, if set, selects the workflows that are missing in the list of running workflows. stale adds to the
	// list all other workflows, including workflows that have ended. lists counts the requested pages.
	unlisted func(id string) bool
	stale    bool
	lists    int
	noList   error
	// noHistory is the error of every request for a run's history.
	noHistory error
	// meanwhile, if set, is called while a run is checked.
	meanwhile func()
}

type started struct {
	runID   string
	flow    string
	in      workflows.EventInput
	options client.StartWorkflowOptions
}

type handle struct {
	client.WorkflowRun
	id string
}

func (h handle) GetRunID() string { return h.id }

func (tp *temporal) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	tp.mu.Lock()
	hangs := tp.hangs
	tp.mu.Unlock()
	if hangs != nil && hangs(o.ID) {
		<-ctx.Done()
		return nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.calls++
	if tp.down {
		return nil, serviceerror.NewUnavailable("connection refused")
	}
	if o.ID == tp.refuses {
		return nil, serviceerror.NewInvalidArgument("the input is too large")
	}
	if tp.refusesAll {
		return nil, serviceerror.NewInvalidArgument("the namespace takes nothing")
	}
	if o.ID == tp.fails {
		return nil, tp.failure
	}
	if old, ok := tp.runs[o.ID]; ok {
		if o.WorkflowIDReusePolicy != enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE ||
			o.WorkflowIDConflictPolicy != enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL || !o.WorkflowExecutionErrorWhenAlreadyStarted {
			return handle{id: "a second run of " + o.ID}, nil
		}
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", old.runID)
	}
	s := started{runID: fmt.Sprint("run-", len(tp.runs)+1), flow: workflow.(string), in: args[0].(workflows.EventInput), options: o}
	tp.runs[o.ID] = s
	if tp.lost > 0 {
		tp.lost--
		return nil, serviceerror.NewUnavailable("connection reset: reply lost")
	}
	return handle{id: s.runID}, nil
}

func (tp *temporal) set(f func(*temporal)) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	f(tp)
}

func (tp *temporal) get(id string) (started, bool) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	s, ok := tp.runs[id]
	return s, ok
}

func TestMain(m *testing.M) { schematest.Main(m) }

type bench struct {
	store    *receipt.Store
	starts   *run.Store
	pool     *pgxpool.Pool
	temporal *temporal
	d        *dispatch.Dispatcher
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{pool: schematest.New(t), temporal: &temporal{runs: map[string]started{}}}
	b.store = receipt.NewStore(b.pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(b.store.Close)
	b.starts = run.NewStore(b.pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(b.starts.Close)
	b.d = b.dispatcher(t)
	return b
}

func (b *bench) dispatcher(t *testing.T) *dispatch.Dispatcher {
	t.Helper()
	d, err := dispatch.New(dispatch.Config{Temporal: b.temporal, Receipts: b.store, Runs: b.starts, TaskQueue: "q", Every: 20 * time.Millisecond,
		Page: func(id string) string { return "https://pawl.example.com/events/" + id }})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs the dispatcher until the test ends.
func (b *bench) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { b.d.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

func (b *bench) insert(t *testing.T, change ...func(*receipt.New)) receipt.Pending {
	t.Helper()
	e := receipt.New{Mode: "live", EventID: "evt_1", Identity: receipt.ByID, Type: "invoice.paid", Object: "in_1", Status: receipt.Received, Body: []byte("{}")}
	for _, f := range change {
		f(&e)
	}
	d := receipt.Delivery{Source: "s", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{e}}
	out, err := b.store.Insert(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Pending{
		Ref:        event.Ref{ReceiptID: out[0].ReceiptID, Provider: "stripe", Account: e.Account, Mode: e.Mode, EventID: e.EventID, Type: e.Type, ObjectID: e.Object},
		ReceivedAt: d.ReceivedAt,
	}
}

func id(eventID string) func(*receipt.New) {
	return func(e *receipt.New) { e.EventID = eventID }
}

// due makes every receipt due without waiting for its lease.
func (b *bench) due(t *testing.T) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `update receipts set dispatch_at = now() - interval '1 second' where status = 'received'`); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) get(t *testing.T, id string) receipt.Receipt {
	t.Helper()
	r, err := b.store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) status(t *testing.T, id string) receipt.Status {
	t.Helper()
	return b.get(t, id).Status
}

func (b *bench) runs(t *testing.T, id string) []timeline.Run {
	t.Helper()
	event, err := timeline.Show(t.Context(), b.pool, id)
	if err != nil {
		t.Fatal(err)
	}
	return event.Runs
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}
