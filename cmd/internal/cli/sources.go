package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func sources(a *command.App) *cobra.Command {
	unused := report.UnusedFor
	cmd := &cobra.Command{
		Use: "sources", Short: "Show the sources and the use of their secrets", Args: command.NoArgument,
		Long: `Show the sources, when the secret of each was last used, and whether the source is paused. The command reports which
secret can be removed. pawl sources pause pauses a source until pawl sources resume.`,
		PreRunE: func(*cobra.Command, []string) error {
			if unused <= 0 {
				return command.Usagef("--unused-for: write a duration of more than 0, such as 168h")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&unused, "unused-for", unused, "a secret can be removed if it was not used for this long while another one was used")
	cmd.AddCommand(verbsOf(a, "sources")...)
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, _ []string) ([]report.Source, error) {
		return report.ReadSources(ctx, s.Config, s.DB, unused)
	}, writeSources)
}

func writeSources(a *command.App, reports []report.Source) {
	a.List(tables.Sources(reports), "PROVIDER", "USES", "EVENTS", "LAST USED", "MODE")
	for _, r := range reports {
		if r.Paused == "" && r.Waiting == 0 {
			continue
		}
		says := "was resumed: its waiting events are being started"
		if r.Paused != "" {
			says = output.Clean(r.Paused)
		}
		fmt.Fprintf(a.Out, "\n%s %s\n%s waiting\n", r.Name, says,
			output.Plural(r.Waiting, "event"))
	}
}
