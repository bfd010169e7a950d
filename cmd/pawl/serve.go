package main

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/process"
)

func ingressCommand(a *command.App) *cobra.Command {
	var withWorker, withConsole bool
	cmd := &cobra.Command{
		Use: "ingress", Short: "Receive webhooks and start their workflows", Args: command.NoArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parts := func(ctx context.Context, n *process.Node) error {
				group, ctx := errgroup.WithContext(ctx)
				group.Go(func() error { return n.RunIngress(ctx, nil) })
				if withWorker {
					group.Go(func() error { return runWorker(ctx, a, n) })
				}
				if withConsole {
					group.Go(func() error { return runConsole(ctx, a, n) })
				}
				return group.Wait()
			}
			var also []process.Kind
			if withWorker {
				also = append(also, process.Worker)
			}
			if withConsole {
				also = append(also, process.Console)
			}
			return serve(cmd.Context(), a, process.Ingress, parts, also...)
		},
	}
	cmd.Flags().BoolVar(&withWorker, "worker", false, "also run a worker in this process, so that the first task of a workflow needs no poll")
	cmd.Flags().BoolVar(&withConsole, "console", false,
		"also serve the console in this process, on console.listen; for a single machine")
	return cmd
}

// serve runs a kind of process. part may also run the parts of other kinds, which also lists.
func serve(ctx context.Context, a *command.App, kind process.Kind, part func(context.Context, *process.Node) error,
	also ...process.Kind) error {
	cfg, err := a.Load()
	if err != nil {
		return err
	}
	a.WarnOfFiles(cfg)
	defer a.Lines.Together()()
	return process.Serve(ctx, process.Setup{Config: cfg, Providers: providers(), Env: a.Env, Log: a.Log, Load: a.Load,
		Also: also}, kind, part)
}

func workerCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Run workflows and effects, and publish the outbox", Args: command.NoArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), a, process.Worker,
				func(ctx context.Context, n *process.Node) error { return runWorker(ctx, a, n) })
		},
	}
}
