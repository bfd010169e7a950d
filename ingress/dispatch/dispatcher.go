package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
)

// Temporal starts workflows and describes their runs; a client.Client.
type Temporal interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any,
		args ...any) (client.WorkflowRun, error)
	// DescribeWorkflowExecution answers from the run itself and not from the visibility store, which lags.
	DescribeWorkflowExecution(ctx context.Context, workflowID,
		runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool,
		filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
	ListWorkflow(ctx context.Context,
		request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Config is what a dispatcher needs. Temporal, Receipts, Runs and TaskQueue are required.
type Config struct {
	Temporal Temporal
	// Prepare, when set, registers the search attributes that starts carry. It is called when Temporal does not know
	// them.
	Prepare   func(context.Context) error
	Receipts  *receipt.Store
	Runs      *run.Store
	TaskQueue string
	// Eager asks for eager workflow start: it saves a hop where a worker of the same process shares
	// the client.
	Eager bool
	// Workers is how many starts may be under way; default 16.
	Workers int
	// Every is the pause between sweeps; default 1 s.
	Every time.Duration
	// Page returns the URL of a receipt's page in the console, to which its run links. Default: "", no link.
	Page  func(receiptID string) string
	Meter metric.Meter
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	// queueLength is how many offered events may wait in memory. The sweep takes the others seconds later.
	queueLength = 4096
	// startTimeout bounds one start. The SDK tries again by itself within it.
	startTimeout = 3 * time.Second
	// prepareTimeout bounds a registration, which may make a column or an index.
	prepareTimeout = 10 * time.Second
	// taskTimeout is half of Temporal's default: after a kill it is most of the wait, and a healthy
	// task takes milliseconds. Shorter would have a starved worker time out under load.
	taskTimeout = 5 * time.Second
	// keep is how long after taking a receipt a process may still begin to start it. The rest of the lease covers a
	// start that takes all of startTimeout, its mark, and a commit whose answer came late, so that no other process
	// begins to start the same receipt.
	keep = receipt.Lease - startTimeout - markEvery - time.Second
	// sweepBatch is how many receipts a sweep takes at once. A Temporal that takes fewer than 20 starts a second
	// leaves some of them, which are due again at once.
	sweepBatch = 100
	// While Temporal is down the sweep tries one receipt after each pause, which grows from the
	// first to the second. The second is how long after its return the backlog begins to move.
	firstPause, lastPause = 250 * time.Millisecond, 2 * time.Second
	// markEvery is how long a run may last before its start is recorded. Most runs have ended by then and have
	// recorded themselves.
	markEvery = time.Second
	// letIn is how many receipts a second become due after the end of their source's pause: about as many as a small
	// engine runs beside new events.
	letIn = 80
	// sampleEvery is how often the backlog gauge counts the table.
	sampleEvery = 5 * time.Second
)

// Dispatcher starts workflows. Make one with [New] and let [Dispatcher.Run] work.
type Dispatcher struct {
	cfg     Config
	queue   chan queued
	down    atomic.Bool                     // the last start found Temporal unable
	paused  atomic.Pointer[map[string]bool] // the sources that are, as far as this process knows
	metrics *metrics

	// taken counts the starts that Temporal has taken, and refused those that it has refused since the last of them.
	taken, refused atomic.Int64

	preparing sync.Mutex

	noting    sync.Mutex // guards what follows
	toMark    []run.Started
	toRelease []string
}

// New returns a dispatcher, or an error that names every missing part of cfg.
func New(cfg Config) (*Dispatcher, error) {
	var faults []error
	if cfg.Temporal == nil {
		faults = append(faults, errors.New("no Temporal client"))
	}
	if cfg.Receipts == nil {
		faults = append(faults, errors.New("no receipt store"))
	}
	if cfg.TaskQueue == "" {
		faults = append(faults, errors.New("no task queue"))
	}
	cfg.Workers, cfg.Every = cmp.Or(cfg.Workers, 16), cmp.Or(cfg.Every, time.Second)
	cfg.Meter = cmp.Or[metric.Meter](cfg.Meter, noop.Meter{})
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Page == nil {
		cfg.Page = func(string) string { return "" }
	}
	metrics, err := newMetrics(cfg.Meter)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	d := &Dispatcher{cfg: cfg, queue: make(chan queued, queueLength), metrics: metrics}
	d.paused.Store(&map[string]bool{})
	return d, nil
}

// Run starts workflows until ctx ends; it returns when no start is under way. Receipts that are still queued then are
// due at once for the next sweep of any process.
func (d *Dispatcher) Run(ctx context.Context) {
	d.readPauses(ctx)
	var wg sync.WaitGroup
	var starting sync.WaitGroup
	for range d.cfg.Workers {
		starting.Go(func() { d.work(ctx) })
	}
	// Starts that are under way when ctx ends are recorded, too.
	marks, started := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() {
		starting.Wait()
		for len(d.queue) > 0 {
			d.leaveToSweep(<-d.queue)
		}
		started()
	})
	wg.Go(func() { d.noteAll(marks) })
	wg.Go(func() {
		for wait(ctx, readEvery) {
			d.readPauses(ctx)
		}
	})
	wg.Go(func() { d.sweep(ctx) })
	wg.Go(func() { d.clock(ctx) })
	wg.Go(func() { d.search(ctx) })
	wg.Wait()
}

// failed reports why p was not started. It parks the receipt if Temporal refuses this very start or has another
// receipt's run of the event, since no repeat would help. It logs every failure, but an outage of Temporal only once.
func (d *Dispatcher) failed(ctx context.Context, p receipt.Pending, err error) {
	if ctx.Err() != nil {
		return // we are leaving, Temporal is well
	}
	log := d.cfg.Log.With("provider", p.Provider, "event_id", p.EventID, "receipt_id", p.ReceiptID, "error", err)
	park := func(reason string) {
		if err := d.cfg.Receipts.Transition(ctx, p.ReceiptID, receipt.NeedsReview, reason, err.Error()); err != nil {
			log.Warn("not parked; the sweep will try again", "cause", err)
		}
	}
	another, isAnother := errors.AsType[*anotherError](err)
	switch {
	case errors.Is(err, errUnable):
		if !d.down.Swap(true) {
			log.Warn("Temporal takes no starts; receipts wait")
		}
	case isRefusal(err):
		log.Warn("Temporal refuses the start; the receipt is parked")
		park(receipt.StartRefused + ": Temporal does not take this start; mend what it names, then `pawl events run` the event")
	case isAnother:
		d.down.Store(false) // it answers
		log.Warn("the event's run is another receipt's; the receipt is parked")
		park(another.Error())
	default:
		log.Warn("start failed; the sweep tries again when the receipt's lease is over")
	}
}

// Sample measures the backlog until ctx ends. [Dispatcher.Run] does not include it, because it needs no Temporal: a
// process that starts while Temporal is away must show its backlog.
func (d *Dispatcher) Sample(ctx context.Context) {
	for {
		if b, err := d.cfg.Receipts.Backlog(ctx); err == nil {
			d.metrics.backlog.Record(ctx, int64(b.Count))
			var age time.Duration
			if b.Oldest != nil {
				age = d.cfg.Now().Sub(*b.Oldest)
			}
			d.metrics.oldest.Record(ctx, age.Seconds())
		}
		if !wait(ctx, sampleEvery) {
			return
		}
	}
}

// wait waits for d and reports false when ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
