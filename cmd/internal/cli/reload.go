package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/reload"
)

func reloadCommand(a *command.App) *cobra.Command {
	d := decision{Decision: decide.Decision{Verb: reload.Reload.Name}}
	cmd := &cobra.Command{
		Use: "reload --reason REASON", Short: reload.Reload.Short, Args: command.NoArgument,
		Long: `Let all processes, or the processes of one kind, load their configuration files again. The command first checks the
file of --config, and requests nothing if it has a fault. It does not need the secrets. Each process then loads its own
file within ten seconds. It starts a node with the new configuration beside the running one, and stops the running one
when all parts of the new one are ready. No delivery is refused.

A process uses all of its file or nothing. It keeps its configuration if the file has a fault, if a setting has changed
that needs a restart (database, temporal, ops), or if the new node is not ready within two minutes. The log contains the
reason, and the metric pawl_config_last_reload_successful is then 0.

SIGHUP does the same for one process. A changed file of a secret needs neither: processes use it within ten seconds.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.accountable(a, "reload"); err != nil {
				return err
			}
			d.newRequest("reload")
			return a.WithSession(cmd.Context(), 0, a.LoadToAsk, func(ctx context.Context, s *command.Session) error {
				return executeIn(ctx, s, d.Decision)
			})
		},
	}
	cmd.Flags().StringVar(&d.Target, "process", "all", "the `kind` of processes: ingress, worker, console or all")
	d.flags(cmd, "the reason, for the audit trail (required)")
	return cmd
}
