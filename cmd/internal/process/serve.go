package process

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Setup contains everything that [Serve] needs to run a process.
type Setup struct {
	Config    *config.Config
	Providers map[string]webhook.Provider
	Env       func(string) (string, bool)
	Log       *slog.Logger
	// Load loads the configuration file again. If it is nil, the process keeps its configuration.
	Load func() (*config.Config, error)
	// Also lists the other kinds of processes that run in this process.
	Also []Kind
	// lookEvery replaces the constant in tests.
	lookEvery time.Duration
}

// Kind is a kind of process, as named in the configuration.
type Kind string

// The kinds of processes. An ingress process may also run a worker.
const (
	Ingress Kind = "ingress"
	Worker  Kind = "worker"
	Console Kind = "console"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{Ingress, Worker, Console} }

// Ops returns the address at which a process of this kind serves health and metrics.
func (k Kind) Ops(cfg *config.Config) string {
	switch k {
	case Worker:
		return cfg.Ops.Worker
	case Console:
		return cfg.Ops.Console
	}
	return cfg.Ops.Ingress
}

// mainPart returns the part that must work so that a process of this kind is ready.
func (k Kind) mainPart() string {
	switch k {
	case Worker:
		return effects
	case Console:
		return pages
	}
	return webhooks
}

// linger returns how long a process continues to work after the stop signal. It is 0 except for an ingress, because
// providers send requests only to an ingress.
func (k Kind) linger(cfg *config.Config) time.Duration {
	if k != Ingress {
		return 0
	}
	return cfg.Ingress.ShutdownDelay
}

// Serve runs one part of pawl and the ops listener until ctx ends. An ingress continues for its shutdown delay. During
// this time it reports that it is not ready, but still accepts requests, so that a load balancer never finds a closed
// port. On SIGHUP, on the request of an operator, and after a change of a secret's file, the process loads its
// configuration file again; see [server.reload].
func Serve(ctx context.Context, s Setup, kind Kind, part func(context.Context, *Node) error) error {
	limitMemory(s.Env)
	room := newHeadroom(s.Env)
	defer runtime.KeepAlive(room)
	hangups := make(chan os.Signal, 1)
	if s.Load != nil {
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	p := &server{Setup: s, kind: kind, part: part}
	first, err := p.begin(running, s.Config)
	if err != nil {
		return err
	}
	p.use(ctx, first)
	ended := context.AfterFunc(ctx, func() {
		node := p.node()
		node.stopping.Store(true)
		time.AfterFunc(kind.linger(node.Config), stop)
	})
	defer ended()
	group, running := errgroup.WithContext(running)
	coreLeft := false
	group.Go(func() error {
		if p.awaitSchema(running) {
			coreLeft = p.node().leaveCore(running, s.Env)
		}
		return nil
	})
	group.Go(func() error { return p.run(ctx, running, hangups) })
	group.Go(func() error { return runOps(running, s.Config, kind, p.node) })
	err = group.Wait()
	if coreLeft {
		runtime.SetDefaultGOMAXPROCS() // SetDefaultGOMAXPROCS ignores the environment
	}
	return err
}

// RunOps serves liveness, readiness and metrics at the address that is configured for this kind of process.
func (n *Node) RunOps(ctx context.Context, kind Kind) error {
	return runOps(ctx, n.Config, kind, func() *Node { return n })
}

// runOps serves liveness, readiness and metrics of the current node.
func runOps(ctx context.Context, cfg *config.Config, kind Kind, current func() *Node) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", kind.Ops(cfg))
	if err != nil {
		return fmt.Errorf("listen for health and metrics (ops.%s): %w", kind, err)
	}
	server := ops.New(ops.Config{
		Ready: func() error { return current().ready() },
		Parts: func() []ops.Part { return current().running(kind) },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			current().telemetry.Handler().ServeHTTP(w, r)
		}),
		Log: current().log,
	})
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
