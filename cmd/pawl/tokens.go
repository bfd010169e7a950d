package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/token"
)

func tokensList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the tokens, without their texts", Args: noArgument}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]token.Token, error) {
		return operator.ListTokens(ctx, s.db)
	}, func(a *app, tokens []token.Token) error {
		rows := [][]string{{"TOKEN", "ROLE", "STATE", "EXPIRES", "LAST USED", "NETWORKS", "MADE", "BY"}}
		for _, t := range tokens {
			state, used := "accepted", "never"
			switch {
			case t.RevokedAt != nil:
				state = "revoked"
			case t.Ended(time.Now()):
				state = "expired"
			}
			if t.UsedAt != nil {
				used = output.Time(*t.UsedAt)
			}
			var from []string
			for _, n := range t.Networks {
				from = append(from, n.String())
			}
			rows = append(rows, []string{t.Name, t.Role, state, output.Date(t.ExpiresAt), used,
				strings.Join(from, ", "), output.Time(t.MadeAt), t.MadeBy})
		}
		return a.List(rows, "BY", "MADE")
	})
}
