package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
)

func rulesDiff(a *command.App) *cobra.Command {
	var hash string
	cmd := &cobra.Command{
		Use: "diff", Short: "Show the accounts that the billing rules of this configuration would change",
		Args: command.NoArgument,
		Long: `Apply the plans, prices, account mapping and policy of this configuration to all facts, and list the accounts that would
change: access lost or gained, changes of plan, seats or features, and booked entries that would differ, with their sum.
The command changes and locks nothing. You can run it at any time, also before a deployment. If only plans and prices differ, it reads the accounts with facts about them. Otherwise it
reads all accounts, which takes as long as pawl rebuild --check.

Exit code 1 if an account would change, otherwise 0.`,
	}
	cmd.Flags().StringVar(&hash, "hash", "",
		"compare the rules with this `hash` instead of the rules of the configuration")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.WithSession(cmd.Context(), 0, a.LoadToAsk, func(ctx context.Context, s *command.Session) error {
			d, err := rules.Compare(ctx, s.DB, s.Policy, hash, folded(s))
			if err != nil {
				return err
			}
			return command.Emit(a, rulesReport{d}, writeRulesDiff)
		})
	}
	return cmd
}

// rulesReport is the output of `pawl rules diff`.
type rulesReport struct{ *rules.Diff }

// Failed reports whether an account would change.
func (r rulesReport) Failed() bool { return len(r.Accounts) > 0 }

func rulesApply(a *command.App) *cobra.Command {
	d := decision{Decision: decide.Decision{Verb: rules.Apply.Name}}
	cmd := &cobra.Command{
		Use: "apply [HASH] --reason REASON", Short: "Activate the billing rules of this configuration", Args: oneHash,
		Long: `Activate the billing rules of this configuration for all processes, and recompute the accounts that change, as a job.
The command first prints the output of pawl rules diff and asks you to confirm. The job includes accounts that events
changed in the meantime. It updates workspaces and features and publishes access.changed. It books no entry, sends no
email and opens no onboarding task: an effect that is done stays done.

HASH activates other rules instead of the rules of the configuration. To go back, run pawl rules apply OLD. The audit
trail records who changed the rules and why.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.accountable(a, "rules apply"); err != nil {
				return err
			}
			return a.WithSession(cmd.Context(), 0, a.Load, func(ctx context.Context, s *command.Session) error {
				diff, err := rules.Compare(ctx, s.DB, s.Policy, strings.Join(args, ""), folded(s))
				if err != nil {
					return err
				}
				d.yes = d.yes || diff.To == diff.Active
				return changeRules(ctx, s, d, diff)
			})
		},
	}
	d.manyFlags(cmd, 20, "the highest number of accounts to recompute per second")
	d.flags(cmd, "the reason, for the audit trail (required)")
	return cmd
}

// oneHash accepts at most one argument, the hash of billing rules.
func oneHash(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.Usagef("rules apply takes at most one hash: remove %q", args[1])
	}
	return nil
}

// changeRules shows the effects of new rules to a person, who confirms them by typing the number of affected
// accounts, and applies them.
func changeRules(ctx context.Context, s *command.Session, d decision, diff *rules.Diff) error {
	if !d.yes {
		writeRulesDiff(s.ToPerson(), rulesReport{diff})
	}
	if err := confirmNumber(s.App, d, "To activate them, type the number of affected accounts: ",
		len(diff.Accounts)); err != nil {
		return err
	}
	if s.FourEyes && diff.To != diff.Active {
		if err := diff.Propose(ctx, s.DB, d.Actor); err != nil {
			return err
		}
		return fmt.Errorf("%s is proposed but not active: two people have to apply it in the console (policy.four_eyes). "+
			"Sign in and open Rules", diff.To)
	}
	d.newRequest("rules")
	d.Target, d.Found = diff.To, &rules.Change{Diff: diff, Rate: d.rate}
	return executeIn(ctx, s, d.Decision)
}

func writeRulesDiff(a *command.App, r rulesReport) {
	if r.To == r.Active {
		fmt.Fprintf(a.Out, "%s is active already: nothing changes\n", r.To)
		return
	}
	a.Tables(tables.RulesSettings(r.Settings), impactRows(r.Accounts))
	tellOfMore(a, len(r.Accounts)-shownImpacts)
	fmt.Fprintf(a.Out, "\n%s instead of %s, as of %s: would change %s; nothing was done\n", r.To,
		cmp.Or(r.Active, "none"), output.Time(r.At), impactTotal(r.Accounts, r.Counts))
}
