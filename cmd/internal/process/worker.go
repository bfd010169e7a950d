package process

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/published"
	"github.com/pawlhq/pawl/cmd/internal/operator/job"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// stopGrace is how long a worker that is stopped waits for running activities. It is the timeout of an HTTP effect plus
// the time to record its outcome.
const stopGrace = 15 * time.Second

// RunWorker runs flows, effects and the publisher of the outbox until ctx ends. If Temporal is down, it waits without a
// time limit.
func (n *Node) RunWorker(ctx context.Context) error {
	book, publisher, all, err := n.Equip()
	if err != nil {
		return err
	}
	defer book.Close()
	if err := (&exporter{n, n.telemetry.Meter(), book, publisher.Outbox}).observe(); err != nil {
		return err
	}
	n.join(ops.Part{Name: effects,
		Probe: func(ctx context.Context) (string, error) { return stalled(book), n.Receipts.Ready(ctx) }})
	n.warnOfSkippedEffects(ctx)
	n.effects.Read(ctx, n.gates.all(), n.Runs.SinkWaiters) // read pauses before the first effect
	own := &fileRules{Operator: n.operator, config: n.Config, log: n.log}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { publisher.Run(ctx); return nil })
	group.Go(func() error { n.resets.run(ctx); return nil })
	repeat := func(pause time.Duration, work string, once func(context.Context) error) {
		group.Go(func() error { n.every(ctx, pause, work, once); return nil })
	}
	repeat(time.Minute, "publish due tasks", func(ctx context.Context) error {
		return billing.RemindOfTasks(ctx, n.Pool)
	})
	repeat(time.Hour, "trim the counts of requests", func(ctx context.Context) error {
		return receipt.TrimCounts(ctx, n.Pool)
	})
	repeat(jobSweep, "start waiting jobs", func(ctx context.Context) error {
		return job.Sweep(ctx, n.operator)
	})
	repeat(time.Minute, "cannot propose the billing rules of the file", own.propose)
	n.notify(ctx, group)
	group.Go(func() error { n.watchAudit(ctx); return nil })
	group.Go(func() error { _ = n.UntilDone(ctx, "set up the schedules", n.EnsureSchedules); return nil })
	group.Go(func() error { n.effects.Watch(ctx, n.gates.all(), n.Runs.SinkWaiters); return nil })
	group.Go(func() error {
		for {
			select {
			case sink := <-n.back:
				group.Go(func() error { n.resume(ctx, sink, n.gates[sink]); return nil })
			case <-ctx.Done():
				return nil
			}
		}
	})
	group.Go(func() error {
		n.keepWorking(ctx, func(ctx context.Context, options worker.Options) (worker.Worker, error) {
			// before this worker processes any event
			for _, prepare := range []func(context.Context) error{n.EnsureSearchAttributes, lossCheck(n), own.adopt} {
				if err := prepare(ctx); err != nil {
					return nil, err
				}
			}
			w := worker.New(n.Temporal, n.Config.Temporal.TaskQueue, options)
			register(w, all)
			return w, nil
		})
		return nil
	})
	return group.Wait()
}

// headWatch is how often a worker reads the head of the audit trail to log a new one.
const headWatch = 10 * time.Second

// jobSweep is how often a worker searches for jobs that have no run yet.
const jobSweep = 5 * time.Second

// every calls once at an interval until ctx ends. It logs errors together with work, the name of the work.
func (n *Node) every(ctx context.Context, pause time.Duration, work string, once func(context.Context) error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n.try(ctx, work, once)
	}
}

func (n *Node) try(ctx context.Context, work string, once func(context.Context) error) {
	if err := once(ctx); err != nil && ctx.Err() == nil {
		n.log.WarnContext(ctx, "periodic work failed", "work", work, "error", err)
	}
}

// stalled describes the effects that wait for a lock of another transaction. It returns "" if no effect waits.
func stalled(book *ledger.Store) string {
	list := book.Stalled()
	if len(list) == 0 {
		return ""
	}
	said := list[0].Error()
	if more := len(list) - 1; more > 0 {
		said += fmt.Sprintf("; and %d more", more)
	}
	return said
}

// cachedRuns is how many runs a process keeps in memory between their workflow tasks. Each takes about 100 KB. Other
// runs are read from Temporal again when they continue. The default of the SDK is 10,000 runs: with this default, 6,000
// runs that waited for a sink used 800 MB.
const cachedRuns = 256

// keepWorking runs a worker until ctx ends. equipped creates the worker. A worker that failed to start or that was
// stopped cannot be restarted, so keepWorking then creates a new one.
func (n *Node) keepWorking(ctx context.Context, equipped func(context.Context, worker.Options) (worker.Worker, error)) {
	worker.SetStickyWorkflowCacheSize(cachedRuns)
	// UntilDone fails only when ctx has ended
	_ = n.UntilDone(ctx, "work for Temporal", func(ctx context.Context) error {
		// The SDK stops a worker if its polls were rejected for two minutes, for example because the namespace was lost
		// together with Temporal's database. The SDK reports the stop once, and only to this hook.
		refused := make(chan error, 1)
		options := n.WorkerOptions()
		options.OnFatalError = func(err error) {
			select {
			case refused <- err:
			default: // several pollers of the worker may report the stop
			}
		}
		w, err := equipped(ctx, options)
		if err != nil {
			return err
		}
		if err := w.Start(); err != nil {
			return err
		}
		defer w.Stop()
		n.polling.Store(true)
		defer n.polling.Store(false)
		n.log.InfoContext(ctx, "worker runs", "task_queue", n.Config.Temporal.TaskQueue)
		select {
		case <-ctx.Done():
			return nil
		case err := <-refused:
			return fmt.Errorf("the worker stopped, because Temporal refused it: %w", err)
		}
	})
}

// Equip creates the parts of a worker: the ledger, the publisher of the outbox, and the activities. The caller must
// close the ledger.
func (n *Node) Equip() (book *ledger.Store, publisher *activities.Publisher, all []any, err error) {
	book = ledger.New(n.Pool, n.commits)
	effects, err := effect.NewRunner(effect.Config{
		Log: n.log, Ledger: book, Meter: n.telemetry.Meter(),
		Retrying: n.showRetrying, Waits: n.showWaiting,
		Breakers: breaker.New(n.Pool), Breaking: n.Breaking, Pauses: pause.New(n.Pool), Back: n.notifyRecovered,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	n.effects = effects
	publisher = &activities.Publisher{
		Outbox: outbox.New(n.Pool), Destinations: n.gates.destinations(n.Config),
		Client: n.tracing.Client(httpcall.NewClient()), Log: n.log, API: n.Config.Console.API(),
	}
	publisher.Flows = &published.Intake{Outbox: publisher.Outbox, Receipts: n.Receipts,
		Types: n.Config.PublishedTypes(), API: publisher.API, Log: n.log}
	of, err := n.receivers(effects, publisher.Wake)
	if err != nil {
		return nil, nil, nil, err
	}
	forRuns, err := n.forRuns(book)
	if err != nil {
		return nil, nil, nil, err
	}
	all = append(forRuns, of.Billing, of.Objects, of.Workspaces, of.Finance, of.Mail, of.Destinations,
		of.Destinations.Flows, &activities.Tasks{Effects: effects})
	if err := workflows.CheckReceivers(all); err != nil {
		book.Close()
		return nil, nil, nil, err
	}
	return book, publisher, all, nil
}

// ownSlots is the number of activity slots for effects in pawl's own database. With more slots, effects would wait for
// a connection.
const ownSlots = 64

// WorkerOptions returns the options that every worker uses.
func (n *Node) WorkerOptions() worker.Options {
	// the largest number of parallel effects in a flow: all of them may start in the worker that requests them
	eager := 8
	// The default of two pollers is the first bottleneck at a high rate.
	autoscaling := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	return worker.Options{
		WorkflowTaskPollerBehavior:                  autoscaling,
		ActivityTaskPollerBehavior:                  autoscaling,
		MaxEagerActivityReservationsPerWorkflowTask: &eager,
		// The gate of each sink limits how many of its calls are in progress or wait. There are enough slots for the
		// limits of all sinks together, so that a sink that does not respond cannot take slots from others.
		MaxConcurrentActivityExecutionSize:      ownSlots + n.gates.slots(),
		MaxConcurrentLocalActivityExecutionSize: ownSlots + n.gates.slots(),
		WorkerStopTimeout:                       stopGrace,
		Interceptors:                            []interceptor.WorkerInterceptor{&effect.ShowNotDone{}, n.resets},
	}
}

func register(w worker.Registry, activities []any) {
	workflows.Register(w)
	for _, receiver := range activities {
		w.RegisterActivity(receiver)
	}
}

// showRetrying stores in the receipt that an effect failed and will be retried. It is for information only: if the
// write fails, the run continues.
func (n *Node) showRetrying(ctx context.Context, c effect.Call, reason string) {
	if err := n.Receipts.TransitionAsOf(ctx, c.AsOf, c.ReceiptID, receipt.Retrying, reason, reason); err != nil {
		n.log.WarnContext(ctx, "cannot record that an effect is retried", "receipt_id", c.ReceiptID, "error", err)
	}
}
