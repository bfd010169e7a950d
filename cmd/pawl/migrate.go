package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
)

func migrateCommand(a *command.App) *cobra.Command {
	var roles schema.Roles
	cmd := &cobra.Command{
		Use: "migrate", Short: "Migrate the database to the version of this binary", Args: command.NoArgument,
		Long: `Migrate the database to the version of this binary.

Give the roles of your processes at every migration, because a new table has no grants. Each role gets the rights that its
process needs and loses all others:
  --ingress-role   reads and writes receipts
  --worker-role    reads and writes every table, and only appends to the audit trail
  --console-role   reads, and requests decisions that a worker executes
  --reader-role    reads the views of docs/data.md
A person who gains control of a process has only these rights. A role that also migrates keeps all rights. PUBLIC, which
contains every role of the server, loses all rights on tables and functions of pawl, and cannot create temporary tables in
the database.

The roles also get the time-outs that sessions through a pooler cannot set themselves, if the migrating role has ADMIN
OPTION on them. Direct connections to PostgreSQL set their own time-outs.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.Load()
			if err != nil {
				return err
			}
			if _, err := process.ParseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
				return err
			}
			if err = schema.Migrate(cmd.Context(), cfg.Database.Value(), a.Log); err == nil {
				err = schema.SetRoles(cmd.Context(), cfg.Database.Value(), roles, a.Log)
			}
			if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
				// Print the advice after the text of the pgx error.
				_, advice, _ := strings.Cut(err.Error(), connect.Error())
				return fmt.Errorf("%w%s", command.Unreachable(cfg, connect), advice)
			}
			if err != nil {
				return err
			}
			return command.Emit(a, map[string]int{"version": schema.Latest()}, func(a *command.App, at map[string]int) {
				fmt.Fprintf(a.Out, "the database is at version %d\n", at["version"])
			})
		},
	}
	cmd.Flags().StringArrayVar(&roles.Ingress, "ingress-role", nil,
		"the database `role` of an ingress; can be repeated")
	cmd.Flags().StringArrayVar(&roles.Worker, "worker-role", nil, "the database `role` of a worker, and of people who run commands; can be repeated")
	cmd.Flags().StringArrayVar(&roles.Console, "console-role", nil,
		"the database `role` of a console; can be repeated")
	cmd.Flags().StringArrayVar(&roles.Reader, "reader-role", nil, "the database `role` of a report or a warehouse, which reads the views of docs/data.md; can be repeated")
	return cmd
}
