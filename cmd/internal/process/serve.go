package process

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Setup contains everything that [Serve] needs to run a process.
type Setup struct {
	Config    *config.Config
	Providers map[string]webhook.Provider
	Env       func(string) (string, bool)
	Log       *slog.Logger
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
// port.
func Serve(ctx context.Context, s Setup, kind Kind, part func(context.Context, *Node) error) error {
	limitMemory(s.Env)
	room := newHeadroom(s.Env)
	defer runtime.KeepAlive(room)
	n, err := New(ctx, s.Config, s.Providers, s.Log)
	if err != nil {
		return err
	}
	defer n.Close()
	n.kind = kind
	if err := n.CheckSchema(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := context.AfterFunc(ctx, func() {
		n.stopping.Store(true)
		time.AfterFunc(kind.linger(s.Config), stop)
	})
	defer ended()
	group, running := errgroup.WithContext(running)
	coreLeft := false
	group.Go(func() error {
		if err := n.awaitSchema(running); err != nil {
			return err
		}
		coreLeft = n.leaveCore(running, s.Env)
		return nil
	})
	group.Go(func() error { return part(running, n) })
	group.Go(func() error { return n.RunOps(running, kind) })
	err = group.Wait()
	if coreLeft {
		runtime.SetDefaultGOMAXPROCS() // SetDefaultGOMAXPROCS ignores the environment
	}
	return err
}
