package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/process"
)

func ingressCommand(a *app) *cobra.Command {
	var withWorker, withConsole bool
	cmd := &cobra.Command{
		Use: "ingress", Short: "Receive webhooks and start their workflows", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), process.Ingress, func(ctx context.Context, n *process.Node) error {
				group, ctx := errgroup.WithContext(ctx)
				group.Go(func() error { return n.RunIngress(ctx, nil) })
				if withWorker {
					group.Go(func() error { return a.runWorker(ctx, n) })
				}
				if withConsole {
					group.Go(func() error { return a.runConsole(ctx, n) })
				}
				return group.Wait()
			})
		},
	}
	cmd.Flags().BoolVar(&withWorker, "worker", false, "also run a worker in this process, so that the first task of a workflow needs no poll")
	cmd.Flags().BoolVar(&withConsole, "console", false,
		"also serve the console in this process, on console.listen; for a single machine")
	return cmd
}

func (a *app) serve(ctx context.Context, kind process.Kind, part func(context.Context, *process.Node) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	a.warnOfFiles(cfg)
	defer a.lines.Together()()
	return process.Serve(ctx, process.Setup{Config: cfg, Providers: providers(), Env: a.env, Log: a.log}, kind, part)
}

func workerCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Run workflows and effects, and publish the outbox", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), process.Worker,
				func(ctx context.Context, n *process.Node) error { return a.runWorker(ctx, n) })
		},
	}
}
