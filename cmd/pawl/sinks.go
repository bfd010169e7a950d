package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func sinks(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "sinks", Short: "Show the sinks and consumers, and which of them are out or paused", Args: noArgument,
		Long: `Show the sinks and consumers, and which of them are out or paused.
A sink is out after equal failures in a row, or one 401 or 403: its effects wait until it answers a probe. One is paused
by pawl pause, and until pawl resume.`,
	}
	cmd.AddCommand(sinksCheck(a))
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]report.Sink, error) {
		return report.TimedSinks(ctx, s.cfg, s.db)
	}, func(a *app, sinks []report.Sink) {
		a.List(tables.Sinks(sinks), "PLACES", "PROBES", "SINCE")
	})
}
