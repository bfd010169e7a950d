package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
)

func migrateCommand(a *app) *cobra.Command {
	var roles schema.Roles
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database to the version of this binary", Args: noArgument,
		Long: `Bring the database to the version of this binary.

Name the roles that processes connect as at every migration, since new tables are nobody's. Each gets the rights that
its process needs, and loses what else it had: an --ingress-role reads and writes what comes in, a --worker-role every
row, but it only adds to the audit trail; a --console-role reads, and changes what the trail has as decided in the same
commit; a --reader-role reads the views of docs/data.md alone. Somebody who takes over a
process then has no more than that. One that migrates as well keeps all.

The same roles get the time-outs that sessions through a pooler cannot set themselves, where the role that migrates
may set them (a superuser, or one with ADMIN OPTION). Connections that lead to PostgreSQL itself set their own.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if _, err := process.ParseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
				return err
			}
			if err = schema.Migrate(cmd.Context(), cfg.Database.Value(), a.log); err == nil {
				err = schema.SetRoles(cmd.Context(), cfg.Database.Value(), roles, a.log)
			}
			if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
				// Behind pgx's own text stands the advice.
				_, advice, _ := strings.Cut(err.Error(), connect.Error())
				return fmt.Errorf("%w%s", unreachable(cfg, connect), advice)
			}
			if err != nil {
				return err
			}
			return emit(a, map[string]int{"version": schema.Latest()}, func(a *app, at map[string]int) {
				fmt.Fprintf(a.out, "the database is at version %d\n", at["version"])
			})
		},
	}
	cmd.Flags().StringArrayVar(&roles.Ingress, "ingress-role", nil,
		"the `role` that an ingress connects as; may be given again")
	cmd.Flags().StringArrayVar(&roles.Worker, "worker-role", nil, "the `role` that a worker connects as, and who operates pawl; may be given again")
	cmd.Flags().StringArrayVar(&roles.Console, "console-role", nil,
		"the `role` that a console connects as; may be given again")
	cmd.Flags().StringArrayVar(&roles.Reader, "reader-role", nil, "the `role` of a report or a warehouse, which reads the views of docs/data.md; may be given again")
	return cmd
}
