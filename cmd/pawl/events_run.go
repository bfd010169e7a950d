package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

func (a *app) eventsRun() *cobra.Command {
	var who, why string
	cmd := &cobra.Command{
		Use: "run ID --why REASON", Short: "Run an event that was ignored, or parked before it ran", Args: oneID("events run"),
		Long: `Run an event that was kept and not run: one that is ignored for its type, which nobody wanted
then, or that was parked before any run (a suspected replay). pawl events list --status ignored lists them.

An event whose run was ended (run_ended) is run again where Temporal no longer has that run. Where it still has,
reset the workflow instead: the event would park once more. One whose run is of a receipt that is not there any
more (another_run) gets a run of its own.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := accountable("events run", a.who(who), why); err != nil {
				return err
			}
			var r *timeline.Receipt
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, _ *config.Config, db *pgxpool.Pool) (err error) {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				r, err = operator.RunEvent(ctx, db, receipts, audit.New(db), args[0], a.who(who), why)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(r)
			}
			fmt.Fprintf(a.out, "%s is received and will be run\nfollow it with: pawl events show %s\n", clean(r.EventID), clean(args[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&who, "who", "", "who decides (default: $USER)")
	cmd.Flags().StringVar(&why, "why", "", "why, for the audit trail (required)")
	cmd.Flags().StringVar(&why, "reason", "", "the same as --why")
	return cmd
}
