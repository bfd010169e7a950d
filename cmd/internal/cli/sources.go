package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/resource"
)

func sources(a *command.App) *cobra.Command {
	cmd := listCommand(a, resource.Named("sources"))
	cmd.AddCommand(verbsOf(a, "sources")...)
	return cmd
}

// explainSources prints why a source has waiting events.
func explainSources(a *command.App, items any) {
	for _, r := range items.([]report.Source) {
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
