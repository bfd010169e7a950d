package process

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/ingress/rejected"
	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/workflows"
)

// drain is how long an ingress that is stopped waits for requests in progress.
const drain = 10 * time.Second

// RunIngress receives webhooks and starts their workflows until ctx ends. If ready is not nil, it is closed when the
// ingress listens.
func (n *Node) RunIngress(ctx context.Context, ready chan<- struct{}) error {
	dispatcher, err := dispatch.New(dispatch.Config{
		Temporal: n.Temporal, Receipts: n.intake, Runs: n.starts, TaskQueue: n.Config.Temporal.TaskQueue,
		Eager: true, Prepare: n.EnsureSearchAttributes, Page: n.Config.Console.Event, Meter: n.telemetry.Meter(),
		Log: n.log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { dispatcher.Sample(ctx); return nil })
	n.beat(ctx, group, Ingress)
	group.Go(func() error {
		// Temporal rejects the start of a workflow with an unknown search attribute. Receipts wait until the attributes
		// are registered.
		if err := n.UntilDone(ctx, "register search attributes", n.EnsureSearchAttributes); err == nil {
			dispatcher.Run(ctx)
		}
		return nil
	})
	group.Go(func() error { return n.Listen(ctx, n.intake, dispatcher.Offer, ready) })
	return group.Wait()
}

// Listen receives webhooks until ctx ends. It commits them as receipts and passes the receipts to offer.
func (n *Node) Listen(ctx context.Context, receipts ingress.Receipts, offer func([]receipt.Pending),
	ready chan<- struct{}) error {
	sources, err := Sources(n.Config, n.providers)
	if err != nil {
		return err
	}
	diagnoser, err := NewDiagnoser(n.Config, n.providers)
	if err != nil {
		return err
	}
	keeper := rejected.NewKeeper(rejected.Config{Store: rejection.New(n.IntakePool), Diagnoser: diagnoser, Log: n.log})
	server, err := ingress.New(ingress.Config{
		Written: workflows.Written,
		Sources: sources, Receipts: receipts, Dispatch: offer, Refused: keeper.Offer,
		Meter: n.telemetry.Meter(), Tracer: n.tracing.Tracer(), Log: n.log, Limits: Limits(n.Config.Ingress),
		Leaving: n.stopping.Load,
	})
	if err != nil {
		return err
	}
	listener, err := n.listeners.Listen(ctx, n.Config.Ingress.Listen)
	if err != nil {
		_ = server.Shutdown(ctx)
		return fmt.Errorf("listen for webhooks (ingress.listen): %w", err)
	}
	n.log.InfoContext(ctx, "ingress listens", "address", listener.Addr().String(), "sources", len(sources))
	n.join(ops.Part{Name: webhooks,
		Probe: func(ctx context.Context) (string, error) { return "", n.intake.Ready(ctx) }})
	if ready != nil {
		close(ready)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { keeper.Run(ctx); return nil })
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		n.stopping.Store(true) // report "not ready" before the listener is closed
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		return server.Shutdown(stop)
	})
	return group.Wait()
}

// Limits returns the configured limits.
func Limits(c config.Ingress) ingress.Limits {
	limits := ingress.Limits{
		Body: int64(c.BodyLimit), Bodies: config.BodiesAtOnce, InFlight: c.Limits.MaxConcurrent,
		Connections: c.Limits.MaxConnections,
		PerSource:   throttle.Rate{PerSecond: float64(c.Limits.PerSource.PerSecond), Burst: c.Limits.PerSource.Burst},
		PerAddress:  throttle.Rate{PerSecond: float64(c.Limits.PerAddress.PerSecond), Burst: c.Limits.PerAddress.Burst},
	}
	for _, network := range c.Limits.TrustedProxies {
		limits.TrustedProxies = append(limits.TrustedProxies, network.Prefix)
	}
	return limits
}
