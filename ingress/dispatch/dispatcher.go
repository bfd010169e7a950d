package dispatch

import (
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

// Temporal starts workflows and tells how they stand; a client.Client.
type Temporal interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	// DescribeWorkflowExecution answers from the run itself and not from the visibility store, which lags.
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Receipts is where receipts wait; a *receipt.Store.
type Receipts interface {
	Due(ctx context.Context, limit int) ([]receipt.Pending, error)
	Clock(ctx context.Context, limit int) ([]receipt.Clock, error)
	Begin(ctx context.Context, id, workflowID string) (was receipt.Status, err error)
	Release(ctx context.Context, ids ...string) error
	Transition(ctx context.Context, id string, to receipt.Status, reason, lastError string) error
	Get(ctx context.Context, id string) (receipt.Receipt, error)
	SourcePauses(ctx context.Context) ([]receipt.SourcePause, error)
	LetIn(ctx context.Context, source string, limit int) error
	Backlog(ctx context.Context) (receipt.Backlog, error)
}

// Runs is where their runs are kept; a *run.Store.
type Runs interface {
	MarkStarted(ctx context.Context, runs ...run.Started) error
	Quiet(ctx context.Context, d time.Duration) (ids []string, err error)
	QuietSample(ctx context.Context, d time.Duration, n int) ([]run.Open, error)
	Open(ctx context.Context, ids []string) ([]run.Open, error)
	ParkOpen(ctx context.Context, o run.Open, reason string) (parked bool, err error)
	SettleOpen(ctx context.Context, o run.Open, runID string) (settled bool, err error)
	Intervened(ctx context.Context, i run.Intervention) error
}

// Config is what a dispatcher needs. Temporal, Receipts, Runs and TaskQueue are required.
type Config struct {
	Temporal Temporal
	// Prepare, when set, registers the search attributes that starts carry. It is called when Temporal turns out
	// not to know them.
	Prepare   func(context.Context) error
	Receipts  Receipts
	Runs      Runs
	TaskQueue string
	// Eager asks for eager workflow start: it saves a hop where a worker of the same process shares
	// the client.
	Eager bool
	// Workers is how many starts may be under way; default 16.
	Workers int
	// Queue is how many offered events may wait in memory; default 4096. What does not fit is
	// swept up seconds later.
	Queue int
	// Every is the pause between sweeps; default 1 s.
	Every time.Duration
	Meter metric.Meter
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	// startTimeout bounds one start. The SDK tries again by itself within it.
	startTimeout = 3 * time.Second
	// prepareTimeout bounds a registration, which may make a column or an index.
	prepareTimeout = 10 * time.Second
	// taskTimeout is half of Temporal's default: after a kill it is most of the wait, and a healthy
	// task takes milliseconds. Shorter would have a starved worker time out under load.
	taskTimeout = 5 * time.Second
	// keep is for how long a process begins to start what it has taken. What is left of the lease then is for a start
	// that takes all of startTimeout, for its mark, and for a commit of which the process has heard late: nobody else
	// begins to start the same receipt meanwhile.
	keep = receipt.Lease - startTimeout - markEvery - time.Second
	// sweepBatch is how many receipts a sweep takes at once. Those that it cannot begin to start in time, with a Temporal
	// that takes fewer than 20 starts a second, are due again at once.
	sweepBatch = 100
	// While Temporal is down the sweep tries one receipt after each pause, which grows from the
	// first to the second. The second is how long after its return the backlog begins to move.
	firstPause, lastPause = 250 * time.Millisecond, 2 * time.Second
	// markEvery is how long a run may last before its start is recorded. Most have ended by then and
	// have said so themselves.
	markEvery = time.Second
	// letIn is how many of the receipts that have waited for a source's pause are let in each second: about what a small
	// engine runs beside what comes in.
	letIn = 80
	// sampleEvery is how often the backlog gauge counts the table.
	sampleEvery = 5 * time.Second
)

// Dispatcher starts workflows. Make one with [New] and let [Dispatcher.Run] work.
type Dispatcher struct {
	cfg     Config
	queue   chan queued
	down    atomic.Bool // the last start found Temporal unable
	paused  atomic.Pointer[map[string]bool]
	metrics *metrics

	refusals refusals

	// answered counts the starts that Temporal has answered. timedOutAt is that count as it stood when a start last
	// timed out, -1 before any has: while the two are equal, Temporal has answered nothing since. See silent.
	answered, timedOutAt atomic.Int64

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
	if cfg.Workers <= 0 {
		cfg.Workers = 16
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 4096
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Second
	}
	if cfg.Meter == nil {
		cfg.Meter = noop.Meter{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	metrics, err := newMetrics(cfg.Meter)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	d := &Dispatcher{cfg: cfg, queue: make(chan queued, cfg.Queue), metrics: metrics}
	d.timedOutAt.Store(-1)
	return d, nil
}

// Run starts workflows until ctx ends; it returns when no start is under way. What is still queued
// then is in the table too, and due at once for whoever sweeps next.
func (d *Dispatcher) Run(ctx context.Context) {
	d.readPauses(ctx)
	var wg sync.WaitGroup
	var starting sync.WaitGroup
	for range d.cfg.Workers {
		starting.Go(func() { d.work(ctx) })
	}
	// What is being started when ctx ends is noted too.
	marks, started := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() {
		starting.Wait()
		d.giveBack()
		started()
	})
	wg.Go(func() { d.noteAll(marks) })
	wg.Go(func() { d.watchPauses(ctx) })
	wg.Go(func() { d.sweep(ctx) })
	wg.Go(func() { d.clock(ctx) })
	wg.Go(func() { d.search(ctx) })
	wg.Wait()
}

// failed says why p was not started: on the receipt where Temporal refuses this very start, which no
// repeat would mend, and in the log, once per outage where Temporal as a whole is unable.
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
	var another *anotherError
	switch {
	case errors.Is(err, errUnable):
		if !d.down.Swap(true) {
			log.Warn("Temporal takes no starts; receipts wait")
		}
	case refused(err):
		log.Warn("Temporal refuses the start; the receipt is parked")
		park(receipt.StartRefused + ": Temporal does not take this start; mend what it names, then `pawl events run` the event")
	case errors.As(err, &another):
		d.down.Store(false) // it answers
		log.Warn("the event's run is another receipt's; the receipt is parked")
		park(another.Error())
	default:
		log.Warn("start failed; the sweep tries again when the receipt's lease is over")
	}
}

// Sample measures the backlog until ctx ends. It is apart from [Dispatcher.Run] because it needs no Temporal:
// a process that starts while Temporal is away must show what waits for it.
func (d *Dispatcher) Sample(ctx context.Context) {
	for {
		if b, err := d.cfg.Receipts.Backlog(ctx); err == nil {
			d.metrics.backlog.Record(ctx, int64(b.Count))
			var age time.Duration
			if !b.Oldest.IsZero() {
				age = d.cfg.Now().Sub(b.Oldest)
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
