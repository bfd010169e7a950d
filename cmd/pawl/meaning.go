package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/tables"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
)

// shownHits is how many accounts a screen shows.
const shownHits = 50

func meaningShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the active, the earlier and the proposed billing rules", Args: noArgument,
		Long: `Show the active billing rules: the plans, prices, account mapping and policy that every process applies, even if its
configuration file differs. The list also has the earlier rules, with the person who replaced them and the reason, and the
rules that processes propose because their configuration files differ.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]billing.Meaning, error) {
		meanings, err := billing.Meanings(ctx, s.db)
		return append([]billing.Meaning{}, meanings...), err
	}, func(a *app, known []billing.Meaning) {
		a.Table(tables.Meanings(known))
	})
}

func meaningDiff(a *app) *cobra.Command {
	var hash string
	cmd := &cobra.Command{
		Use: "diff", Short: "Show the accounts that the billing rules of this configuration would change",
		Args: noArgument,
		Long: `Apply the plans, prices, account mapping and policy of this configuration to all facts, and list the accounts that would
change: access lost or gained, and changes of plan, seats or features. Then follow the tasks that would open or close, by
price, and the entries that would need a decision, with sums. The command changes and locks nothing. You can run it at any
time, also before a deployment. If only plans and prices differ, it reads the accounts with facts about them. Otherwise it
reads all accounts, which takes as long as pawl rebuild --check.

Exit code 1 if an account would change, otherwise 0.`,
	}
	cmd.Flags().StringVar(&hash, "hash", "",
		"compare the rules with this `hash` instead of the rules of the configuration")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withSession(cmd.Context(), 0, a.configToAsk, func(ctx context.Context, s *session) error {
			d, err := operator.DiffMeaning(ctx, s.db, s.Policy, hash, s.folded())
			if err != nil {
				return err
			}
			return emit(a, meaningReport{d}, writeMeaningDiff)
		})
	}
	return cmd
}

// meaningReport is the output of `pawl meaning diff`.
type meaningReport struct{ *operator.MeaningDiff }

// Failed reports whether an account would change.
func (r meaningReport) Failed() bool { return len(r.Accounts) > 0 }

func meaningApply(a *app) *cobra.Command {
	var letters []string
	d := decision{Decision: operator.Decision{Verb: operator.VerbApplyMeaning}}
	cmd := &cobra.Command{
		Use: "apply [HASH] --why REASON", Short: "Activate the billing rules of this configuration", Args: oneHash,
		Long: `Activate the billing rules of this configuration for all processes, and recompute the accounts that change, as a job. The
command first prints the output of pawl meaning diff and asks. The job includes accounts that events changed in the
meantime. It updates workspaces and features and publishes access.changed. It books no entry, sends no email and opens no
onboarding task: an effect that is done stays done. --letters sends the emails of a kind that the accounts would have
received, once; the printed list counts them.

HASH activates other rules instead of the rules of the configuration. To go back, run pawl meaning apply OLD. The audit
trail records who changed the rules and why.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.accountable(a, "meaning apply"); err != nil {
				return err
			}
			if err := operator.CheckLetters(letters); err != nil {
				return usagef("--letters: %v", err)
			}
			return a.withSession(cmd.Context(), 0, a.config, func(ctx context.Context, s *session) error {
				diff, err := operator.DiffMeaning(ctx, s.db, s.Policy, strings.Join(args, ""), s.folded())
				if err != nil {
					return err
				}
				d.yes = d.yes || diff.To == diff.InForce
				return switchMeaning(ctx, s, d, diff, letters)
			})
		},
	}
	cmd.Flags().StringSliceVar(&letters, "letters", nil, "also send the emails of this `kind`, or of several kinds")
	d.manyFlags(cmd, 20, "the highest number of accounts to recompute per second")
	d.flags(cmd, "why, for the audit trail (required)")
	return cmd
}

// oneHash accepts at most one argument, the hash of billing rules.
func oneHash(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("meaning apply takes at most one hash: remove %q", args[1])
	}
	return nil
}

// switchMeaning shows a switch to a person, who types how many accounts it hits, and decides it.
func switchMeaning(ctx context.Context, s *session, d decision, diff *operator.MeaningDiff, letters []string) error {
	if !d.yes {
		writeMeaningDiff(s.toPerson(), meaningReport{diff})
	}
	if err := s.confirmNumber(d, "To bring it into force, type how many accounts it hits: ",
		len(diff.Accounts)); err != nil {
		return err
	}
	if s.FourEyes && diff.To != diff.InForce {
		if err := diff.Propose(ctx, s.db, d.Who); err != nil {
			return err
		}
		return fmt.Errorf("%s is proposed but not active: two people have to apply it in the console (policy.four_eyes). "+
			"Sign in and open Rules", diff.To)
	}
	d.newRequest("meaning")
	d.Target, d.Found = diff.To, &operator.MeaningSwitch{MeaningDiff: diff, Rate: d.rate, Letters: letters}
	return s.decide(ctx, d.Decision)
}

func writeMeaningDiff(a *app, r meaningReport) {
	if r.To == r.InForce {
		fmt.Fprintf(a.out, "%s is active already: nothing changes\n", r.To)
		return
	}
	settings := output.Rows("SETTING|IN FORCE|WOULD BE", r.Settings, func(c fact.Setting) []any {
		return []any{c.Name, cmp.Or(c.Was, "nothing"), cmp.Or(c.Is, "nothing")}
	})
	a.Tables(settings, hitRows(r.Accounts), taskChangeRows(r.Tasks))
	tellOfMore(a, len(r.Accounts)-shownHits)
	for _, kind := range slices.Sorted(maps.Keys(r.Letters)) {
		fmt.Fprintf(a.out, "not sent without --letters %s: %s\n", kind, output.Plural(r.Letters[kind], "email"))
	}
	fmt.Fprintf(a.out, "\n%s instead of %s, as of %s: would change %s%s; nothing was done\n", r.To,
		cmp.Or(r.InForce, "none"), output.Time(r.At), output.Plural(len(r.Accounts), "account"),
		tables.InBrackets(hitCounts(r.Counts)))
}

func hitRows(hits []rebuild.Impact) [][]string {
	return output.Rows("ACCOUNT|MODE|CHANGE|WHAT", hits[:min(shownHits, len(hits))], func(hit rebuild.Impact) []any {
		return []any{hit.Account, hit.Mode, hit.Change, cmp.Or(hit.Says, output.Plural(len(hit.Differences), "row"))}
	})
}

func taskChangeRows(tasks []rebuild.TaskChange) [][]string {
	return output.Rows("TASK|ABOUT|OPEN|CLOSE|MONEY", tasks, func(c rebuild.TaskChange) []any {
		return []any{c.Kind, c.Reason, c.Opens, c.Closes, operator.Sums(c.Money)}
	})
}

func hitCounts(counts map[rebuild.Change]int) string {
	var list []string
	for _, change := range rebuild.Changes {
		if n := counts[change]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, change))
		}
	}
	return strings.Join(list, ", ")
}
