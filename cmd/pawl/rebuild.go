package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// rebuildReport is the output of pawl rebuild.
type rebuildReport struct {
	Differences []rebuild.Difference `json:"differences"`
	// Folded is the number of objects that were recomputed and written. It is 0 for a check.
	Folded int `json:"folded"`
	// Left holds the differences that remain after a repair.
	Left []rebuild.Difference `json:"left"`

	scope    billing.Scope
	repaired bool
}

func rebuildCommand(a *app) *cobra.Command {
	var check bool
	var account, mode string
	d := decision{Decision: operator.Decision{Verb: operator.VerbRebuild}}
	cmd := &cobra.Command{
		Use:   "rebuild --check | --apply ACCOUNT --mode MODE --why REASON",
		Short: "Compare the billing rows with the facts, and repair the rows of an account", Args: noArgument,
		Long: `Recompute the rows of accounts, subscriptions, invoices and grants from the facts, and list the rows that differ.
--check changes and locks nothing. You can run it at any time. It skips changes of a scheduled action that is due and has
not run yet.

--apply writes the recomputed rows of one account. It first prints the differences; --dry-run stops there. The audit trail
records who repaired the rows and why.

Exit code 0 if there is no difference or all were repaired, otherwise 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scope := billing.Scope{Mode: mode, Account: account}
			switch {
			case check == (account != ""):
				return usagef("rebuild needs one of --check and --apply ACCOUNT")
			case check && mode != "":
				return usagef("--mode needs --apply: a check reads both modes")
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
	cmd.Flags().StringVar(&account, "apply", "", "the `account` to repair")
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
	report := rebuildReport{Differences: append([]rebuild.Difference{}, found...), Left: []rebuild.Difference{},
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

func (s *session) folded() rebuild.Progress {
	tell := s.progress()
	return func(done, all int) { tell("folded %d of %s", done, output.Plural(all, "object")) }
}

// Failed reports whether a difference is left.
func (r rebuildReport) Failed() bool { return len(r.Differences) > 0 && !r.repaired || len(r.Left) > 0 }

func writeRebuild(a *app, r rebuildReport) {
	if len(r.Differences) == 0 {
		fmt.Fprintln(a.out, "no difference: every row matches its facts")
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
		text = fmt.Sprintf("%s recomputed; these differences remain:", output.Plural(r.Folded, "object"))
	}
	fmt.Fprintln(a.out, "\n"+text)
	if len(r.Left) > 0 {
		writeDrift(a, r.Left)
	}
}

func writeDrift(a *app, drift []rebuild.Difference) {
	a.Table(output.Rows("TABLE|ROW|MODE|ACCOUNT|DIFFERENCE", drift, func(d rebuild.Difference) []any {
		return []any{d.Table, d.Row, d.Mode, d.Account, difference(d)}
	}))
}

func difference(d rebuild.Difference) string {
	switch {
	case d.Stored == nil:
		return "is missing"
	case d.Computed == nil:
		return "has no fact"
	}
	var parts []string
	for _, column := range d.Columns {
		parts = append(parts, fmt.Sprintf("%s is %v, computed %v", column, shown(d.Stored[column]),
			shown(d.Computed[column])))
	}
	return strings.Join(parts, "; ")
}

func shown(value any) string {
	if value == nil || value == "" {
		return "nothing"
	}
	return fmt.Sprint(value)
}
