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
	// DescribeWorkflowExecution reads the current state of the run. Lists come from the visibility store, which may be
	// outdated.
	DescribeWorkflowExecution(ctx context.Context, workflowID,
		runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool,
		filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
	ListWorkflow(ctx context.Context,
		request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Config configures a dispatcher. Temporal, Receipts, Runs and TaskQueue are required.
type Config struct {
	Temporal Temporal
	// Prepare, when set, registers pawl's search attributes. The dispatcher calls it if the namespace lacks them.
	Prepare   func(context.Context) error
	Receipts  *receipt.Store
	Runs      *run.Store
	TaskQueue string
	// Eager requests an eager workflow start. It saves a round trip if a worker in this process uses the same client.
	Eager bool
	// Workers is the maximum number of starts in progress; default 16.
	Workers int
	// Every is the pause between sweeps; default 1 s.
	Every time.Duration
	// Page returns the URL of a receipt's page in the console, to which the run links. Default: no link.
	Page  func(receiptID string) string
	Meter metric.Meter
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	// queueLength is the maximum number of offered events in the queue. The sweep starts all other events a few seconds
	// later.
	queueLength = 4096
	// startTimeout is the timeout of one start, including the retries of the SDK.
	startTimeout = 3 * time.Second
	// prepareTimeout is the timeout of [Config].Prepare. Temporal may have to create a column or an index.
	prepareTimeout = 10 * time.Second
	// taskTimeout is the timeout of a workflow task, half of Temporal's default. After a worker is killed, its runs
	// make no progress for this time. With a shorter timeout, the tasks of a worker that lacks CPU time would time out.
	taskTimeout = 5 * time.Second
	// keep is how long after it leased a receipt a process may begin to start the receipt's run. The rest of the lease
	// is for the start itself, its record, and a delayed commit. Otherwise another process could start the same
	// receipt.
	keep = receipt.Lease - startTimeout - markEvery - time.Second
	// sweepBatch is how many receipts a sweep leases at once. If Temporal accepts fewer than 20 starts per second, the
	// sweep does not start all of them, and makes the rest due again at once.
	sweepBatch = 100
	// While Temporal is down, the sweep tries to start one receipt after each pause. The pause grows from firstPause to
	// lastPause. After Temporal recovers, starts continue within lastPause.
	firstPause, lastPause = 250 * time.Millisecond, 2 * time.Second
	// markEvery is the time between writes that record started runs. Most runs end earlier and record their start
	// themselves.
	markEvery = time.Second
	// resumeRate is how many receipts per second become due after the pause of their source ends. A small worker can
	// run about this number of receipts per second in addition to new events.
	resumeRate = 80
	// sampleEvery is how often the backlog metrics are measured.
	sampleEvery = 5 * time.Second
)

// Dispatcher starts the workflows of events. Make one with [New], and call [Dispatcher.Run].
type Dispatcher struct {
	cfg     Config
	queue   chan queued
	down    atomic.Bool                     // the last start failed because Temporal was unavailable
	paused  atomic.Pointer[map[string]bool] // the paused sources, as last read by this process
	metrics *metrics

	// taken counts the starts that Temporal accepted. refused counts the rejections since the last accepted start.
	taken, refused atomic.Int64

	preparing sync.Mutex

	noting    sync.Mutex // guards the fields below
	toMark    []run.Started
	toRelease []string
}

// New returns a dispatcher. Its error names every missing part of cfg.
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

// Run starts workflows until ctx ends, and returns when no start is in progress. Receipts that are still in the queue
// then become due at once, for the sweep of any process.
func (d *Dispatcher) Run(ctx context.Context) {
	d.readPauses(ctx)
	var wg sync.WaitGroup
	var starting sync.WaitGroup
	for range d.cfg.Workers {
		starting.Go(func() { d.work(ctx) })
	}
	// marks outlives ctx, so that starts in progress when ctx ends are also recorded.
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

// failed handles the failed start of p. It parks the receipt if a retry would not help: Temporal rejects this start, or
// the run of the event belongs to another receipt. It logs every failure, but an outage of Temporal only once.
func (d *Dispatcher) failed(ctx context.Context, p receipt.Pending, err error) {
	if ctx.Err() != nil {
		return // this process is shutting down
	}
	log := d.cfg.Log.With("provider", p.Provider, "event_id", p.EventID, "receipt_id", p.ReceiptID, "error", err)
	park := func(reason string) {
		if err := d.cfg.Receipts.Transition(ctx, p.ReceiptID, receipt.NeedsReview, reason, err.Error()); err != nil {
			log.Warn("receipt not parked; the sweep retries", "cause", err)
		}
	}
	another, isAnother := errors.AsType[*anotherError](err)
	switch {
	case errors.Is(err, errUnable):
		if !d.down.Swap(true) {
			log.Warn("Temporal accepts no starts; the receipts start after it recovers")
		}
	case isRefusal(err):
		log.Warn("Temporal rejects the start; the receipt is parked")
		park(receipt.StartRefused + ": Temporal rejects this start; correct the cause below, then run `pawl events start`")
	case isAnother:
		d.down.Store(false) // Temporal answered
		log.Warn("the run of the event belongs to another receipt; this receipt is parked")
		park(another.Error())
	default:
		log.Warn("start failed; the sweep retries when the lease of the receipt ends")
	}
}

// Sample measures the backlog until ctx ends. [Dispatcher.Run] does not call Sample: a process that starts while
// Temporal is down must report its backlog before it can call Run.
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

// wait waits for d. It returns false if ctx ends first.
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
