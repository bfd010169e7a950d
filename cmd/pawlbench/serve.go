package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/pawlbench/internal/bench"
	"github.com/pawlhq/pawl/schema/receipt"
)

// serveCommand runs a child process of `pawlbench accept`: pawl's server in front of a rival.
func serveCommand(a *app) *cobra.Command {
	var file, level string
	cmd := &cobra.Command{
		Use: "serve MODE", Short: "Serve one mode of pawlbench accept", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(file, os.LookupEnv, bench.Providers())
			if err != nil {
				return err
			}
			var least slog.Level
			if err := least.UnmarshalText([]byte(level)); err != nil {
				return usagef("--log-level: %q is unknown", level)
			}
			log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: least}))
			setup := process.Setup{Config: cfg, Providers: bench.Providers(), Env: os.LookupEnv, Log: log}
			listen := func(ctx context.Context, n *process.Node) error {
				rival, err := bench.NewRival(args[0], n.Pool, n.Temporal)
				if err != nil {
					return err
				}
				return n.Listen(ctx, rival, func([]receipt.Pending) {}, nil)
			}
			return process.Serve(cmd.Context(), setup, process.Ingress, listen)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `file`")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	return cmd
}
