package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/schema"
)

func (a *app) migrate() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database to the version of this binary", Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if _, err := parseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
				return err
			}
			err = schema.Migrate(cmd.Context(), cfg.Database.Value(), a.log)
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
}
