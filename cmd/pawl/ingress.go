package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

func (a *app) ingress() *cobra.Command {
	var withWorker bool
	cmd := &cobra.Command{
		Use: "ingress", Short: "Take webhooks, and start their workflows", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), shutdownDelay, func(ctx context.Context, n *process.Node) error {
				group, ctx := errgroup.WithContext(ctx)
				group.Go(func() error { return n.RunIngress(ctx, nil) })
				if withWorker {
					group.Go(func() error { return n.RunWorker(ctx) })
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

// atOnce is for a part that need not linger: nobody sends to it.
func atOnce(*config.Config) time.Duration { return 0 }

// serve runs one part of pawl as the configuration says.
func (a *app) serve(ctx context.Context, linger func(*config.Config) time.Duration, part func(context.Context, *process.Node) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	return process.Serve(ctx, process.Setup{Config: cfg, Providers: providers(), Env: a.env, Log: a.log, Linger: linger(cfg)}, part)
}
