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
)

// shownHits is how many accounts a screen shows.
const shownHits = 50

func meaningShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the meaning in force, those before it, and those that are proposed", Args: noArgument,
		Long: `Show the meaning of facts that is in force: the plans, prices, accounts and policy that every process folds by,
whatever its file says. Beside it stand those that were in force before, by whom and why, and those that processes
propose, because their files say something else.`,
	}
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]billing.Meaning, error) {
		meanings, err := billing.Meanings(ctx, s.db)
		return append([]billing.Meaning{}, meanings...), err
	}, func(a *app, known []billing.Meaning) {
		rows := output.Rows("MEANING|STATE|SINCE|WHO|WHY|LAST PROPOSED|BY", known, func(m billing.Meaning) []any {
			state := "proposed"
			switch {
			case m.InForce:
				state = "in force"
			case m.Since != nil:
				state = "was in force"
			}
			return []any{m.Hash, state, m.Since, m.Who, m.Why, m.ProposedAt, m.ProposedBy}
		})
		a.Table(rows)
	})
}

func meaningDiff(a *app) *cobra.Command {
	var hash string
	cmd := &cobra.Command{
		Use: "diff", Short: "Show whom this configuration would hit, were its meaning in force", Args: noArgument,
		Long: `Fold facts by the plans, prices, accounts and policy of this configuration, and list the accounts whose rows would
be others: who would lose or gain access, and whose plan, seats or features would change. Below stand the tasks that
would open or close, by price, and the entries that people would be asked about, with sums. Nothing is changed or
locked; it may run beside everything else, before a deploy, too. Where plans and prices alone change, it folds the
accounts whose facts name them; else all, which takes as long as pawl rebuild --check.

Exit code 1 when an account is hit, else 0.`,
	}
	cmd.Flags().StringVar(&hash, "hash", "", "the meaning with this `hash`, in place of that of the configuration")
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

// meaningReport is a diff as a command shows it.
type meaningReport struct{ *operator.MeaningDiff }

// Failed reports whether an account is hit.
func (r meaningReport) Failed() bool { return len(r.Accounts) > 0 }

func meaningApply(a *app) *cobra.Command {
	var hash string
	var letters []string
	d := decision{Decision: operator.Decision{Verb: operator.VerbApplyMeaning}}
	cmd := &cobra.Command{
		Use: "apply --why REASON", Short: "Bring this configuration's meaning into force", Args: noArgument,
		Long: `Bring the meaning of this configuration into force for all processes, and fold the accounts anew that it hits, as a
job. It shows them first, as pawl meaning diff does, and asks. The job also takes the accounts that events have touched
since. Workspaces, features and the news of access follow. Nothing is booked, no letter is sent and no task of
onboarding is opened: an effect that is done stays done. --letters sends the letters of a kind that the accounts would
have had, once; the list before counts them.

pawl meaning apply --hash OLD is the way back. The audit trail has who and why.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.accountable(a, "meaning apply"); err != nil {
				return err
			}
			if err := operator.CheckLetters(letters); err != nil {
				return usagef("--letters: %v", err)
			}
			return a.withSession(cmd.Context(), 0, a.config, func(ctx context.Context, s *session) error {
				diff, err := operator.DiffMeaning(ctx, s.db, s.Policy, hash, s.folded())
				if err != nil {
					return err
				}
				d.yes = d.yes || diff.To == diff.InForce
				return switchMeaning(ctx, s, d, diff, letters)
			})
		},
	}
	cmd.Flags().StringVar(&hash, "hash", "", "the meaning with this `hash`, in place of that of the configuration")
	cmd.Flags().StringSliceVar(&letters, "letters", nil, "send letters of this `kind` as well, or of several kinds")
	d.manyFlags(cmd, 20, "how many accounts a second are folded anew, at most")
	d.flags(cmd, "why, for the audit trail (required)")
	return cmd
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
	d.newRequest("meaning")
	d.Target, d.Found = diff.To, &operator.MeaningSwitch{MeaningDiff: diff, Rate: d.rate, Letters: letters}
	return s.decide(ctx, d.Decision)
}

func writeMeaningDiff(a *app, r meaningReport) {
	if r.To == r.InForce {
		fmt.Fprintf(a.out, "%s is in force: there is nothing to switch\n", r.To)
		return
	}
	settings := output.Rows("SETTING|IN FORCE|WOULD BE", r.Settings, func(c billing.Setting) []any {
		return []any{c.Name, cmp.Or(c.Was, "nothing"), cmp.Or(c.Is, "nothing")}
	})
	a.Tables(settings, hitRows(r.Accounts), taskChangeRows(r.Tasks))
	tellOfMore(a, len(r.Accounts)-shownHits)
	for _, kind := range slices.Sorted(maps.Keys(r.Letters)) {
		fmt.Fprintf(a.out, "not sent, except by --letters %s: %s\n", kind, output.Plural(r.Letters[kind], "letter"))
	}
	fmt.Fprintf(a.out, "\n%s in place of %s, as of %s: hits %s%s; nothing was done\n", r.To,
		cmp.Or(r.InForce, "none"), output.Time(r.At), output.Plural(len(r.Accounts), "account"),
		tables.InBrackets(hitCounts(r.Counts)))
}

func hitRows(hits []billing.Hit) [][]string {
	return output.Rows("ACCOUNT|MODE|CHANGE|WHAT", hits[:min(shownHits, len(hits))], func(hit billing.Hit) []any {
		return []any{hit.Account, hit.Mode, hit.Change, cmp.Or(hit.Says, output.Plural(len(hit.Differences), "row"))}
	})
}

func taskChangeRows(tasks []billing.TaskChange) [][]string {
	return output.Rows("TASK|ABOUT|OPEN|CLOSE|MONEY", tasks, func(c billing.TaskChange) []any {
		return []any{c.Kind, c.Reason, c.Opens, c.Closes, operator.Sums(c.Money)}
	})
}

func hitCounts(counts map[billing.HitChange]int) string {
	var list []string
	for _, change := range billing.HitChanges {
		if n := counts[change]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, change))
		}
	}
	return strings.Join(list, ", ")
}
