package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/process"
)

func workerCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Short: "Run the workflows and their effects, and publish the outbox", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd.Context(), process.Worker,
				func(ctx context.Context, n *process.Node) error { return n.RunWorker(ctx) })
		},
	}
}
