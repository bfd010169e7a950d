package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
)

func (a *app) accountsHold() *cobra.Command {
	return a.holding("hold", true, "Hold back all that an account may use, whatever is paid for",
		`Hold back all that an account may use, whatever is paid for: where fraud is suspected, say. Its workspace is
suspended within seconds, its subscriptions and invoices go on at the provider, and nobody is asked to release the
workspace meanwhile. pawl accounts release gives back what there is then.`)
}

func (a *app) accountsRelease() *cobra.Command {
	return a.holding("release", false, "Give back what a hold on an account has taken",
		`Give back what a hold on an account has taken: access and workspace are brought to what there is now.`)
}

func (a *app) holding(name string, held bool, short, long string) *cobra.Command {
	var mode, who, why string
	cmd := &cobra.Command{
		Use: name + " ID --why REASON", Short: short,
		Long: long + `

ID is our ID of the account, or the provider's of a customer, a subscription or an invoice of it. Who and why go into
the audit trail.`,
		Args: oneID("accounts " + name),
		RunE: func(cmd *cobra.Command, args []string) error {
			who = a.who(who)
			if err := checkMode(mode); err != nil {
				return err
			}
			if err := accountable("accounts "+name, who, why); err != nil {
				return err
			}
			var access billing.Access
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				access, err = operator.HoldAccount(ctx, db, audit.New(db, a.log), args[0], mode, held, process.BillingPolicy(cfg), who, why)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(access)
			}
			said := "nothing"
			if access.Target.Plan != "" {
				said = planOf(access.Target.Plan, access.Target.Quantity)
			}
			_, err = fmt.Fprintf(a.out, "%s may use %s; its workspace follows\n", access.Account, said)
			return err
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", "live or test, where both have the ID")
	cmd.Flags().StringVar(&who, "who", "", whoUsage)
	cmd.Flags().StringVar(&why, "why", "", "why, for the audit trail (required)")
	return cmd
}
