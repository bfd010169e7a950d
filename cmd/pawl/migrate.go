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

func (a *app) migrate() *cobra.Command {
	var roles, ingress, worker []string
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database to the version of this binary", Args: noArgument,
		Long: `Bring the database to the version of this binary, and give its roles the time-outs that sessions through a
pooler cannot set themselves: the role that migrates those for everybody, and each --role, which are those of
ingress and worker, all of them. Connections that lead to PostgreSQL itself set their own.

Roles of their own keep who takes over a process from what the process does not need: --grant-ingress lets a role
read and write what comes in, --grant-worker every row, but add only to the audit trail; both lose what else they
had in the schema. Say so at every migration, since new tables are nobody's.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if _, err := process.ParseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
				return err
			}
			if err = schema.Migrate(cmd.Context(), cfg.Database.Value(), a.log); err == nil {
				err = schema.BoundRoles(cmd.Context(), cfg.Database.Value(), roles...)
			}
			if err == nil {
				err = schema.Grant(cmd.Context(), cfg.Database.Value(), ingress, worker)
			}
			if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
				// Behind pgx's own text stands the advice.
				_, advice, _ := strings.Cut(err.Error(), connect.Error())
				return fmt.Errorf("%w%s", unreachable(cfg, connect), advice)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(map[string]int{"version": schema.Latest()})
			}
			_, err = fmt.Fprintf(a.out, "the database is at version %d\n", schema.Latest())
			return err
		},
	}
	cmd.Flags().StringArrayVar(&ingress, "grant-ingress", nil, "the `role` that an ingress connects as; may be given again")
	cmd.Flags().StringArrayVar(&worker, "grant-worker", nil, "the `role` that a worker connects as, and who operates pawl; may be given again")
	cmd.Flags().StringArrayVar(&roles, "role", nil, "a `role` that ingress or worker has behind a pooler; may be given again")
	return cmd
}
