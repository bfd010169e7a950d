package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/change"
	"github.com/pawlhq/pawl/cmd/internal/handover"
	"github.com/pawlhq/pawl/schema/audit"
)

const (
	// readyWithin is how long a node with a new configuration may take until it is ready. A worker may compare the
	// billing rules of its file with the active ones first.
	readyWithin = 2 * time.Minute
	// leaveFor is how long an old node answers the requests of its open connections. Each answer closes its connection.
	leaveFor = 5 * time.Second
	// retryAfter is the pause after which a process tries a reload again if the new node was not ready in time.
	retryAfter = time.Minute
	// lookEvery is how often a process looks for requests of operators, and for changed files of secrets. A changed
	// file is used after it stayed the same for this time, because it may be written in several steps.
	lookEvery = 5 * time.Second
)

// server runs a part of pawl with one configuration after the other.
type server struct {
	Setup
	kind      Kind
	part      func(context.Context, *Node) error
	listeners handover.Listeners
	current   atomic.Pointer[generation]
}

// generation is a node that runs with one configuration.
type generation struct {
	node *Node
	stop context.CancelFunc
	// ended is closed when the node has stopped with err.
	ended chan struct{}
	err   error
}

func (p *server) node() *Node { return p.current.Load().node }

// begin starts a node. It accepts connections after use. It runs until ctx ends or stop is called.
func (p *server) begin(ctx context.Context, cfg *config.Config) (*generation, error) {
	n, err := New(ctx, cfg, p.Providers, p.Log)
	if err != nil {
		return nil, err
	}
	n.kind, n.listeners = p.kind, p.listeners.Group()
	if err := n.CheckSchema(ctx); err != nil {
		n.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	g := &generation{node: n, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		defer n.Close()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return n.awaitSchema(ctx) })
		group.Go(func() error { return p.part(ctx, n) })
		g.err = group.Wait()
	}()
	return g, nil
}

// use makes a node the current one, and lets it accept connections.
func (p *server) use(ctx context.Context, g *generation) {
	p.current.Store(g)
	if ctx.Err() != nil { // the process has begun to stop
		g.node.stopping.Store(true)
	}
	g.node.listeners.Start()
}

// awaitSchema waits until the database of the current node has answered. It returns false if ctx ends first.
func (p *server) awaitSchema(ctx context.Context) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !p.node().fits.Load() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// run waits until the current node ends, and replaces it after a change of the configuration. It reloads nothing after
// ctx has ended. All nodes end with running.
func (p *server) run(ctx, running context.Context, hangups <-chan os.Signal) error {
	var old sync.WaitGroup
	defer old.Wait()
	tick := time.NewTicker(cmp.Or(p.lookEvery, lookEvery))
	defer tick.Stop()
	look := looker{server: p}
	if p.Load == nil {
		tick.Stop()
	} else {
		look.requested(ctx) // earlier requests are older than the configuration
	}
	for {
		current := p.current.Load()
		var why string
		select {
		case <-current.ended:
			return current.err
		case <-hangups:
			why = "SIGHUP"
		case <-tick.C:
			why = look.once(ctx)
		}
		if why == "" || ctx.Err() != nil {
			continue
		}
		next, keys, err := p.reload(ctx, running, current)
		look.tried(why, err)
		switch {
		case ctx.Err() != nil:
			if err == nil { // the process has begun to stop, so the current node stays
				old.Go(func() { next.end(ctx, p.Log) })
			}
			continue
		case err != nil:
			current.node.reloadFailed.Store(true)
			p.Log.ErrorContext(ctx, "the new configuration is not used", "cause", why, "error", err)
			continue
		}
		p.use(ctx, next)
		p.Log.InfoContext(ctx, "the new configuration is used", "cause", why, "changed", keys)
		old.Go(func() { current.leave(ctx, running, p.Log) })
		p.audit(ctx, next.node, why, keys)
	}
}

// leave lets the clients of a node close their connections, and then ends the node.
func (g *generation) leave(ctx, running context.Context, log *slog.Logger) {
	g.node.stopping.Store(true)
	g.node.listeners.Leave()
	select {
	case <-time.After(leaveFor):
	case <-running.Done():
	case <-g.ended:
		log.WarnContext(ctx, "the node of the previous configuration has failed", "error", g.err)
	}
	g.end(ctx, log)
}

// end stops the node and waits until it has ended.
func (g *generation) end(ctx context.Context, log *slog.Logger) {
	g.stop()
	if <-g.ended; g.err != nil {
		log.WarnContext(ctx, "a part of the previous configuration did not stop in time", "error", g.err)
	}
}

// errNotReady is a failure that may pass by itself.
var errNotReady = errors.New("the node with the new configuration is not ready")

// reload starts a node with the content of the file, and waits until it is ready. If the file is invalid, changes a
// setting that needs a restart, or the node does not become ready, reload returns an error, and the current node
// continues with its configuration. keys are the changed settings.
func (p *server) reload(ctx, running context.Context, current *generation) (next *generation, keys []string,
	err error) {
	cfg, err := p.Load()
	if err != nil {
		return nil, nil, err
	}
	keys = change.Between(current.node.Config, cfg)
	if fixed, err := needRestart(current.node, cfg, keys); err != nil {
		return nil, nil, err
	} else if len(fixed) > 0 {
		return nil, nil, fmt.Errorf("a change of %s needs a restart", strings.Join(fixed, ", "))
	}
	if next, err = p.begin(running, cfg); err != nil {
		return nil, nil, err
	}
	if err := p.awaitReady(ctx, next); err != nil {
		next.stop()
		<-next.ended
		if current.node.polling.Load() { // the schedules of the refused configuration
			err = errors.Join(err, current.node.EnsureSchedules(ctx))
		}
		return nil, nil, err
	}
	return next, keys, nil
}

// needRestart lists the changed settings that need a restart. Temporal's server and namespace are in a file of the SDK.
// Credentials of the same database may change.
func needRestart(current *Node, cfg *config.Config, keys []string) (fixed []string, err error) {
	for _, key := range keys {
		if change.NeedsRestart(key) && (key != "database" || !sameDatabase(current.Config, cfg)) {
			fixed = append(fixed, key)
		}
	}
	options, err := cfg.Temporal.ClientOptions()
	if err != nil {
		return nil, err
	}
	if current.temporalAt != temporalAt(options) {
		fixed = append(fixed, "Temporal's address or namespace")
	}
	return fixed, nil
}

// sameDatabase reports whether two configurations use the same database, with the same or other credentials.
func sameDatabase(a, b *config.Config) bool {
	at := func(c *config.Config) string {
		options, err := ParseDSN(c.Database.String(), c.Database.Value())
		if err != nil {
			return ""
		}
		return fmt.Sprint(options.ConnConfig.Host, " ", options.ConnConfig.Port, " ", options.ConnConfig.Database)
	}
	return at(a) != "" && at(a) == at(b)
}

// temporalAt returns the address and the namespace of Temporal.
func temporalAt(o client.Options) string { return o.HostPort + " " + o.Namespace }

// awaitReady waits until all parts of the node work. A worker must poll Temporal.
func (p *server) awaitReady(ctx context.Context, g *generation) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-g.ended:
			return fmt.Errorf("it stopped before it was ready: %w", cmp.Or(g.err, errNotReady))
		default:
		}
		err := p.works(ctx, g.node)
		if err == nil {
			return nil
		}
		select {
		case <-g.ended:
		case <-ctx.Done():
			return fmt.Errorf("%w within %s: %w", errNotReady, readyWithin, err)
		case <-tick.C:
		}
	}
}

// works returns an error if a part of the node does not work yet.
func (p *server) works(ctx context.Context, n *Node) error {
	for _, kind := range append([]Kind{p.kind}, p.Also...) {
		if err := working(ctx, n, kind); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if kind == Worker && !n.polling.Load() {
			return errors.New("worker: it does not poll Temporal yet")
		}
	}
	return nil
}

// observeReload exports whether the process uses its file.
func observeReload(meter metric.Meter, failed *atomic.Bool) error {
	_, err := meter.Int64ObservableGauge("pawl_config_last_reload_successful", metric.WithDescription(
		"1 if the process uses the newest configuration that it has read, or 0 if it has refused it."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			value := int64(1)
			if failed.Load() {
				value = 0
			}
			o.Observe(value)
			return nil
		}))
	return err
}

// auditWithin bounds the wait for the audit trail.
const auditWithin = 10 * time.Second

// audit records the keys of the changed settings. The database roles of an ingress and of a console cannot write to
// the audit trail, so only their logs contain the change.
func (p *server) audit(ctx context.Context, n *Node, why string, keys []string) {
	if p.kind != Worker && !slices.Contains(p.Also, Worker) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, auditWithin)
	defer cancel()
	err := n.operator.Audit.Append(ctx, audit.Action{
		RequestID: "reload-" + uuid.NewString(), Actor: "pawl", Action: "reload-configuration",
		Target: processName(p.kind), Reason: why, After: map[string]any{"changed": keys},
	})
	if err != nil {
		p.Log.WarnContext(ctx, "the audit trail does not contain the new configuration", "error", err)
	}
}
