package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/devstack/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// Node is pawl inside of this process: its activities, filled, for the naive workflow to run.
type Node struct {
	Pool       *pgxpool.Pool
	Receipts   *receipt.Store
	Activities []any
	Temporal   client.Client
	// Prepare registers the search attributes.
	Prepare func(context.Context) error
	Options worker.Options
	Close   func()
}

// FlowConfig is what [Flow] needs.
type FlowConfig struct {
	Options
	// Node makes a node of a configuration file.
	Node func(ctx context.Context, configFile string) (*Node, error)
	// Servers are the kinds of Temporal servers to run on: "dev", "postgres".
	Servers []string
	// Modes are the designs to measure: "naive", "pawl", "floor".
	Modes []string
	// InFlight are the numbers of events under way at once.
	InFlight []int
	// Events is how many events a round has; a round with a single event in flight has a quarter.
	Events int
	// TwoProcesses runs pawl's ingress and worker apart; otherwise they share a process, and with it
	// their Temporal client.
	TwoProcesses bool
	// Rounds is how often everything is repeated.
	Rounds int
}

// FlowResult is one row of the table that [Flow] returns.
type FlowResult struct {
	Server   string `json:"server"`
	Mode     string `json:"mode"`
	InFlight int    `json:"in_flight"`
	// PerSecond is events that came to their end, and P50 and P99 how long each took: "pawl" from the
	// POST to the last effect at its sink, "naive" from the start to the last effect, "floor" from
	// the start to the end of the workflow.
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	// HistoryEvents and StateTransitions are Temporal's, per workflow.
	HistoryEvents    float64 `json:"history_events"`
	StateTransitions float64 `json:"state_transitions"`
	// Commits are transactions that wrote into our own database, per event.
	Commits float64 `json:"commits"`
	CPU     CPU     `json:"cpu_ms"`
}

// The modes of [Flow].
const (
	modeNaive = "naive"
	modePawl  = "pawl"
	modeFloor = "floor"
)

// FlowModes are the modes of [Flow], in the order in which they take turns.
var FlowModes = []string{modeNaive, modePawl, modeFloor}

// Flow measures the way from a webhook to its last effect.
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
	// ours watches our Postgres through a database of its own, in which nothing else happens.
	ours   *pgx.Conn
	target forge.Target
	node   *Node
}

func flowOn(ctx context.Context, cfg FlowConfig, server string) (results []FlowResult, err error) {
	s, err := newStack(ctx, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	f := &flow{cfg: cfg, stack: s, sinks: newSinks()}
	if err := f.start(ctx, server); err != nil {
		return nil, err
	}
	defer func() {
		f.node.Close()
		_ = f.ours.Close(context.WithoutCancel(ctx))
	}()
	// A server takes its shards over at the first request for each, and is slow with it: starts would
	// time out, whose first tasks then wait for ten seconds.
	if _, err := f.round(ctx, modeFloor, 32, 256); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	type cell struct {
		mode     string
		inFlight int
	}
	rounds := map[cell][]FlowResult{}
	for round := range cfg.Rounds + 1 {
		for _, inFlight := range cfg.InFlight {
			events := cfg.Events
			if inFlight == 1 {
				events = max(events/4, 20)
			}
			if round == 0 {
				events = 2 * inFlight // the first time fills caches and pools, and does not count
			}
			for _, mode := range cfg.Modes {
				result, err := f.round(ctx, mode, inFlight, events)
				if err != nil {
					return nil, fmt.Errorf("%s with %d in flight: %w", mode, inFlight, err)
				}
				if round > 0 {
					cfg.say("round %d: %-5s %2d in flight: %6.1f/s, p50 %.1f ms", round, mode, inFlight,
						result.PerSecond, result.P50)
					rounds[cell{mode, inFlight}] = append(rounds[cell{mode, inFlight}], result)
				}
			}
		}
	}
	for _, inFlight := range cfg.InFlight {
		for _, mode := range cfg.Modes {
			results = append(results, flowMedian(server, mode, inFlight, rounds[cell{mode, inFlight}]))
		}
	}
	return results, nil
}

func flowMedian(server, mode string, inFlight int, rounds []FlowResult) FlowResult {
	return FlowResult{
		Server: server, Mode: mode, InFlight: inFlight,
		PerSecond:        medianOf(rounds, func(r FlowResult) float64 { return r.PerSecond }),
		P50:              medianOf(rounds, func(r FlowResult) float64 { return r.P50 }),
		P99:              medianOf(rounds, func(r FlowResult) float64 { return r.P99 }),
		HistoryEvents:    medianOf(rounds, func(r FlowResult) float64 { return r.HistoryEvents }),
		StateTransitions: medianOf(rounds, func(r FlowResult) float64 { return r.StateTransitions }),
		Commits:          medianOf(rounds, func(r FlowResult) float64 { return r.Commits }),
		CPU:              cpuMedian(rounds),
	}
}

// start starts the outside world, pawl's processes, and what the naive workflow needs. That has a
// database of its own, so that pawl's publisher does not take what the naive workflow shall.
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
		if _, err := s.run(ctx, "worker", databases[modePawl], "worker"); err != nil {
			return err
		}
	}
	in, err := s.run(ctx, name, databases[modePawl], args...)
	if err != nil {
		return err
	}
	f.target = forge.Target{URL: "http://" + in.ingress + "/hooks/stripe", Secret: s.secret, Sign: stripe.Provider.Sign}
	own, err := s.configure(modeNaive, databases[modeNaive])
	if err != nil {
		return err
	}
	if f.node, err = f.cfg.Node(ctx, own.configFile); err != nil {
		return err
	}
	if err := f.node.Prepare(ctx); err != nil {
		return err
	}
	f.ours, err = pgx.Connect(ctx, s.postgres.DSN("postgres"))
	return err
}

// taskQueue is that of the naive and the floor workflow.
const taskQueue = "bench"

// work runs a worker for the naive and the floor workflow, with the settings of pawl's, for as long
// as it is needed: an idle one would poll while pawl is measured.
func (f *flow) work() (stop func(), err error) {
	w := worker.New(f.node.Temporal, taskQueue, f.node.Options)
	w.RegisterWorkflowWithOptions(naive, workflow.RegisterOptions{Name: modeNaive})
	w.RegisterWorkflowWithOptions(floor, workflow.RegisterOptions{Name: modeFloor})
	for _, receiver := range f.node.Activities {
		w.RegisterActivity(receiver)
	}
	w.RegisterActivity(&publisher{pool: f.node.Pool, subscriber: f.stack.sandbox.URL() + "/events",
		client: activities.NewHTTPClient()})
	return w.Stop, w.Start()
}

func (f *flow) round(ctx context.Context, mode string, inFlight, events int) (FlowResult, error) {
	newJob := f.pawlJob
	switch mode {
	case modePawl:
	default:
		stop, err := f.work()
		if err != nil {
			return FlowResult{}, err
		}
		defer stop()
		newJob = f.naiveJob
		if mode == modeFloor {
			newJob = f.floorJob
		}
	}
	jobs, err := prepare(ctx, events, newJob)
	if err != nil {
		return FlowResult{}, err
	}
	before, err := f.commits(ctx)
	if err != nil {
		return FlowResult{}, err
	}
	cpu, err := f.stack.cpu(events)
	if err != nil {
		return FlowResult{}, err
	}
	took, ids, elapsed, err := drive(ctx, inFlight, jobs)
	if err != nil {
		return FlowResult{}, err
	}
	if err := f.settled(ctx, mode, ids); err != nil {
		return FlowResult{}, err
	}
	after, err := f.commits(ctx)
	if err != nil {
		return FlowResult{}, err
	}
	spent, err := f.stack.cpu(events)
	if err != nil {
		return FlowResult{}, err
	}
	slices.Sort(took)
	result := FlowResult{
		CPU:       spent.since(cpu),
		PerSecond: float64(events) / elapsed.Seconds(),
		P50:       percentile(took, 0.5), P99: percentile(took, 0.99),
		Commits: float64(after-before) / float64(events),
	}
	result.HistoryEvents, result.StateTransitions, err = f.cost(ctx, ids)
	return result, err
}

// settled waits until the workflows have ended, and fails when one has not done all that it should: a
// wrong result is not fast.
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

// commits counts the transactions that have written into our Postgres so far: those are given a
// number each, and are what waits for the disk.
func (f *flow) commits(ctx context.Context) (n int64, err error) {
	err = f.ours.QueryRow(ctx, `select pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&n)
	return n, err
}

// cost is what one workflow of a few cost Temporal, in the middle.
func (f *flow) cost(ctx context.Context, ids []string) (events, transitions float64, err error) {
	var lengths, counts []float64
	for _, id := range ids[:min(len(ids), 9)] {
		d, err := f.node.Temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return 0, 0, err
		}
		lengths = append(lengths, float64(d.WorkflowExecutionInfo.HistoryLength))
		counts = append(counts, float64(d.WorkflowExecutionInfo.StateTransitionCount))
	}
	return median(lengths), median(counts), nil
}
