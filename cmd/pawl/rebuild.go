package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
)

// rebuildReport is what pawl rebuild has found, and done.
type rebuildReport struct {
	Differences []billing.Difference `json:"differences"`
	// Folded is how many objects were folded anew and written, 0 for a check alone.
	Folded int `json:"folded"`
	// Left is what differs after a repair all the same.
	Left []billing.Difference `json:"left"`

	scope    billing.Scope
	repaired bool
}

func rebuild(a *app) *cobra.Command {
	var check bool
	var account, mode string
	d := decision{Decision: operator.Decision{Verb: operator.VerbRebuild}}
	cmd := &cobra.Command{
		Use:   "rebuild --check | --apply ACCOUNT --mode MODE --why REASON",
		Short: "Compare the billing rows with the facts, and repair an account's", Args: noArgument,
		Long: `Fold every fact anew and list the rows that are not what that comes to: of accounts, subscriptions, invoices
and grants. --check changes nothing and locks nothing; it may run beside everything else. What an
account has while something is due that has not run yet is left to the clock.

--apply writes what the facts of one account come to. It shows first what differs; --dry-run ends there. Who and why
go into the audit trail.

Exit code 0 when there is no difference, or it was repaired, 1 when there is one, or one is left.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scope := billing.Scope{Mode: mode, Account: account}
			switch {
			case check == (account != ""):
				return usagef("rebuild needs one of --check and --apply ACCOUNT")
			case check && mode != "":
				return usagef("--mode goes with --apply: a check is of both")
			case account != "" && mode == "":
				return usagef("--apply needs --mode live or --mode test")
			case account != "":
				if err := d.accountable(a, "rebuild --apply"); err != nil {
					return err
				}
			}
			d.Target, d.dryRun = account, d.dryRun || check
			return a.withSession(cmd.Context(), 0, a.configToAsk, func(ctx context.Context, s *session) error {
				return rebuildRows(ctx, s, scope, d)
			})
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "compare everything")
	cmd.Flags().StringVar(&account, "apply", "", "the `account` of ours to repair")
	modeFlag(cmd, &mode, "the account's mode: live or test")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "show what --apply would change")
	d.flags(cmd, "why, for the audit trail (required with --apply)")
	return cmd
}

func rebuildRows(ctx context.Context, s *session, scope billing.Scope, d decision) error {
	found, err := operator.CheckRows(ctx, s.db, scope, s.Policy, s.folded())
	if err != nil {
		return err
	}
	report := rebuildReport{Differences: append([]billing.Difference{}, found...), Left: []billing.Difference{},
		scope: scope}
	if !d.dryRun && len(found) > 0 {
		d.Found = &operator.Drift{Scope: scope, Differences: found}
		answer, err := s.Decide(ctx, d.Decision)
		if err != nil {
			return err
		}
		report.repaired, report.Folded = true, answer.Result.(*operator.RebuildResult).Folded
		left, err := operator.CheckRows(ctx, s.db, scope, s.Policy, nil)
		if err != nil {
			return err
		}
		report.Left = append(report.Left, left...)
	}
	return emit(s.app, report, writeRebuild)
}

func (s *session) folded() billing.Progress {
	tell := s.progress()
	return func(done, all int) { tell("folded %d of %s", done, output.Plural(all, "object")) }
}

// Failed reports whether a difference is left.
func (r rebuildReport) Failed() bool { return len(r.Differences) > 0 && !r.repaired || len(r.Left) > 0 }

func writeRebuild(a *app, r rebuildReport) {
	if len(r.Differences) == 0 {
		fmt.Fprintln(a.out, "no difference: every row is what its facts come to")
		return
	}
	writeDrift(a, r.Differences)
	scope := r.scope
	if scope == (billing.Scope{}) {
		scope = billing.Scope{Account: "ACCOUNT", Mode: "MODE"}
	}
	text := fmt.Sprintf("%s; repair with: %s", output.Plural(len(r.Differences), "difference"),
		a.commandLine("rebuild --apply "+operator.ShellWord(scope.Account)+" --mode "+scope.Mode+" --why REASON"))
	switch {
	case r.repaired && len(r.Left) == 0:
		text = fmt.Sprintf("%s repaired, from %s", output.Plural(len(r.Differences), "difference"),
			output.Plural(r.Folded, "object"))
	case r.repaired:
		text = fmt.Sprintf("%s folded anew; this differs all the same:", output.Plural(r.Folded, "object"))
	}
	fmt.Fprintln(a.out, "\n"+text)
	if len(r.Left) > 0 {
		writeDrift(a, r.Left)
	}
}

func writeDrift(a *app, drift []billing.Difference) {
	a.Table(output.Rows("TABLE|ROW|MODE|ACCOUNT|DIFFERENCE", drift, func(d billing.Difference) []any {
		return []any{d.Table, d.Row, d.Mode, d.Account, difference(d)}
	}))
}

func difference(d billing.Difference) string {
	switch {
	case d.Is == nil:
		return "is missing"
	case d.Folded == nil:
		return "no fact tells of it"
	}
	var parts []string
	for _, column := range d.Columns {
		parts = append(parts, fmt.Sprintf("%s is %v, and the facts say %v", column, shown(d.Is[column]),
			shown(d.Folded[column])))
	}
	return strings.Join(parts, "; ")
}

func shown(value any) string {
	if value == nil || value == "" {
		return "nothing"
	}
	return fmt.Sprint(value)
}
