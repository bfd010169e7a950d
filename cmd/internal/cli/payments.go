package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
)

func paymentsUnassigned(a *command.App) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use: "unassigned", Short: "List money that is not booked because its account is unknown, oldest first",
		Long: `List payments, refunds, disputes, credit notes and checkout sessions that are not booked because their account or the
purchase is unknown. pawl payments assign assigns an object to an account.`,
		Args: command.NoArgument,
	}
	command.ModeFlag(cmd, &mode, "only live money, or only test money")
	return command.List(a, cmd, command.Listing[billing.Money]{
		Read: func(ctx context.Context, s *command.Session, limit int) ([]billing.Money, error) {
			return billing.New(s.DB).ListUnassigned(ctx, mode, 0, limit)
		},
		Table: tables.Unassigned,
	})
}
