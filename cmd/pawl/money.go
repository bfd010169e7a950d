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
	var limit int
	cmd := &cobra.Command{
		Use: "unclaimed", Short: "List the money that is not booked, since nothing tells whose it is, the oldest first",
		Long: `List payments, refunds, disputes, credit notes and checkout sessions that are not booked: nothing tells whose they
are, or what was paid for. pawl money claim gives one to an account.`,
		Args: noArgument,
	}
	modeFlag(cmd, &mode, "only that of live, or of test")
	limitFlag(cmd, &limit, 50)
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]billing.Money, error) {
		found, err := billing.New(s.db).ListUnclaimed(ctx, mode, 0, oneMore(limit))
		return newest(a, found, limit, nil), err
	}, func(a *app, list []billing.Money) error {
		rows := [][]string{{"SINCE", "MODE", "KIND", "ID", "AMOUNT", "CUSTOMER", "WHY"}}
		for _, m := range list {
			rows = append(rows, []string{output.Date(&m.Since), m.Mode, m.Kind, m.ID,
				stripe.Money(m.Amount, m.Currency), m.Customer, m.Why()})
		}
		return a.Table(rows)
	})
}
