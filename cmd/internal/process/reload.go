package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/change"
	"github.com/pawlhq/pawl/cmd/internal/handover"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/reload"
)

// readyWithin is how long a node with a new configuration may take until it is ready.
const readyWithin = 30 * time.Second

// server runs a part of pawl with one configuration after the other.
type server struct {
	Setup
	kind      Kind
	part      func(context.Context, *Node) error
	listeners handover.Listeners
	current   atomic.Pointer[generation]
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

// generation is a node that runs with one configuration.
type generation struct {
	node *Node
	stop context.CancelFunc
	// ended is closed when the node has stopped with err.
	ended chan struct{}
	err   error
}

// begin starts a node. It runs until ctx ends or stop is called.
func (p *server) begin(ctx context.Context, cfg *config.Config) (*generation, error) {
	n, err := New(ctx, cfg, p.Providers, p.Log)
	if err != nil {
		return nil, err
	}
	n.kind, n.listeners = p.kind, &p.listeners
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

// run waits until the current node ends, and replaces it after a change of the configuration. It reloads nothing after
// ctx has ended. All nodes end with running.
func (p *server) run(ctx, running context.Context) error {
	var old sync.WaitGroup
	defer old.Wait()
	changes := p.changes(ctx)
	for {
		current := p.current.Load()
		select {
		case <-current.ended:
			return current.err
		case why := <-changes:
			next, keys, err := p.reload(ctx, running, current)
			if err != nil {
				current.node.reloadFailed.Store(true)
				p.Log.ErrorContext(ctx, "the new configuration is not used", "cause", why, "error", err)
				continue
			}
			p.current.Store(next)
			p.Log.InfoContext(ctx, "the new configuration is used", "cause", why, "changed", keys)
			p.audit(ctx, next.node, why, keys)
			old.Go(func() { current.end(ctx, p.Log) })
		}
	}
}

// end stops the node and waits until it has ended.
func (g *generation) end(ctx context.Context, log *slog.Logger) {
	g.stop()
	if <-g.ended; g.err != nil {
		log.WarnContext(ctx, "a part did not stop in time for the new configuration", "error", g.err)
	}
}

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
	if slices.ContainsFunc(keys, change.NeedsRestart) {
		fixed := slices.DeleteFunc(keys, func(key string) bool { return !change.NeedsRestart(key) })
		return nil, nil, fmt.Errorf("a change of %s needs a restart", strings.Join(fixed, ", "))
	}
	if next, err = p.begin(running, cfg); err != nil {
		return nil, nil, err
	}
	if err := next.awaitReady(ctx, p.kind); err != nil {
		next.end(ctx, p.Log)
		return nil, nil, err
	}
	return next, keys, nil
}

// awaitReady waits until the node can do its work.
func (g *generation) awaitReady(ctx context.Context, kind Kind) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := working(ctx, g.node, kind)
		if err == nil {
			return nil
		}
		select {
		case <-g.ended:
			return errors.Join(g.err, errors.New("it stopped before it was ready"))
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s: %w", readyWithin, err)
		case <-tick.C:
		}
	}
}

// lookEvery is how often a process looks for requests of operators, and for changed files of secrets. A changed file is
// used after it stayed the same for this time, because it may be written in several steps.
const lookEvery = 5 * time.Second

// changes returns a channel with the causes of reloads: signals, requests of operators, and changed files of secrets.
func (p *server) changes(ctx context.Context) <-chan string {
	changes := make(chan string)
	if p.Load == nil {
		return changes
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangup)
		tick := time.NewTicker(cmp.Or(p.lookEvery, lookEvery))
		defer tick.Stop()
		look := looker{server: p, used: stamps(p.Config)}
		look.before = look.used
		look.requested(ctx) // earlier requests are older than the configuration
		for {
			why := ""
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				why = "SIGHUP"
			case <-tick.C:
				why = look.once(ctx)
			}
			if why == "" {
				continue
			}
			look.used = stamps(p.current.Load().node.Config)
			select {
			case changes <- why:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes
}

// looker looks for causes of reloads.
type looker struct {
	server *server
	// used describes the files of the current configuration, and before the files at the last look.
	used, before string
	// request is the number of the newest request of an operator. known is set when it was read.
	request int64
	known   bool
}

// once returns the cause of a reload, or "".
func (l *looker) once(ctx context.Context) string {
	now := stamps(l.server.current.Load().node.Config)
	changed := now != l.used && now == l.before
	l.before = now
	switch {
	case l.requested(ctx):
		return "an operator requested it"
	case changed:
		return "a file of a secret has changed"
	}
	return ""
}

// requested reports whether an operator has made a request since the last call. It returns false while the database is
// down, and reports the request later.
func (l *looker) requested(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	newest, err := reload.Newest(ctx, l.server.current.Load().node.Pool, string(l.server.kind))
	if err != nil {
		l.server.Log.DebugContext(ctx, "requests of reloads are unknown", "error", err)
		return false
	}
	before, known := l.request, l.known
	l.request, l.known = newest, true
	return known && newest > before
}

// stamps describes the times and sizes of the secrets' files. It omits a file that does not exist.
func stamps(cfg *config.Config) string {
	var b strings.Builder
	for _, path := range cfg.SecretFiles {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, path, info.ModTime().UnixNano(), info.Size())
		}
	}
	return b.String()
}

// audit records the keys of the changed settings. The database roles of an ingress and of a console cannot write to
// the audit trail, so only their logs contain the change.
func (p *server) audit(ctx context.Context, n *Node, why string, keys []string) {
	if !p.Worker {
		return
	}
	err := n.operator.Audit.Append(ctx, audit.Action{
		RequestID: "reload-" + uuid.NewString(), Actor: "pawl", Action: "reload-configuration",
		Target: processName(p.kind), Reason: why, After: map[string]any{"changed": keys},
	})
	if err != nil {
		p.Log.WarnContext(ctx, "the audit trail does not contain the new configuration", "error", err)
	}
}
