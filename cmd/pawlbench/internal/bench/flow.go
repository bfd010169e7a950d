package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/workflows"
)

// FlowConfig configures [Flow].
type FlowConfig struct {
	Options
	// Servers are the kinds of Temporal servers: "dev", "postgres".
	Servers []string
	// Modes are the designs to measure: "naive", "pawl", "floor".
	Modes []string
	// InFlight are the numbers of concurrent events.
	InFlight []int
	// Events is how many events a round has. A round with one event in flight has a quarter of them.
	Events int
	// TwoProcesses runs pawl's ingress and worker as two processes. Otherwise ingress and worker share a process and
	// its Temporal client.
	TwoProcesses bool
	// Rounds is how often everything is repeated.
	Rounds int
}

// FlowResult is one row of the table that [Flow] returns.
type FlowResult struct {
	Server   string `json:"server"`
	Mode     string `json:"mode"`
	InFlight int    `json:"in_flight"`
	// PerSecond is the number of completed events per second. P50 and P99 are the durations: for "pawl" from the POST
	// to the last effect at its sink, for "naive" from the start to the last effect, for "floor" from the start to the
	// end of the workflow.
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	// HistoryEvents and StateTransitions are Temporal's figures per workflow.
	HistoryEvents    float64 `json:"history_events"`
	StateTransitions float64 `json:"state_transitions"`
	Spent
}

// Spent is the cost of an event outside of Temporal.
type Spent struct {
	// Commits is the number of transactions that wrote to pawl's own database, WALKB the size of its write-ahead log in
	// kilobytes.
	Commits float64 `json:"commits"`
	WALKB   float64 `json:"wal_kb"`
	CPU     CPU     `json:"cpu_ms"`
}

func (s *Spent) figures() []*float64 {
	c := &s.CPU
	return []*float64{&s.Commits, &s.WALKB, &c.Pawl, &c.Postgres, &c.Temporal, &c.TemporalPostgres, &c.Sandbox}
}

func (r *FlowResult) figures() []*float64 {
	return append(r.Spent.figures(), &r.PerSecond, &r.P50, &r.P99, &r.HistoryEvents, &r.StateTransitions)
}

// The modes of [Flow].
const (
	modeNaive = "naive"
	modePawl  = "pawl"
	modeFloor = "floor"
)

// FlowModes are the modes of [Flow] in the order of measurement.
var FlowModes = []string{modeNaive, modePawl, modeFloor}

// Flow measures the time from a webhook to its last effect.
func Flow(ctx context.Context, cfg FlowConfig) ([]FlowResult, error) {
	var results []FlowResult
	for _, server := range cfg.Servers {
		found, err := flowOn(ctx, cfg, server)
		if err != nil {
			return nil, fmt.Errorf("on the %s server: %w", server, err)
		}
		results = append(results, found...)
	}
	return results, nil
}

// flow is a run on one Temporal server.
type flow struct {
	cfg   FlowConfig
	stack *stack
	sinks *sinks
	// ours reads statistics of pawl's Postgres through an otherwise unused database.
	ours   *pgx.Conn
	target forge.Target
	node   *process.Node
	book   *ledger.Store
	// activities are pawl's activities, which the naive workflow runs.
	activities []any
}

func flowOn(ctx context.Context, cfg FlowConfig, server string) (results []FlowResult, err error) {
	s, err := newStack(ctx, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := &flow{cfg: cfg, stack: s, sinks: newSinks()}
	defer f.stop()
	if err := f.start(ctx, server); err != nil {
		return nil, err
	}
	// A server acquires each of its shards at the first request for it, and is slow until then: starts would time out,
	// and their first tasks would wait for ten seconds.
	if _, err := f.round(ctx, FlowResult{Mode: modeFloor, InFlight: 32}, 256); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	var rows []FlowResult
	for _, inFlight := range cfg.InFlight {
		for _, mode := range cfg.Modes {
			rows = append(rows, FlowResult{Server: server, Mode: mode, InFlight: inFlight})
		}
	}
	return inTurns(rows, cfg.Rounds, func(round int, r FlowResult) (FlowResult, error) {
		events := cfg.Events
		if r.InFlight == 1 {
			events = max(events/4, 20)
		}
		if round == 0 {
			events = 2 * r.InFlight
		}
		r, err := f.round(ctx, r, events)
		if err != nil {
			return r, fmt.Errorf("%s with %d in flight: %w", r.Mode, r.InFlight, err)
		}
		cfg.say("round %d: %-5s %2d in flight: %6.1f/s, p50 %.1f ms", round, r.Mode, r.InFlight, r.PerSecond, r.P50)
		return r, nil
	})
}

// start starts the sandbox, pawl's processes, and the parts of the naive workflow. The naive workflow has its own
// database, so that pawl's publisher does not take its events.
func (f *flow) start(ctx context.Context, server string) (err error) {
	s := f.stack
	s.sandbox, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Config{
		Dir: filepath.Join(s.dir, "sandbox"), Log: s.Log, Accepted: f.sinks.accepted,
	})
	if err != nil {
		return err
	}
	if err := s.startTemporal(ctx, server); err != nil {
		return err
	}
	databases := map[string]string{}
	for _, name := range []string{modePawl, modeNaive} {
		if databases[name], err = s.database(ctx, name); err != nil {
			return err
		}
	}
	name, args := "ingress+worker", []string{"ingress", "--worker"}
	if f.cfg.TwoProcesses {
		name, args = "ingress", []string{"ingress"}
		if _, err := s.run(ctx, s.Pawl, "worker", databases[modePawl], "worker"); err != nil {
			return err
		}
	}
	in, err := s.run(ctx, s.Pawl, name, databases[modePawl], args...)
	if err != nil {
		return err
	}
	f.target = forge.Target{URL: "http://" + in.ingress + "/hooks/stripe", Secret: s.secret, Sign: stripe.Provider.Sign}
	own, err := s.configure(modeNaive, databases[modeNaive])
	if err != nil {
		return err
	}
	cfg, err := config.Load(own.configFile, os.LookupEnv, Providers())
	if err != nil {
		return err
	}
	if f.node, err = process.New(ctx, cfg, Providers(), s.Log); err != nil {
		return err
	}
	if f.book, _, f.activities, err = f.node.Equip(); err != nil {
		return err
	}
	if err := f.node.EnsureSearchAttributes(ctx); err != nil {
		return err
	}
	f.ours, err = pgx.Connect(ctx, s.postgres.DSN("postgres"))
	return err
}

// stop stops everything that start has started outside of the stack.
func (f *flow) stop() {
	if f.book != nil {
		f.book.Close()
	}
	if f.node != nil {
		f.node.Close()
	}
	if f.ours != nil {
		_ = f.ours.Close(context.Background())
	}
}

// taskQueue is the task queue of the naive and the floor workflow.
const taskQueue = "bench"

// work runs a worker for the naive and the floor workflow, with the settings of pawl's worker, until stop is called. An
// idle worker would poll while pawl is measured.
func (f *flow) work() (stop func(), err error) {
	w := worker.New(f.node.Temporal, taskQueue, f.node.WorkerOptions())
	w.RegisterWorkflowWithOptions(naive, workflow.RegisterOptions{Name: modeNaive})
	w.RegisterWorkflowWithOptions(floor, workflow.RegisterOptions{Name: modeFloor})
	for _, receiver := range f.activities {
		w.RegisterActivity(receiver)
	}
	w.RegisterActivity(&publisher{pool: f.node.Pool, destination: f.stack.sandbox.URL() + "/events",
		client: httpcall.NewClient()})
	return w.Stop, w.Start()
}

// round measures the row's mode with the given number of events.
func (f *flow) round(ctx context.Context, r FlowResult, events int) (FlowResult, error) {
	newJob := f.pawlJob
	if r.Mode != modePawl {
		stop, err := f.work()
		if err != nil {
			return r, err
		}
		defer stop()
		newJob = f.naiveJob
		if r.Mode == modeFloor {
			newJob = f.floorJob
		}
	}
	jobs, err := prepare(ctx, events, newJob)
	if err != nil {
		return r, err
	}
	before, err := f.spent(ctx)
	if err != nil {
		return r, err
	}
	took, ids, elapsed, err := drive(ctx, r.InFlight, jobs)
	if err != nil {
		return r, err
	}
	if err := f.settled(ctx, r.Mode, ids); err != nil {
		return r, err
	}
	if r.Spent, err = f.spent(ctx); err != nil {
		return r, err
	}
	r.Spent = r.since(before, events)
	slices.Sort(took)
	r.PerSecond, r.P50, r.P99 = float64(events)/elapsed.Seconds(), percentile(took, 0.5), percentile(took, 0.99)
	r.HistoryEvents, r.StateTransitions, err = f.cost(ctx, ids)
	return r, err
}

// settled waits until the workflows have ended. It returns an error if a workflow has not done all of its work, because
// a wrong result must not count as fast.
func (f *flow) settled(ctx context.Context, mode string, ids []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for _, id := range ids {
		group.Go(func() error {
			run := f.node.Temporal.GetWorkflow(ctx, id, "")
			if mode != modePawl {
				return run.Get(ctx, nil)
			}
			var result workflows.EventResult
			if err := run.Get(ctx, &result); err != nil {
				return err
			}
			if result.Outcome != "processed" || len(result.Effects) != 5 {
				return fmt.Errorf("%s ended %s with effects %+v", id, result.Outcome, result.Effects)
			}
			return nil
		})
	}
	return group.Wait()
}

// spentSQL counts the transactions that have written so far. They have a transaction ID, and only they wait for the
// disk.
const spentSQL = `
select pg_snapshot_xmax(pg_current_snapshot())::text::float8,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 / 1024`

// spent returns the costs so far: pawl's Postgres, and the CPU time of all parts.
func (f *flow) spent(ctx context.Context) (s Spent, err error) {
	if err = f.ours.QueryRow(ctx, spentSQL).Scan(&s.Commits, &s.WALKB); err == nil {
		s.CPU, err = f.stack.cpu()
	}
	return s, err
}

// since returns the difference to an earlier reading, per event.
func (s Spent) since(before Spent, events int) Spent {
	for i, figure := range s.figures() {
		*figure = (*figure - *before.figures()[i]) / float64(events)
	}
	return s
}

// cost returns the median cost of a few workflows in Temporal.
func (f *flow) cost(ctx context.Context, ids []string) (events, transitions float64, err error) {
	var lengths, counts []float64
	for _, id := range ids[:min(len(ids), 9)] {
		d, err := f.node.Temporal.DescribeWorkflow(ctx, id, "")
		if err != nil {
			return 0, 0, err
		}
		lengths = append(lengths, float64(d.RawResponse.WorkflowExecutionInfo.HistoryLength))
		counts = append(counts, float64(d.RawResponse.WorkflowExecutionInfo.StateTransitionCount))
	}
	return median(lengths), median(counts), nil
}
