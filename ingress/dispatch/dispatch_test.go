package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// temporal is a Temporal that remembers workflow IDs for ever and refuses them a second time. It
// fails on cue, before or after it has done what it was asked.
type temporal struct {
	mu    sync.Mutex
	runs  map[string]started // by workflow ID
	calls int
	down  bool
	lost  int // so many starts are made and their replies lost
	// refuses is the ID of a workflow whose start is refused.
	refuses string
	// fails is the ID of a workflow whose start fails with failure.
	fails   string
	failure error
	// hangs, where set, names the workflows whose start gets no answer.
	hangs func(id string) bool
	// ended, where set, is how every run has ended.
	ended enumspb.WorkflowExecutionStatus
	// tries is how often the workflow task of every run was tried.
	tries int32
	// unseen, where set, names the workflows that cannot be described; looks counts who asked for any.
	unseen func(id string) bool
	looks  int
	// meanwhile, where set, happens while a run is looked at.
	meanwhile func()
}

type started struct {
	runID   string
	flow    string
	in      workflows.EventInput
	options client.StartWorkflowOptions
}

type run struct {
	client.WorkflowRun
	id string
}

func (r run) GetRunID() string { return r.id }

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
	if o.ID == tp.fails {
		return nil, tp.failure
	}
	if old, ok := tp.runs[o.ID]; ok {
		if o.WorkflowIDReusePolicy != enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE ||
			o.WorkflowIDConflictPolicy != enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL || !o.WorkflowExecutionErrorWhenAlreadyStarted {
			return run{id: "a second run of " + o.ID}, nil
		}
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", old.runID)
	}
	s := started{runID: fmt.Sprint("run-", len(tp.runs)+1), flow: workflow.(string), in: args[0].(workflows.EventInput), options: o}
	tp.runs[o.ID] = s
	if tp.lost > 0 {
		tp.lost--
		return nil, serviceerror.NewUnavailable("connection reset: reply lost")
	}
	return run{id: s.runID}, nil
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

type bench struct {
	store    *receipt.Store
	pool     *pgxpool.Pool
	temporal *temporal
	d        *dispatch.Dispatcher
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{pool: schematest.New(t), temporal: &temporal{runs: map[string]started{}}}
	b.store = receipt.NewStore(b.pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(b.store.Close)
	b.d = b.dispatcher(t)
	return b
}

func (b *bench) dispatcher(t *testing.T) *dispatch.Dispatcher {
	t.Helper()
	d, err := dispatch.New(dispatch.Config{Temporal: b.temporal, Receipts: b.store, TaskQueue: "q", Every: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run lets the dispatcher work until the test ends.
func (b *bench) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { b.d.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

func (b *bench) insert(t *testing.T, change ...func(*receipt.New)) receipt.Pending {
	t.Helper()
	e := receipt.New{Mode: "live", EventID: "evt_1", IDOrigin: "body", Type: "invoice.paid", Object: "in_1", Status: receipt.Received, Body: []byte("{}")}
	for _, f := range change {
		f(&e)
	}
	d := receipt.Delivery{Source: "s", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{e}}
	out, err := b.store.Insert(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Pending{ReceiptID: out[0].ReceiptID, Provider: "stripe", Account: e.Account, Mode: e.Mode, EventID: e.EventID,
		Type: e.Type, ObjectID: e.Object, ReceivedAt: d.ReceivedAt}
}

func id(eventID string) func(*receipt.New) {
	return func(e *receipt.New) { e.EventID = eventID }
}

// due makes every receipt due, as five seconds would.
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

// eventually waits for a row or a state to come about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
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
	want := workflows.EventInput{ReceiptID: p.ReceiptID, Provider: "stripe", Mode: "live", EventID: "evt_1", Type: "invoice.paid", Object: "in_1"}
	if s.flow != "InvoicePaid" || s.in != want {
		t.Errorf("started %s with %+v, want InvoicePaid with %+v", s.flow, s.in, want)
	}
	if s.options.TaskQueue != "q" || s.options.StaticSummary != "invoice.paid in_1" || s.options.WorkflowExecutionTimeout != 0 || s.options.RetryPolicy != nil {
		t.Errorf("options %+v", s.options)
	}
	if got := s.options.WorkflowTaskTimeout; got <= 0 || got >= 10*time.Second {
		t.Errorf("workflow task time-out %s: a killed worker's runs stand still for that long", got)
	}
	attributes := s.options.TypedSearchAttributes
	if got, _ := attributes.GetKeyword(workflows.PawlReceipt); got != p.ReceiptID {
		t.Errorf("PawlReceipt %q, want %s", got, p.ReceiptID)
	}
	runs := b.runs(t, p.ReceiptID)
	if len(runs) != 1 || runs[0].RunID != s.runID || runs[0].WorkflowID != "stripe:evt_1" || runs[0].Kind != string(receipt.Original) {
		t.Errorf("runs %+v", runs)
	}
}

// What the way in memory has missed is started by the sweep: a crash after the commit.
func TestSweep_Missed_Started(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
		t.Fatalf("at once: %d, %v; the hand-over goes first", found, err)
	}
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("when due: %d, %v; want 1", found, err)
	}
	if st := b.status(t, p.ReceiptID); st != receipt.Processing {
		t.Errorf("status %s, want processing", st)
	}
}

// A crash between the start and its mark: the second start is refused, which is success.
func TestSweep_StartedButNotMarked_Once(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t)
	b.temporal.set(func(tp *temporal) { tp.lost = 1 })
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("a start whose reply was lost passed for success")
	}
	if st := b.status(t, p.ReceiptID); st != receipt.Received {
		t.Fatalf("status %s, want received: nobody knows that it runs", st)
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("second sweep: %d, %v; want the receipt at once, not after its lease", found, err)
	}
	runs := b.runs(t, p.ReceiptID)
	if len(runs) != 1 || runs[0].RunID != "run-1" || b.status(t, p.ReceiptID) != receipt.Processing {
		t.Errorf("runs %+v; want the first one's ID", runs)
	}
}

// What a dispatcher that is stopped has not started is due at once, not after its lease.
func TestRun_Stopped_GivesBackItsQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var events []receipt.Pending
	for i := range 20 {
		events = append(events, b.insert(t, func(e *receipt.New) { e.EventID = fmt.Sprint("evt_", i) }))
	}
	b.d.Offer(events)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	b.d.Run(stopped)
	due, err := b.store.Due(t.Context(), 100, time.Minute)
	if err != nil || len(due) != len(events) {
		t.Errorf("%d receipts are due, %v; want all %d", len(due), err, len(events))
	}
}

// A start that Temporal refuses is not tried for ever: the receipt says why it waits, and the others go on.
func TestSweep_StartRefused_ParkedWithTheReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bad := b.insert(t)
	good := b.insert(t, func(e *receipt.New) { e.EventID = "evt_2" })
	b.temporal.set(func(tp *temporal) { tp.refuses = "stripe:evt_1" })
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("a refusal passed for success")
	}
	r, err := b.store.Get(t.Context(), bad.ReceiptID)
	if err != nil || r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, "start_refused: ") || !strings.Contains(r.LastError, "the input is too large") {
		t.Errorf("receipt %+v, %v; want it parked with the reason", r, err)
	}
	if st := b.status(t, good.ReceiptID); st != receipt.Processing {
		t.Errorf("the other one is %s, want processing", st)
	}
	b.temporal.set(func(tp *temporal) { tp.refuses = "" })
	if err := b.store.Transition(t.Context(), bad.ReceiptID, receipt.Received, "", ""); err != nil { // pawl events run
		t.Fatal(err)
	}
	if _, _, err := b.d.SweepOnce(t.Context()); err != nil || b.status(t, bad.ReceiptID) != receipt.Processing {
		t.Errorf("mended: %v, status %s; want it processing", err, b.status(t, bad.ReceiptID))
	}
}

// A namespace that was made anew knows no search attribute of ours: that is nothing about the event.
func TestSweep_SearchAttributesAreGone_RegisteredAndReceiptsWait(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"without an alias": serviceerror.NewInvalidArgument("Namespace pawl has no mapping defined for search attribute PawlReceipt"),
		"unknown":          serviceerror.NewInvalidArgument("search attribute PawlType is not defined"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			prepared := 0
			d, err := dispatch.New(dispatch.Config{Temporal: b.temporal, Receipts: b.store, TaskQueue: "q",
				Prepare: func(context.Context) error { prepared++; return nil }})
			if err != nil {
				t.Fatal(err)
			}
			p := b.insert(t)
			b.temporal.set(func(tp *temporal) { tp.fails, tp.failure = "stripe:evt_1", failure })
			b.due(t)
			_, _, err = d.SweepOnce(t.Context())
			if st := b.status(t, p.ReceiptID); err == nil || prepared != 1 || st != receipt.Received {
				t.Fatalf("%v, prepared %d times, receipt %s; want it to wait", err, prepared, st)
			}
			b.temporal.set(func(tp *temporal) { tp.fails = "" })
			if _, _, err := d.SweepOnce(t.Context()); err != nil || b.status(t, p.ReceiptID) != receipt.Processing {
				t.Errorf("%v, receipt %s; want it started", err, b.status(t, p.ReceiptID))
			}
		})
	}
}

// One start that fails by itself, in whatever way, is tried again later and stops no other.
func TestSweep_OneStartFails_OthersGoOn(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"of the client":   serviceerror.NewInternal("header key contains value with non-printable ASCII characters"),
		"of the server":   errors.New("unknown"),
		"of its database": serviceerror.NewDataLoss("corrupt"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.temporal.set(func(tp *temporal) { tp.fails, tp.failure = "stripe:evt_0", failure })
			var all []receipt.Pending
			for i := range 40 {
				all = append(all, b.insert(t, id(fmt.Sprint("evt_", i))))
			}
			b.due(t)
			if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
				t.Error("a failure passed for success")
			}
			for _, p := range all[1:] {
				if st := b.status(t, p.ReceiptID); st != receipt.Processing {
					t.Errorf("%s is %s, want processing", p.EventID, st)
				}
			}
			if st := b.status(t, all[0].ReceiptID); st != receipt.Received {
				t.Errorf("the one that failed is %s, want received", st)
			}
			if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
				t.Errorf("at once: found %d, %v; want it to wait for its lease", found, err)
			}
			b.temporal.set(func(tp *temporal) { tp.fails = "" })
			b.due(t)
			if _, _, err := b.d.SweepOnce(t.Context()); err != nil || b.status(t, all[0].ReceiptID) != receipt.Processing {
				t.Errorf("afterwards: %v, %s; want it processing", err, b.status(t, all[0].ReceiptID))
			}
		})
	}
}

// Where a part of Temporal hangs, its starts wait for their lease, and the others are made, offered ones included.
func TestSweep_SomeStartsHang_OthersGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hangs := func(id string) bool { return strings.HasPrefix(id, "stripe:hangs_") }
	b.temporal.set(func(tp *temporal) { tp.hangs = hangs })
	var hung, well []receipt.Pending
	for i := range 4 {
		hung = append(hung, b.insert(t, id(fmt.Sprint("hangs_", i))))
	}
	for i := range 60 {
		well = append(well, b.insert(t, id(fmt.Sprint("evt_", i))))
	}
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("a start without an answer passed for success")
	}
	for _, p := range well {
		if st := b.status(t, p.ReceiptID); st != receipt.Processing {
			t.Errorf("%s is %s, want processing", p.EventID, st)
		}
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
		t.Errorf("at once: found %d, %v; want those that hang to wait for their lease", found, err)
	}
	b.due(t)
	b.d.Offer(hung[:1])
	b.run(t)
	p := b.insert(t, id("offered"))
	b.d.Offer([]receipt.Pending{p})
	eventually(t, "what is offered is started", func() bool { return b.status(t, p.ReceiptID) == receipt.Processing })
}

// With a Temporal that answers nobody a sweep ends soon, and one start at a time finds out when it is back.
func TestSweep_EveryStartHangs_GivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var tried atomic.Int64
	b.temporal.set(func(tp *temporal) { tp.hangs = func(string) bool { tried.Add(1); return true } })
	for i := range 100 {
		b.insert(t, id(fmt.Sprint("evt_", i)))
	}
	b.due(t)
	begun := time.Now()
	if _, _, err := b.d.SweepOnce(t.Context()); err == nil {
		t.Error("starts without an answer passed for success")
	}
	if took := time.Since(begun); took > 15*time.Second { // each start that hangs takes three seconds
		t.Errorf("the sweep took %s", took)
	}
	if n := tried.Swap(0); n > 2*16 {
		t.Errorf("%d starts were tried, want two for each worker at most", n)
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err == nil || tried.Load() != 1 {
		t.Errorf("then: found %d, %v, %d tried; want one", found, err, tried.Load())
	}
	b.temporal.set(func(tp *temporal) { tp.hangs = nil })
	for range 2 {
		if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
			t.Errorf("when it is back: %v", err)
		}
	}
	if n, err := b.store.Backlog(t.Context()); err != nil || n.Count > 1 {
		t.Errorf("%d wait, %v; want only the first that hung to wait for a lease", n.Count, err)
	}
}

// What would fail each start is Temporal's: its receipts are due again at once, and none is parked.
func TestSweep_TemporalUnable_ReleasedAtOnce(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"overloaded":   serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down"),
		"no namespace": serviceerror.NewNamespaceNotFound("pawl"),
		"not let in":   serviceerror.NewPermissionDenied("no", ""),
		"no route":     &net.OpError{Op: "dial", Err: errors.New("no route to host")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.insert(t)
			b.temporal.set(func(tp *temporal) { tp.fails, tp.failure = "stripe:evt_1", failure })
			b.due(t)
			for range 2 {
				if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err == nil {
					t.Errorf("found %d, %v; want it again, and the failure", found, err)
				}
			}
			if st := b.status(t, p.ReceiptID); st != receipt.Received {
				t.Errorf("status %s, want received", st)
			}
		})
	}
}

// The same event 200 times at once, offered and swept by two dispatchers: one run.
func TestDispatch_Storm_OneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t)
	other := b.dispatcher(t)
	p := b.insert(t)
	b.due(t)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { b.d.Offer([]receipt.Pending{p}) })
	}
	wg.Go(func() {
		if _, _, err := other.SweepOnce(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	eventually(t, "all starts tried", func() bool {
		b.temporal.mu.Lock()
		defer b.temporal.mu.Unlock()
		return b.temporal.calls >= 200
	})
	if n := len(b.temporal.runs); n != 1 {
		t.Errorf("runs: got %d, want 1", n)
	}
}

// Temporal stopped while 100 events arrive: all are kept, none hammers, all run when it is back.
func TestDispatch_TemporalDown_ReceiptsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.temporal.set(func(tp *temporal) { tp.down = true })
	b.run(t)
	var all []receipt.Pending
	for i := range 100 {
		p := b.insert(t, id(fmt.Sprint("evt_", i)))
		all = append(all, p)
		b.d.Offer([]receipt.Pending{p})
	}
	b.due(t)
	var before int
	b.temporal.set(func(tp *temporal) { before = tp.calls })
	if before > 40 {
		t.Errorf("%d starts tried while Temporal was down, want few: the first of each worker, then one at a time", before)
	}
	backlog, err := b.store.Backlog(t.Context())
	if err != nil || backlog.Count != 100 {
		t.Errorf("backlog %+v, %v; want all 100", backlog, err)
	}
	b.temporal.set(func(tp *temporal) { tp.down = false })
	back := time.Now()
	eventually(t, "all are processing", func() bool {
		b, err := b.store.Backlog(t.Context())
		return err == nil && b.Count == 0
	})
	t.Logf("100 receipts started %s after Temporal came back", time.Since(back))
	for _, p := range all {
		if _, ok := b.temporal.get("stripe:" + p.EventID); !ok {
			t.Errorf("%s never ran", p.EventID)
		}
	}
	if n := len(b.temporal.runs); n != 100 {
		t.Errorf("runs: got %d, want 100", n)
	}
	p := b.insert(t, id("afterwards"))
	b.d.Offer([]receipt.Pending{p})
	eventually(t, "the way in memory is open again", func() bool { return b.status(t, p.ReceiptID) == receipt.Processing })
}

// One event ID in both modes: two receipts, two runs under two IDs.
func TestDispatch_SameIDInBothModes_TwoRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live := b.insert(t)
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	test := b.insert(t, func(e *receipt.New) { e.Mode = "test" })
	for range 2 { // the second time both IDs are taken, and that is success
		b.due(t)
		if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.pool.Exec(t.Context(), `update receipts set status = 'received' where mode = 'test'`); err != nil {
			t.Fatal(err)
		}
	}
	for workflowID, want := range map[string]string{"stripe:evt_1": live.ReceiptID, "stripe:evt_1:test": test.ReceiptID} {
		if s, ok := b.temporal.get(workflowID); !ok || s.in.ReceiptID != want {
			t.Errorf("%s runs receipt %q, want %s", workflowID, s.in.ReceiptID, want)
		}
	}
	if n := len(b.temporal.runs); n != 2 {
		t.Errorf("runs: got %d, want 2", n)
	}
}

func TestDispatch_NoFlowOfItsOwn_Relayed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t, func(e *receipt.New) { e.Type = "moon.risen" })
	b.due(t)
	if _, _, err := b.d.SweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, ok := b.temporal.get("stripe:" + p.EventID); !ok || s.flow != "Relay" || s.in.ReceiptID != p.ReceiptID {
		t.Errorf("started %+v, want Relay", s)
	}
}

// What was ignored can be run later.
func TestDispatch_IgnoredThenWanted_Started(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.insert(t, func(e *receipt.New) { e.Status, e.Reason = receipt.Ignored, "type_not_wanted" })
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 0 || err != nil {
		t.Fatalf("while ignored: %d, %v; want 0", found, err)
	}
	if err := b.store.Transition(t.Context(), p.ReceiptID, receipt.Received, "", ""); err != nil {
		t.Fatal(err)
	}
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Fatalf("when wanted: %d, %v; want 1", found, err)
	}
	if _, ok := b.temporal.get("stripe:evt_1"); !ok {
		t.Error("it never ran")
	}
}

// A queue that is full drops: the receipt is in the table.
func TestOffer_Full_DoesNotBlock(t *testing.T) {
	t.Parallel()
	b := setup(t) // nobody takes from the queue
	p := b.insert(t)
	for range 5000 {
		b.d.Offer([]receipt.Pending{p})
	}
	b.due(t)
	if found, _, err := b.d.SweepOnce(t.Context()); found != 1 || err != nil {
		t.Errorf("sweep: %d, %v; want 1", found, err)
	}
}

func TestNew_ReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := dispatch.New(dispatch.Config{})
	if want := "dispatch: no Temporal client\nno receipt store\nno task queue"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
