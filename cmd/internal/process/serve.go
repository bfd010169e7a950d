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

// Setup is what a process is made of.
type Setup struct {
	Config    *config.Config
	Providers map[string]webhook.Provider
	Env       func(string) (string, bool)
	Log       *slog.Logger
	// Linger is for how long the process works on after it was asked to stop.
	Linger time.Duration
}

// Serve runs one part of pawl, and the ops listener beside it, until Linger after the end of ctx. In that
// time it is not ready and works on, so that nothing meets a closed port while a load balancer still sends.
func Serve(ctx context.Context, s Setup, part func(context.Context, *Node) error) error {
	room := newHeadroom(s.Env)
	defer runtime.KeepAlive(room)
	n, err := New(ctx, s.Config, s.Providers, s.Log)
	if err != nil {
		return err
	}
	defer n.Close()
	if err := n.CheckSchema(ctx); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := context.AfterFunc(ctx, func() {
		n.stopping.Store(true)
		time.AfterFunc(s.Linger, stop)
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
	group.Go(func() error { return n.RunOps(running) })
	err = group.Wait()
	if coreLeft {
		runtime.SetDefaultGOMAXPROCS() // it knows nothing of GOMAXPROCS in the environment
	}
	return err
}
