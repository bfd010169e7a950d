package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// rebuildReport is the output of pawl rebuild.
type rebuildReport struct {
	Differences []rebuild.Difference `json:"differences"`
	// Folded is the number of objects that were recomputed and written. It is 0 for a check.
	Folded int `json:"computed"`
	// Left holds the differences that remain after a repair.
	Left []rebuild.Difference `json:"remaining"`

	scope    billing.Scope
	repaired bool
}

// rebuilding holds the arguments of pawl rebuild.
type rebuilding struct {
	rereading
	check, fromPayloads bool
	account             string
}

func rebuildCommand(a *command.App) *cobra.Command {
	r := rebuilding{rereading: rereading{decision: decision{Decision: decide.Decision{Verb: rules.Rebuild.Name}}}}
	cmd := &cobra.Command{
		Use:   "rebuild {--check | --apply ACCOUNT --mode MODE | --from-payloads [ACCOUNT...]} --reason REASON",
		Short: "Compare the billing rows with the facts, and repair them",
		Long: `Recompute the rows of accounts, subscriptions, invoices and grants from the facts, and list the rows that differ.
--check changes and locks nothing. You can run it at any time. It skips changes of a scheduled action that is due and has
not run yet.

--apply writes the recomputed rows of one account. It first prints the differences; --dry-run stops there.

--from-payloads parses the stored payloads of some accounts, or of all accounts, again with the current parser. The
command prints the facts that change and the affected accounts, and asks you to confirm. It then appends the new facts,
which replace the facts of the first parse, and a job recomputes the accounts. Fetched facts stay. A complete fact is
never replaced by an incomplete one. The command names the events without a payload and the thin events, and keeps their
facts. The job updates workspaces and features and publishes access.changed. It books no entry, sends no email and opens
no onboarding task.

The audit trail records who repaired the rows and why.

Exit code 1 if --check or a dry run finds a difference, or if a difference remains after a repair, otherwise 0.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if r.fromPayloads {
				return nil
			}
			return command.NoArgument(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.validate(cmd); err != nil {
				return err
			}
			if r.fromPayloads {
				return r.reread(cmd, a, args)
			}
			if !r.check {
				if err := r.accountable(a, "rebuild --apply"); err != nil {
					return err
				}
			}
			r.Target, r.dryRun = r.account, r.dryRun || r.check
			return a.WithSession(cmd.Context(), 0, a.LoadToAsk, func(ctx context.Context, s *command.Session) error {
				return rebuildRows(ctx, s, billing.Scope{Mode: r.mode, Account: r.account}, r.decision)
			})
		},
	}
	cmd.Flags().BoolVar(&r.check, "check", false, "compare everything")
	cmd.Flags().StringVar(&r.account, "apply", "", "the `account` to repair")
	cmd.Flags().BoolVar(&r.fromPayloads, "from-payloads", false, "parse stored payloads again")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "show the changes and change nothing")
	r.rereading.flags(cmd)
	r.decision.flags(cmd, "the reason, for the audit trail (required without --check)")
	return cmd
}

// validate returns an error if the flags do not fit together.
func (r *rebuilding) validate(cmd *cobra.Command) error {
	chosen := 0
	for _, is := range []bool{r.check, r.account != "", r.fromPayloads} {
		if is {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return command.Usagef("rebuild needs one of --check, --apply ACCOUNT and --from-payloads")
	case r.check && r.mode != "":
		return command.Usagef("--mode needs --apply or --from-payloads: a check reads both modes")
	case r.account != "" && r.mode == "":
		return command.Usagef("--apply needs --mode live or --mode test")
	}
	for _, name := range payloadFlags {
		if !r.fromPayloads && cmd.Flags().Changed(name) {
			return command.Usagef("--%s needs --from-payloads", name)
		}
	}
	return nil
}

func rebuildRows(ctx context.Context, s *command.Session, scope billing.Scope, d decision) error {
	found, err := rules.CheckRows(ctx, s.DB, scope, s.Policy, folded(s))
	if err != nil {
		return err
	}
	report := rebuildReport{Differences: append([]rebuild.Difference{}, found...), Left: []rebuild.Difference{},
		scope: scope}
	if !d.dryRun && len(found) > 0 {
		d.Found = &rules.Drift{Scope: scope, Differences: found}
		answer, err := s.Decide(ctx, d.Decision)
		if err != nil {
			return err
		}
		report.repaired, report.Folded = true, answer.Result.(*rules.RebuildResult).Folded
		left, err := rules.CheckRows(ctx, s.DB, scope, s.Policy, nil)
		if err != nil {
			return err
		}
		report.Left = append(report.Left, left...)
	}
	return command.Emit(s.App, report, writeRebuild)
}

func folded(s *command.Session) rebuild.Progress {
	tell := s.Progress()
	return func(done, all int) { tell("folded %d of %s", done, output.Plural(all, "object")) }
}

// Failed reports whether a difference is left.
func (r rebuildReport) Failed() bool { return len(r.Differences) > 0 && !r.repaired || len(r.Left) > 0 }

func writeRebuild(a *command.App, r rebuildReport) {
	if len(r.Differences) == 0 {
		fmt.Fprintln(a.Out, "no difference: every row matches its facts")
		return
	}
	writeDrift(a, r.Differences)
	scope := r.scope
	if scope == (billing.Scope{}) {
		scope = billing.Scope{Account: "ACCOUNT", Mode: "MODE"}
	}
	text := fmt.Sprintf("%s; repair with: %s", output.Plural(len(r.Differences), "difference"),
		a.CommandLine("rebuild --apply "+decide.ShellWord(scope.Account)+" --mode "+scope.Mode+" --reason REASON"))
	switch {
	case r.repaired && len(r.Left) == 0:
		text = fmt.Sprintf("%s repaired, from %s", output.Plural(len(r.Differences), "difference"),
			output.Plural(r.Folded, "object"))
	case r.repaired:
		text = fmt.Sprintf("%s recomputed; these differences remain:", output.Plural(r.Folded, "object"))
	}
	fmt.Fprintln(a.Out, "\n"+text)
	if len(r.Left) > 0 {
		writeDrift(a, r.Left)
	}
}

func writeDrift(a *command.App, drift []rebuild.Difference) {
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
