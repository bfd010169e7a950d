package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/billing"
)

// rebuildReport is what pawl rebuild has found, and done.
type rebuildReport struct {
	Differences []billing.Difference `json:"differences"`
	// Folded is how many objects were folded anew and written, 0 for a check alone.
	Folded int `json:"folded"`
	// Left is what differs after a repair all the same.
	Left []billing.Difference `json:"left"`
}

func (a *app) rebuild() *cobra.Command {
	var check, dryRun bool
	var account, mode, who, why string
	cmd := &cobra.Command{
		Use: "rebuild --check | --apply ACCOUNT --mode MODE --why REASON", Short: "Compare the billing rows with the facts, and repair an account's", Args: noArgument,
		Long: `Fold every fact anew and list the rows that are not what that comes to: of accounts, subscriptions, invoices,
grants and entitlements. --check changes nothing and locks nothing; it may run beside everything else. What an
account has while something is due that has not run yet is left to the clock.

--apply writes what the facts of one account come to. It shows first what differs; --dry-run ends there. Who and why
go into the audit trail.

Exit code 0 when there is no difference, or it was repaired, 1 when there is one, or one is left.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of := billing.Scope{Mode: mode, Account: account}
			who = a.who(who)
			switch {
			case check == (account != ""):
				return usagef("rebuild needs one of --check and --apply ACCOUNT")
			case check && mode != "":
				return usagef("--mode goes with --apply: a check is of both")
			case account != "" && mode != "live" && mode != "test":
				return usagef("--apply needs --mode live or --mode test")
			case account != "" && !dryRun:
				if err := accountable("rebuild --apply", who, why); err != nil {
					return err
				}
			}
			cfg, err := a.config()
			if err != nil {
				return err
			}
			pool, err := process.OpenPool(cmd.Context(), cfg, schema.Asking, askingConns)
			if err != nil {
				return err
			}
			defer pool.Close()
			if err := checkDatabase(cmd.Context(), cfg, pool); err != nil {
				return err
			}
			return a.rebuildRows(cmd.Context(), pool, of, process.BillingPolicy(cfg), account != "" && !dryRun, who, why)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "compare everything")
	cmd.Flags().StringVar(&account, "apply", "", "the `account` of ours to repair")
	cmd.Flags().StringVar(&mode, "mode", "", "the account's mode: live or test")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what --apply would change")
	cmd.Flags().StringVar(&who, "who", "", whoUsage)
	cmd.Flags().StringVar(&why, "why", "", "why, for the audit trail (required with --apply)")
	return cmd
}

func (a *app) rebuildRows(ctx context.Context, pool *pgxpool.Pool, of billing.Scope, policy billing.Policy, repair bool, who, why string) (err error) {
	report := rebuildReport{Left: []billing.Difference{}}
	if report.Differences, err = operator.CheckRows(ctx, pool, of, policy, a.tellProgress()); err != nil {
		return err
	}
	if report.Differences == nil {
		report.Differences = []billing.Difference{}
	}
	if repair && len(report.Differences) > 0 {
		if report.Folded, err = operator.RepairRows(ctx, pool, audit.New(pool, a.log), of, policy, report.Differences, who, why); err != nil {
			return err
		}
		left, err := operator.CheckRows(ctx, pool, of, policy, nil)
		if err != nil {
			return err
		}
		report.Left = append(report.Left, left...)
	}
	if err := a.writeRebuild(report, of, repair); err != nil {
		return err
	}
	if len(report.Differences) > 0 && !repair || len(report.Left) > 0 {
		return errAnswered
	}
	return nil
}

// tellProgress says now and then how far a rebuild is, once there is much to fold.
func (a *app) tellProgress() billing.Progress {
	return func(done, all int) {
		if all >= 1000 {
			fmt.Fprintf(a.err, "folded %d of %s\n", done, plural(all, "object"))
		}
	}
}

func (a *app) writeRebuild(r rebuildReport, of billing.Scope, repaired bool) error {
	if a.json {
		return a.writeJSON(r)
	}
	if len(r.Differences) == 0 {
		_, err := fmt.Fprintln(a.out, "no difference: every row is what its facts come to")
		return err
	}
	if err := a.writeDrift(r.Differences); err != nil {
		return err
	}
	if of == (billing.Scope{}) {
		of = billing.Scope{Account: "ACCOUNT", Mode: "MODE"}
	}
	text := fmt.Sprintf("%s; repair with: %s", plural(len(r.Differences), "difference"), a.commandLine("rebuild --apply "+shellWord(of.Account)+" --mode "+of.Mode+" --why REASON"))
	switch {
	case repaired && len(r.Left) == 0:
		text = fmt.Sprintf("%s repaired, from %s", plural(len(r.Differences), "difference"), plural(r.Folded, "object"))
	case repaired:
		text = fmt.Sprintf("%s folded anew; this differs all the same:", plural(r.Folded, "object"))
	}
	if _, err := fmt.Fprintln(a.out, "\n"+text); err != nil || len(r.Left) == 0 {
		return err
	}
	return a.writeDrift(r.Left)
}

func (a *app) writeDrift(list []billing.Difference) error {
	rows := [][]string{{"TABLE", "ROW", "MODE", "ACCOUNT", "DIFFERENCE"}}
	for _, d := range list {
		rows = append(rows, []string{d.Table, d.Row, d.Mode, d.Account, difference(d)})
	}
	return table(a.out, rows)
}

// difference says what stands in a row, and what its facts come to.
func difference(d billing.Difference) string {
	switch {
	case d.Is == nil:
		return "is missing"
	case d.Folded == nil:
		return "no fact tells of it"
	}
	var parts []string
	for _, column := range d.Columns {
		parts = append(parts, fmt.Sprintf("%s is %v, and the facts say %v", column, shown(d.Is[column]), shown(d.Folded[column])))
	}
	return strings.Join(parts, "; ")
}

func shown(value any) string {
	if value == nil || value == "" {
		return "nothing"
	}
	return fmt.Sprint(value)
}
