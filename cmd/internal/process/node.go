// Package process runs an ingress, a worker or a console. It opens the connections, listens, watches and closes. The
// commands in cmd/pawl select the parts and pass the providers. The package creates the activities for
// [workflows.Flows] from the configuration.
//
// Postgres and Temporal may be down when a process starts, or fail while it runs. The process waits for them and
// reports this through /readyz and its log. It does not have to be restarted.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/handover"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/cmd/internal/telemetry"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/health"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/withheld"
	"github.com/pawlhq/pawl/workflows"
)

// Node is the common part of an ingress, a worker and a console. `pawl dev` runs all three on one node.
type Node struct {
	Config *config.Config
	// Pool, Receipts and Runs are used by effects. IntakePool, intake and starts are used to receive webhooks and to
	// start their workflows.
	Pool, IntakePool *pgxpool.Pool
	Receipts, intake *receipt.Store
	Runs, starts     *run.Store
	Temporal         client.Client
	commits          groupcommit.Config

	// Breaking configures when a sink is treated as down. Set it before RunWorker.
	Breaking effect.Breaking

	gates     gates
	resets    *resets
	effects   *effect.Runner
	kind      Kind // the kind of the process; "" if the process has all parts
	operator  *decide.Operator
	back      chan string
	log       *slog.Logger
	providers map[string]webhook.Provider
	telemetry *telemetry.Telemetry
	tracing   *telemetry.Tracing
	// fits is set when the schema of the database matches this binary. stopping is set when the process is about to
	// stop.
	fits, stopping atomic.Bool
	// auditBroken is set if the last check found that the audit trail was modified.
	auditBroken atomic.Bool
	// reloadFailed is set after a new configuration could not be used. The nodes of a process share their listeners.
	reloadFailed atomic.Bool
	listeners    *handover.Group
	// temporalAt is the address and the namespace of Temporal.
	temporalAt string
	// polling is set while the worker of the node polls Temporal.
	polling atomic.Bool
	// parts are the parts that run; see join.
	parts   []ops.Part
	joining sync.Mutex
	// reaching lets only one goroutine make the first call to Temporal; see reach.
	reaching sync.Mutex
}

// New creates a node without connecting to anything, because Postgres and Temporal may be down when a process starts.
// The caller must close the node.
func New(ctx context.Context, cfg *config.Config, providers map[string]webhook.Provider, log *slog.Logger) (n *Node,
	err error) {
	var opened []func()
	defer func() {
		for _, end := range opened { // it is empty after a success
			end()
		}
	}()
	pool, err := OpenPool(ctx, cfg, schema.Handle, EffectConns)
	if err != nil {
		return nil, err
	}
	opened = append(opened, pool.Close)
	intake, err := OpenPool(ctx, cfg, schema.Handle, IngressConns)
	if err != nil {
		return nil, err
	}
	opened = append(opened, intake.Close)
	tel, err := telemetry.New(log)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { _ = tel.Shutdown(context.WithoutCancel(ctx)) })
	tracing, err := newTracing(ctx, cfg.Tracing)
	if err != nil {
		return nil, err
	}
	opened = append(opened, func() { _ = tracing.Shutdown(context.WithoutCancel(ctx)) })
	interceptors, err := tracing.Interceptors()
	if err != nil {
		return nil, err
	}
	options, err := cfg.Temporal.ClientOptions()
	if err != nil {
		return nil, err
	}
	temporal, err := dial(options, log, tel.Temporal(), interceptors)
	if err != nil {
		return nil, err
	}
	opened = append(opened, temporal.Close)
	commits := receipt.Options{}
	if commits.Commit.Flushed, err = measureCommits(tel.Meter()); err != nil {
		return nil, err
	}
	n = &Node{
		Config: cfg, log: log, providers: providers, telemetry: tel, tracing: tracing, Temporal: temporal,
		temporalAt: temporalAt(options), listeners: startedListeners(), gates: newGates(cfg),
		back: make(chan string, 64), Breaking: effect.DefaultBreaking,
		Pool: pool, Receipts: receipt.NewStore(pool, commits), Runs: run.NewStore(pool, commits),
		commits: commits.Commit, IntakePool: intake, intake: receipt.NewStore(intake, commits),
		starts: run.NewStore(intake, commits),
	}
	opened = []func(){n.Close}
	n.resets = newResets(temporal, n.Runs.Intervened, log)
	if n.operator, err = NewOperator(cfg, pool, n.Receipts, temporal, log); err != nil {
		return nil, err
	}
	if err := observeReload(tel.Meter(), &n.reloadFailed); err != nil {
		return nil, err
	}
	if err := observePools(tel.Meter(), map[string]*pgxpool.Pool{"effects": pool, "intake": intake}); err != nil {
		return nil, err
	}
	opened = nil
	return n, nil
}

// newTracing returns nil if no collector is configured.
func newTracing(ctx context.Context, c config.Tracing) (*telemetry.Tracing, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	return telemetry.NewTracing(ctx, strings.TrimSuffix(c.Endpoint, "/"), "pawl", c.SampleRatio)
}

// startedListeners returns the listeners of a process that has one node.
func startedListeners() *handover.Group {
	g := new(handover.Listeners).Group()
	g.Start()
	return g
}

// Close closes everything that New opened.
func (n *Node) Close() {
	n.Receipts.Close()
	n.Runs.Close()
	n.intake.Close()
	n.starts.Close()
	n.Temporal.Close()
	n.Pool.Close()
	n.IntakePool.Close()
	// Errors are ignored, because the metrics are not needed any more.
	_ = n.telemetry.Shutdown(context.Background())
	sending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.tracing.Shutdown(sending); err != nil {
		n.log.Warn("spans are dropped", "error", err)
	}
}

// ready returns an error if the node must not get requests, apart from the state of its parts.
func (n *Node) ready() error {
	switch {
	case n.stopping.Load():
		return errors.New("it is being stopped")
	case !n.fits.Load():
		return errors.New("the version of the database's schema is not known yet")
	}
	return nil
}

// join adds a part to the parts that /readyz checks.
func (n *Node) join(part ops.Part) {
	n.joining.Lock()
	defer n.joining.Unlock()
	n.parts = append(n.parts, part)
}

// running returns the parts that run, and Temporal. Only the main part of the given kind determines whether the process
// is ready. The list is empty until that part runs. For example, an ingress is not ready before it listens.
func (n *Node) running(kind Kind) []ops.Part {
	n.joining.Lock()
	defer n.joining.Unlock()
	parts, runs := slices.Clone(n.parts), false
	for i := range parts {
		parts[i].Decides = parts[i].Name == kind.mainPart()
		runs = runs || parts[i].Decides
	}
	if !runs {
		return nil
	}
	return append(parts, ops.Part{Name: temporalPart, Probe: n.probeTemporal})
}

// working returns an error if the node is not ready, or its main part fails. For a worker, Temporal must respond as
// well.
func working(ctx context.Context, n *Node, kind Kind) error {
	if err := n.ready(); err != nil {
		return err
	}
	parts := n.running(kind)
	if len(parts) == 0 {
		return errors.New("it is starting")
	}
	for _, p := range parts {
		if !p.Decides && (kind != Worker || p.Name != temporalPart) {
			continue
		}
		if _, err := p.Probe(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// The parts of a process, as /readyz names them.
const (
	webhooks     = "webhooks"
	effects      = "effects"
	pages        = "pages"
	temporalPart = "temporal"
)

// probeTemporal checks that Temporal responds. It does nothing if another first call is in progress; see reach.
func (n *Node) probeTemporal(ctx context.Context) (note string, err error) {
	if !n.reaching.TryLock() {
		return "", errors.New("no answer yet")
	}
	defer n.reaching.Unlock()
	_, err = n.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return "", err
}

// awaitSchema waits until the database responds and checks its schema. The node calls it if the database was down when
// the node started.
func (n *Node) awaitSchema(ctx context.Context) error {
	for !n.fits.Load() {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
		if err := n.CheckSchema(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// CheckSchema returns an error if the schema of the database does not match this binary. It returns nil if the database
// is down.
func (n *Node) CheckSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := n.Pool.Acquire(ctx)
	if advice := schema.PoolerAdvice(err); advice != "" {
		return fmt.Errorf("the database (%s) accepts no connection%s", n.Config.Database, advice)
	}
	if err != nil {
		n.log.WarnContext(ctx, "the database is not available yet", "error", err)
		return nil
	}
	defer conn.Release()
	version, err := schema.Version(ctx, conn.Conn())
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if err := CheckSchemaVersion(version); err != nil {
		return err
	}
	// During a deployment, the previous version continues to work, and may be restarted.
	if latest := schema.Latest(); version > latest {
		n.log.WarnContext(ctx, "a newer version of pawl has migrated the database: read its changelog to decide whether this version may continue",
			"database", version, "binary", latest)
	}
	if n.kind != Console { // the role of a console cannot write, and a console has no effects
		if err := withheld.Begin(ctx, conn, n.Config.Modes(), n.Config.Effects.From, "the first start"); err != nil {
			return fmt.Errorf("%w: the role of this process needs the rights that `pawl migrate` grants", err)
		}
	}
	n.fits.Store(true)
	if err := schema.CheckSession(ctx, conn.Conn()); err != nil {
		n.log.WarnContext(ctx, "a locked row may block other work", "error", err)
	}
	if err := health.CheckDurability(ctx, conn); err != nil {
		n.log.WarnContext(ctx, "acknowledged events may be lost in a crash", "error", err)
	}
	return nil
}

// reach makes the Temporal client read the capabilities of the server before anything else uses the client. Otherwise
// the first call of the client reads them. If that call starts a workflow, the SDK (v1.51.0) reads them without a lock
// while a starting worker may be writing them.
func (n *Node) reach(ctx context.Context) error {
	n.reaching.Lock()
	defer n.reaching.Unlock()
	_, err := n.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

// SearchAttributes returns the names of the search attributes of runs, which have the type Keyword.
func SearchAttributes() (names []string) {
	for _, key := range workflows.SearchAttributeKeys() {
		names = append(names, key.GetName())
	}
	return names
}

// EnsureSearchAttributes registers the search attributes of runs, because Temporal rejects a start with an unknown
// attribute. If pawl has no permission to register them (as on Temporal Cloud), an administrator must do it. If pawl
// has no permission to list them either, it assumes that they are registered. No run and no worker starts before
// EnsureSearchAttributes has succeeded.
func (n *Node) EnsureSearchAttributes(ctx context.Context) error {
	if err := n.reach(ctx); err != nil {
		return err
	}
	wanted := map[string]enumspb.IndexedValueType{}
	for _, name := range SearchAttributes() {
		wanted[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	namespace, err := n.Config.Temporal.Namespace()
	if err != nil {
		return err
	}
	held, err := n.Temporal.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	switch serviceerror.ToStatus(err).Code() {
	case codes.OK:
	case codes.PermissionDenied, codes.Unimplemented:
		n.log.WarnContext(ctx, "no permission to list search attributes; if one is missing, Temporal refuses to start workflows",
			"search_attributes", slices.Sorted(maps.Keys(wanted)), "error", err)
		return nil
	default:
		return fmt.Errorf("list search attributes: %w", err)
	}
	maps.DeleteFunc(wanted, func(name string, _ enumspb.IndexedValueType) bool {
		_, ok := held.CustomAttributes[name]
		return ok
	})
	if len(wanted) == 0 {
		return nil
	}
	_, err = n.Temporal.OperatorService().AddSearchAttributes(ctx,
		&operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: wanted})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("register search attributes %v (an administrator may have to): %w",
			slices.Sorted(maps.Keys(wanted)), err)
	}
	return nil
}

// UntilDone calls f until it succeeds or ctx ends. It logs why it retries.
func (n *Node) UntilDone(ctx context.Context, what string, f func(context.Context) error) error {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.log.WarnContext(ctx, "still waiting", "to", what, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
