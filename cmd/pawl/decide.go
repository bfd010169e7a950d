package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// accountable refuses a decision that nobody answers for, before anything is looked up.
func accountable(command, who, why string) error {
	switch {
	case strings.TrimSpace(why) == "":
		return usagef("%s needs --why REASON: it goes into the audit trail", command)
	case strings.TrimSpace(who) == "":
		return usagef("%s needs --who NAME: it goes into the audit trail", command)
	}
	return nil
}

// decide is one of the commands that take a person's decision to a parked run.
func (a *app) decide(action, short string) *cobra.Command {
	var in workflows.DecisionInput
	cmd := &cobra.Command{
		Use: action + " ID --why REASON", Short: short, Args: oneID("events " + action),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Who = a.who(in.Who)
			if err := accountable("events "+action, in.Who, in.Why); err != nil {
				return err
			}
			// The database has an end of its own to what it is asked, and Temporal another.
			var cfg *config.Config
			var r *timeline.Receipt
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, loaded *config.Config, db *pgxpool.Pool) (err error) {
				cfg = loaded
				r, err = operator.FindEvent(ctx, db, args[0])
				return err
			})
			if err != nil {
				return err
			}
			n, err := process.New(cmd.Context(), cfg, providers(), a.log)
			if err != nil {
				return err
			}
			defer n.Close()
			result, err := operator.Decide(cmd.Context(), n.Temporal, args[0], r, action, in)
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(map[string]any{"action": result.Action, "effects": result.Effects})
			}
			fmt.Fprintf(a.out, "%s by %s is recorded", action, clean(in.Who))
			if len(result.Effects) > 0 {
				fmt.Fprintf(a.out, "; not done so far: %s", clean(strings.Join(result.Effects, ", ")))
			}
			fmt.Fprintf(a.out, "\nfollow it with: pawl events show %s\n", clean(args[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&in.Who, "who", "", "who decides (default: $USER)")
	cmd.Flags().StringVar(&in.Why, "why", "", "why, for the audit trail (required)")
	if action == workflows.UpdateSkip {
		cmd.Flags().StringVar(&in.Effect, "effect", "", "`key` or kind of the effect to skip (default: every one that is not done)")
	}
	return cmd
}
