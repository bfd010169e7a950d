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
	var mode string
	var d operator.Decided
	var dryRun bool
	cmd := &cobra.Command{
		Use: name + " ID --why REASON", Short: short,
		Long: long + `

ID is our ID of the account, or the provider's of a customer, a subscription or an invoice of it. Who and why go into
the audit trail.`,
		Args: oneID("accounts " + name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkMode(mode); err != nil {
				return err
			}
			if dryRun {
				return a.dryRunHold(cmd.Context(), args[0], mode, held)
			}
			d.Who = a.who(d.Who)
			if err := accountable("accounts "+name, d.Who, d.Why); err != nil {
				return err
			}
			var done *operator.HeldAccount
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) (err error) {
				done, err = operator.HoldAccount(ctx, db, audit.New(db, a.log), args[0], mode, held, process.BillingPolicy(cfg), d)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(done)
			}
			if done.Repeated {
				_, err = fmt.Fprintf(a.out, "%s; %s may use %s now\n", clean(done.Says), clean(done.Account), mayUse(done.Access))
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s may use %s; its workspace follows\n", clean(done.Account), mayUse(done.Access))
			return err
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", "live or test, where both have the ID")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, dryRunUsage)
	decidedFlags(cmd, &d)
	return cmd
}

func (a *app) dryRunHold(ctx context.Context, id, mode string, held bool) error {
	var made *operator.Preview
	err := a.withDesk(ctx, func(ctx context.Context, desk *operator.Desk) (err error) {
		made, err = desk.PreviewHold(ctx, id, mode, held)
		return err
	})
	if err != nil {
		return err
	}
	return a.writePreview(made)
}

// mayUse is what an account may use, in words.
func mayUse(access billing.Access) string {
	if access.Target.Plan == "" {
		return "nothing"
	}
	return clean(planOf(access.Target.Plan, access.Target.Quantity))
}
