package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/quota"
	"github.com/pawlhq/pawl/schema/receipt"
)

func (a *app) reconcile() *cobra.Command {
	var d operator.Decided
	var mode, source string
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use: "reconcile ACCOUNT --why REASON", Short: "Compare an account with what Stripe says now, and bring it there",
		Long: `Ask Stripe, with the source's api_key, for what it holds of an account's customers: the customer, the
subscriptions, those that have ended, too, invoices, credit notes, checkouts that were paid and have no invoice, and the
refunds, disputes and early fraud warnings of charges. Of each list that is the newest thousand, and warnings are asked for
of the newest hundred charges; where there is more, what is left out is named. Show where our rows say something else.
After a confirmation, which --yes stands for, what Stripe says is kept as facts, and a run for each object brings
the rows, the workspace and the finance entries there, by the keys of the events that were lost: nothing is done twice.
Nobody is written to; a letter that a lost event would have sent is sent when pawl gaps files that event.

ACCOUNT is our ID of it, or the provider's of a customer, a subscription or an invoice of it; or of a customer that no
event has told of.

Exit code 0 when there is no difference, or it was filed, 1 when there is one.`,
		Args: oneID("reconcile"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Who = a.who(d.Who); !dryRun {
				if err := accountable("reconcile", d.Who, d.Why); err != nil {
					return err
				}
			}
			if len(d.RequestID) > 100 {
				return usagef("--request-id: use 100 bytes at most")
			}
			if err := checkMode(mode); err != nil {
				return err
			}
			return a.withStripe(cmd.Context(), source, func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool, name string) error {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				api, err := process.StripeAPI(name, cfg.Sources[name], quota.New(db))
				if err != nil {
					return err
				}
				return a.runReconcile(ctx, &operator.Reconciler{
					DB: db, API: api, Source: name,
					Policy: process.BillingPolicy(cfg), Insert: receipts.Insert, Audit: audit.New(db, a.log), Patience: patience, Request: d.RequestID,
				}, args[0], mode, dryRun, yes, d)
			})
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", "live or test, where both have the ID")
	cmd.Flags().StringVar(&source, "source", "", "`name` of the source whose key is used, where several have one")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the difference, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "bring it there without asking")
	cmd.Flags().StringVar(&d.Who, "who", "", whoUsage)
	cmd.Flags().StringVar(&d.Why, "why", "", "why, for the audit trail (required without --dry-run)")
	cmd.Flags().StringVar(&d.RequestID, "request-id", "", "an `ID` of yours: a call repeated with it is one decision")
	return cmd
}

func (a *app) runReconcile(ctx context.Context, r *operator.Reconciler, id, mode string, dryRun, yes bool, d operator.Decided) error {
	found, err := r.Compare(ctx, id, mode)
	if err != nil {
		return err
	}
	if !a.json {
		if err := a.writeDifferences(found); err != nil {
			return err
		}
	}
	if len(found.Differences) > 0 && !dryRun {
		if !yes {
			if err := a.confirm("Bring our rows to what Stripe says?"); err != nil {
				return err
			}
		}
		if err := r.Apply(ctx, found, d); err != nil {
			return err
		}
	}
	if a.json {
		err = a.writeJSON(found)
	} else {
		err = a.writeFiled(found)
	}
	if err == nil && len(found.Differences) > 0 && len(found.Filed) == 0 {
		err = errAnswered
	}
	return err
}

func (a *app) writeDifferences(r *operator.Reconciliation) error {
	for _, id := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(a.err, "%s is left out: %s\n", clean(id), clean(r.LeftOut[id]))
	}
	if len(r.Differences) == 0 {
		_, err := fmt.Fprintf(a.out, "no difference: %s of %s compared\n", plural(r.Compared, "object"), clean(strings.Join(r.Customers, ", ")))
		return err
	}
	rows := [][]string{{"OBJECT", "FIELD", "OURS", "STRIPE'S"}}
	for _, d := range r.Differences {
		rows = append(rows, []string{clean(d.Object), d.Field, clean(shownOr(d.Ours)), clean(shownOr(d.Theirs))})
	}
	return table(a.out, rows)
}

func shownOr(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (a *app) writeFiled(r *operator.Reconciliation) error {
	if len(r.Filed) == 0 {
		return nil
	}
	fmt.Fprintf(a.out, "\n%s filed; follow with:\n", plural(len(r.Filed), "object"))
	for _, f := range r.Filed {
		if _, err := fmt.Fprintf(a.out, "  pawl events show %s\n", clean(f.EventID)); err != nil {
			return err
		}
	}
	return nil
}
