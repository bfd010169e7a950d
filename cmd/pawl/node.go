package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
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
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/cmd/internal/telemetry"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
)

// node is one process of pawl: what the ingress and the worker have in common. `pawl dev` runs both on
// one node.
type node struct {
	cfg *config.Config
	log *slog.Logger
	// pool and receipts are for effects; intakePool and intake for what takes webhooks and starts their workflows.
	pool, intakePool *pgxpool.Pool
	receipts, intake *receipt.Store
	telemetry        *telemetry.Telemetry
	temporal         client.Client
	// fits is set when the database's schema is known to be this binary's, stopping when a stop was asked for.
	fits, stopping atomic.Bool
	// parts are those that run; see join.
	parts   []ops.Part
	joining sync.Mutex
	// reaching orders the first calls to Temporal; see reach.
	reaching sync.Mutex
}

// newNode connects to nothing: Postgres and Temporal may be down when a process starts, and come back
// without it being restarted.
func newNode(ctx context.Context, cfg *config.Config, log *slog.Logger) (*node, error) {
	pool, err := newPool(ctx, cfg, schema.Handle, effectConns)
	if err != nil {
		return nil, err
	}
	intake, err := newPool(ctx, cfg, schema.Handle, intakeConns)
	if err != nil {
		return nil, err
	}
	tel, err := telemetry.New(log)
	if err != nil {
		return nil, err
	}
	options, err := cfg.Temporal.ClientOptions()
	if err != nil {
		return nil, err
	}
	// The SDK logs its own retries at warning level and above; a timeline of every start is ours.
	options.Logger = newSDKLogger(log)
	options.MetricsHandler = tel.Temporal()
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("temporal client: %w", err)
	}
	return &node{
		cfg: cfg, log: log, telemetry: tel, temporal: temporal,
		pool: pool, receipts: receipt.NewStore(pool, receipt.Options{}),
		intakePool: intake, intake: receipt.NewStore(intake, receipt.Options{}),
	}, nil
}

// The connections of a process: those that take webhooks and start their workflows, and those that run effects. Each
// part has its own, also where both are one process, so that nothing that effects wait for stops a webhook. Group
// commit needs few.
const (
	intakeConns = 8
	effectConns = 16
)

// newPool returns a pool of up to conns connections on the configured database, unless the URL says how many.
func newPool(ctx context.Context, cfg *config.Config, use schema.Use, conns int32) (*pgxpool.Pool, error) {
	options, err := poolOptions(cfg.Database.String(), cfg.Database.Value(), use, conns)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return pool, nil
}

// poolOptions are those of a pool on the DSN that name refers to.
func poolOptions(name, dsn string, use schema.Use, conns int32) (*pgxpool.Config, error) {
	options, err := parseDSN(name, dsn)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(dsn, "pool_max_conns") {
		options.MaxConns = conns
	}
	schema.Bound(options, use)
	return options, nil
}

func (n *node) close() {
	n.receipts.Close()
	n.intake.Close()
	n.temporal.Close()
	n.pool.Close()
	n.intakePool.Close()
	// Nothing is measured any more; an exporter that cannot be stopped is no fault of the run.
	_ = n.telemetry.Shutdown(context.Background())
}

// ready says why the node is not to be sent anything, whatever its parts are like.
func (n *node) ready() error {
	switch {
	case n.stopping.Load():
		return errors.New("it is being stopped")
	case !n.fits.Load():
		return errors.New("the database's schema has not been seen yet")
	}
	return nil
}

// join adds a part that runs to those that /readyz asks.
func (n *node) join(part ops.Part) {
	n.joining.Lock()
	defer n.joining.Unlock()
	n.parts = append(n.parts, part)
}

// running lists the parts that run, and Temporal. Where webhooks are taken, they alone decide whether the process is
// sent any.
func (n *node) running() []ops.Part {
	n.joining.Lock()
	defer n.joining.Unlock()
	if len(n.parts) == 0 {
		return nil
	}
	parts := slices.Clone(n.parts)
	for i := range parts {
		parts[i].Decides = parts[i].Name == webhooks || !slices.ContainsFunc(parts, func(p ops.Part) bool { return p.Name == webhooks })
	}
	return append(parts, ops.Part{Name: "temporal", Probe: n.probeTemporal})
}

// The parts of a process, as /readyz names them.
const (
	webhooks = "webhooks"
	effects  = "effects"
)

// probeTemporal asks Temporal whether it is there, unless somebody else is asking: see reach.
func (n *node) probeTemporal(ctx context.Context) (note string, err error) {
	if !n.reaching.TryLock() {
		return "", errors.New("it has not answered yet")
	}
	defer n.reaching.Unlock()
	_, err = n.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return "", err
}

// awaitSchema checks the schema of a database that was down when the node started, as soon as it is there.
func (n *node) awaitSchema(ctx context.Context) error {
	for !n.fits.Load() {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
		if err := n.checkSchema(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// checkSchema refuses a database that this binary does not fit, and lets one pass that is down.
func (n *node) checkSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	conn, err := n.pool.Acquire(ctx)
	if advice := schema.PoolerAdvice(err); advice != "" {
		return fmt.Errorf("the database (%s) takes no connection%s", n.cfg.Database, advice)
	}
	if err != nil {
		n.log.WarnContext(ctx, "database is not there yet", "error", err)
		return nil
	}
	defer conn.Release()
	version, err := schema.Version(ctx, conn.Conn())
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if err := checkSchemaVersion(version); err != nil {
		return err
	}
	// The version before works on while it is replaced, and is started anew when it has to be.
	if latest := schema.Latest(); version > latest {
		n.log.WarnContext(ctx, "the database was migrated by a newer pawl: its changes say whether this one may go on beside it",
			"database", version, "binary", latest)
	}
	n.fits.Store(true)
	if err := schema.CheckSession(ctx, conn.Conn()); err != nil {
		n.log.WarnContext(ctx, "what is locked may stop what is not", "error", err)
	}
	if err := n.receipts.CheckDurability(ctx); err != nil {
		n.log.WarnContext(ctx, "what is acknowledged may be lost in a crash", "error", err)
	}
	return nil
}

// reach makes the client learn what the server can do, before anything uses it. Whatever comes first does
// that otherwise, and where it starts a workflow the SDK (v1.50.0) reads the answer without the lock under
// which another goroutine, a starting worker, may be writing it.
func (n *node) reach(ctx context.Context) error {
	n.reaching.Lock()
	defer n.reaching.Unlock()
	_, err := n.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

// ensureSearchAttributes registers the search attributes that runs are started with: a start with an
// unknown one is refused. Where this is not allowed (Temporal Cloud), an administrator does it: where pawl may not
// even see whether that was done, it goes on as if it were. Nothing is started, and no worker, before it has
// succeeded.
func (n *node) ensureSearchAttributes(ctx context.Context) error {
	if err := n.reach(ctx); err != nil {
		return err
	}
	wanted := map[string]enumspb.IndexedValueType{}
	for _, name := range searchAttributes() {
		wanted[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	options, err := n.cfg.Temporal.ClientOptions()
	if err != nil {
		return err
	}
	namespace := options.Namespace
	if namespace == "" {
		namespace = client.DefaultNamespace
	}
	held, err := n.temporal.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	switch serviceerror.ToStatus(err).Code() {
	case codes.OK:
	case codes.PermissionDenied, codes.Unimplemented:
		n.log.WarnContext(ctx, "may not see whether search attributes are registered; starts are refused where they are not",
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
	_, err = n.temporal.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: wanted})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("register search attributes %v (an administrator may have to): %w", slices.Sorted(maps.Keys(wanted)), err)
	}
	return nil
}

// untilDone calls f until it succeeds or ctx ends, telling the log why it waits.
func (n *node) untilDone(ctx context.Context, what string, f func(context.Context) error) error {
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

// atOnce is for a part that need not linger: nobody sends to it.
func atOnce(*config.Config) time.Duration { return 0 }

// serve runs one part of pawl, and the ops listener beside it, until linger after the end of ctx. In that
// time it is not ready and works on, so that nothing meets a closed port while a load balancer still sends.
func (a *app) serve(ctx context.Context, linger func(*config.Config) time.Duration, part func(context.Context, *node) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	room := newHeadroom(a.env)
	defer runtime.KeepAlive(room)
	n, err := newNode(ctx, cfg, a.log)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.checkSchema(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := context.AfterFunc(ctx, func() {
		n.stopping.Store(true)
		time.AfterFunc(linger(cfg), stop)
	})
	defer ended()
	group, running := errgroup.WithContext(running)
	coreLeft := false
	group.Go(func() error {
		if err := n.awaitSchema(running); err != nil {
			return err
		}
		coreLeft = n.leaveCore(running, a.env)
		return nil
	})
	group.Go(func() error { return part(running, n) })
	group.Go(func() error { return n.runOps(running) })
	err = group.Wait()
	if coreLeft {
		runtime.SetDefaultGOMAXPROCS() // it knows nothing of GOMAXPROCS in the environment
	}
	return err
}

// runOps serves liveness, readiness and metrics.
func (n *node) runOps(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.Ops.Listen)
	if err != nil {
		return fmt.Errorf("listen for health and metrics (ops.listen): %w", err)
	}
	server := ops.New(ops.Config{Ready: n.ready, Parts: n.running, Metrics: n.telemetry.Handler(), Log: n.log})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return server.Shutdown(stop)
	})
	return group.Wait()
}
