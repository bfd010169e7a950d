package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/account"
)

func accountsShow(a *app) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show what an account may use and why, and what was booked for it",
		Long: `Show what an account may use and why, its subscriptions and invoices, what was booked for it, and what a person
has to do about it. ID is our ID of the account, or what a customer quotes: a customer, a subscription, an invoice, a payment or a charge by the provider's ID,
an invoice's number, or an e-mail address.`,
		Args: oneID("accounts show"),
	}
	modeFlag(cmd, &mode, "live or test, where both have the ID")
	return show(a, cmd, func(ctx context.Context, s *session, args []string) (*account.Account, error) {
		return operator.ShowAccount(ctx, s.db, args[0], mode)
	}, writeAccount)
}

// writeAccount puts one account on one screen.
func writeAccount(a *app, acc *account.Account) error { return a.Tables(tables.Account(acc)...) }
