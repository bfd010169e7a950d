package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/token"
)

func tokensList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the tokens without their secrets", Args: noArgument}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]token.Token, error) {
		return token.List(ctx, s.db)
	}, func(a *app, tokens []token.Token) {
		a.List(tables.Tokens(tokens), "BY", "MADE")
	})
}
