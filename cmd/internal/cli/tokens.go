package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/token"
)

func tokensList(a *command.App) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the tokens without their secrets", Args: command.NoArgument}
	return command.Show(a, cmd, func(ctx context.Context, s *command.Session, _ []string) ([]token.Token, error) {
		return token.List(ctx, s.DB)
	}, func(a *command.App, tokens []token.Token) {
		a.List(tables.Tokens(tokens), "BY", "MADE")
	})
}
