package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/schema"
)

func (a *app) migrate() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database to the version of this binary", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if _, err := parseDSN(cfg.Database.String(), cfg.Database.Value()); err != nil {
				return err
			}
			if err := schema.Migrate(cmd.Context(), cfg.Database.Value(), a.log); err != nil {
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
