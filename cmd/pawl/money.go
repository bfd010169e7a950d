package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
)

func moneyUnclaimed(a *app) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "unclaimed", Short: "List the money that is not booked, since nothing tells whose it is, the oldest first",
		Long: `List payments, refunds, disputes, credit notes and checkout sessions that are not booked: nothing tells whose they
are, or what was paid for. pawl money claim gives one to an account.`,
		Args: noArgument,
	}
	modeFlag(cmd, &mode, "only that of live, or of test")
	return list(a, cmd, listing[billing.Money]{
		read: func(ctx context.Context, s *session, limit int) ([]billing.Money, error) {
			return billing.New(s.db).ListUnclaimed(ctx, mode, 0, limit)
		},
		table: func(found []billing.Money) [][]string {
			return output.Rows("SINCE|MODE|KIND|ID|AMOUNT|CUSTOMER|WHY", found, func(m billing.Money) []any {
				return []any{&m.Since, m.Mode, m.Kind, m.ID, stripe.Money(m.Amount, m.Currency), m.Customer, m.Why()}
			})
		},
	})
}
