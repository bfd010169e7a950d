package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/ops"
	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/ingress/refusal"
	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/rejection"
	"github.com/pawlhq/pawl/workflows"
)

func (a *app) ingress() *cobra.Command {
	var withWorker bool
	cmd := &cobra.Command{
		Use: "ingress", Short: "Take webhooks, and start their workflows", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), shutdownDelay, func(ctx context.Context, n *node) error {
				group, ctx := errgroup.WithContext(ctx)
				group.Go(func() error { return n.runIngress(ctx, nil) })
				if withWorker {
					group.Go(func() error { return n.runWorker(ctx) })
				}
				return group.Wait()
			})
		},
	}
	cmd.Flags().BoolVar(&withWorker, "worker", false, "run the worker in this process too: a workflow's first task then comes back with its start, without a hop")
	return cmd
}

// shutdownDelay is for how long an ingress that was asked to stop still takes deliveries.
func shutdownDelay(cfg *config.Config) time.Duration { return cfg.Ingress.ShutdownDelay }

// drain is what requests in flight get to end when an ingress is stopped.
const drain = 10 * time.Second

// runIngress takes webhooks and starts their workflows until ctx ends. ready, when not nil, is closed once
// it listens.
func (n *node) runIngress(ctx context.Context, ready chan<- struct{}) error {
	dispatcher, err := dispatch.New(dispatch.Config{
		Temporal: n.temporal, Receipts: n.intake, TaskQueue: n.cfg.Temporal.TaskQueue,
		Eager: true, Prepare: n.ensureSearchAttributes, Meter: n.telemetry.Meter(), Log: n.log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { dispatcher.Sample(ctx); return nil })
	group.Go(func() error {
		// A start with an unknown search attribute is refused; receipts wait meanwhile.
		if err := n.untilDone(ctx, "register search attributes", n.ensureSearchAttributes); err == nil {
			dispatcher.Run(ctx)
		}
		return nil
	})
	group.Go(func() error { return n.listen(ctx, n.intake, dispatcher.Offer, ready) })
	return group.Wait()
}

// listen takes webhooks until ctx ends: it commits them to receipts and hands them over to offer.
func (n *node) listen(ctx context.Context, receipts ingress.Receipts, offer func([]receipt.Pending), ready chan<- struct{}) error {
	sources, err := ingressSources(n.cfg, newArchive(n.pool, n.log))
	if err != nil {
		return err
	}
	diagnoser, err := newDiagnoser(n.cfg)
	if err != nil {
		return err
	}
	keeper := refusal.NewKeeper(refusal.Config{Store: rejection.New(n.intakePool), Diagnoser: diagnoser, Log: n.log})
	server, err := ingress.New(ingress.Config{
		Sources: sources, Receipts: receipts, Dispatch: offer, Refused: keeper.Offer,
		Meter: n.telemetry.Meter(), Log: n.log, Limits: ingressLimits(n.cfg.Ingress),
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.Ingress.Listen)
	if err != nil {
		_ = server.Shutdown(ctx)
		return fmt.Errorf("listen for webhooks (ingress.listen): %w", err)
	}
	n.log.InfoContext(ctx, "ingress listens", "address", listener.Addr().String(), "sources", len(sources))
	n.join(ops.Part{Name: webhooks, Probe: func(ctx context.Context) (string, error) { return "", n.intake.Ready(ctx) }})
	if ready != nil {
		close(ready)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { keeper.Run(ctx); return nil })
	group.Go(func() error { return server.Serve(listener) })
	group.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		return server.Shutdown(stop)
	})
	return group.Wait()
}

// ingressSources builds every configured source's verifier, with an archive where there is one. It reports every fault.
func ingressSources(cfg *config.Config, archive webhook.Archive) (map[string]ingress.Source, error) {
	sources := map[string]ingress.Source{}
	var faults []error
	for name := range cfg.Sources {
		source, err := ingressSource(cfg, name, archive)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		sources[name] = source
	}
	return sources, errors.Join(faults...)
}

// ingressSource builds one source, whose provider config.Load has checked to be known.
func ingressSource(cfg *config.Config, name string, archive webhook.Archive) (ingress.Source, error) {
	s := cfg.Sources[name]
	provider := providers()[s.Provider]
	settings := cfg.Settings(name)
	settings.Archive = archive
	verifier, err := provider.New(settings)
	if err != nil {
		return ingress.Source{}, fmt.Errorf("sources.%s: %w", name, err)
	}
	source := ingress.Source{
		Name: name, Provider: provider, Verifier: verifier, Mode: s.Mode, BodyLimit: int64(s.BodyLimit),
		Wanted: wanted(s), Accounts: s.Accounts.Routed, PublicURL: s.URL,
	}
	for _, network := range s.AllowFrom {
		source.AllowFrom = append(source.AllowFrom, network.Prefix)
	}
	return source, nil
}

// wanted says which types a source runs: of those on its allow-list (all, where there is none) the ones
// that a flow is written for, and the rest when the source relays.
func wanted(s config.Source) func(string) bool {
	return func(eventType string) bool {
		if len(s.Events) > 0 && !slices.Contains(s.Events, eventType) {
			return false
		}
		return len(s.Relay) > 0 || workflows.Written(s.Provider, eventType)
	}
}

func ingressLimits(c config.Ingress) ingress.Limits {
	limits := ingress.Limits{
		Body: int64(c.BodyLimit), Bodies: config.BodiesAtOnce, InFlight: c.Limits.MaxConcurrent, Connections: c.Limits.MaxConnections,
		PerSource:  throttle.Rate{PerSecond: float64(c.Limits.PerSource.PerSecond), Burst: c.Limits.PerSource.Burst},
		PerAddress: throttle.Rate{PerSecond: float64(c.Limits.PerAddress.PerSecond), Burst: c.Limits.PerAddress.Burst},
	}
	for _, network := range c.Limits.TrustedProxies {
		limits.TrustedProxies = append(limits.TrustedProxies, network.Prefix)
	}
	return limits
}
