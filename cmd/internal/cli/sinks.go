package cli

import (
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/resource"
)

func sinks(a *command.App) *cobra.Command {
	cmd := listCommand(a, resource.Named("sinks"))
	cmd.AddCommand(append(verbsOf(a, "sinks"), sinksCheck(a))...)
	return cmd
}
