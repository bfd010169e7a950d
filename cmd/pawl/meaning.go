package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
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
		list, err := billing.Meanings(ctx, s.db)
		if list == nil {
			list = []billing.Meaning{}
		}
		return list, err
	}, func(a *app, list []billing.Meaning) error {
		rows := [][]string{{"MEANING", "STATE", "SINCE", "WHO", "WHY", "LAST PROPOSED", "BY"}}
		for _, m := range list {
			state := "proposed"
			switch {
			case m.InForce:
				state = "in force"
			case m.Since != nil:
				state = "was in force"
			}
			rows = append(rows, []string{m.Hash, state, output.Date(m.Since), m.Who, m.Why,
				output.Time(m.ProposedAt), m.ProposedBy})
		}
		return a.Table(rows)
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
	var yes bool
	rate := 20.0
	d := operator.Decision{Verb: operator.VerbApplyMeaning}
	cmd := &cobra.Command{
		Use: "apply --why REASON", Short: "Bring this configuration's meaning into force", Args: noArgument,
		Long: `Bring the meaning of this configuration into force for all processes, and fold the accounts anew that it hits, as a
job. It shows them first, as pawl meaning diff does, and asks. The job also takes the accounts that events have touched
since. Workspaces, features and the news of access follow. Nothing is booked, no letter is sent and no task of
onboarding is opened: an effect that is done stays done. --letters sends the letters of a kind that the accounts would
have had, once; the list before counts them.

pawl meaning apply --hash OLD is the way back. The audit trail has who and why.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.accountable("meaning apply", &d); err != nil {
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
				to := &operator.MeaningSwitch{MeaningDiff: diff, Rate: rate, Letters: letters}
				return switchMeaning(ctx, s, d, to, yes || diff.To == diff.InForce)
			})
		},
	}
	cmd.Flags().StringVar(&hash, "hash", "", "the meaning with this `hash`, in place of that of the configuration")
	cmd.Flags().Float64Var(&rate, "rate", rate, "how many accounts a second are folded anew, at most")
	cmd.Flags().StringSliceVar(&letters, "letters", nil, "send letters of this `kind` as well, or of several kinds")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	decisionFlags(cmd, &d, "why, for the audit trail (required)")
	return cmd
}

// switchMeaning has a person confirm a switch, unless yes is set, and decides it.
func switchMeaning(ctx context.Context, s *session, d operator.Decision, to *operator.MeaningSwitch, yes bool) error {
	if !yes {
		if err := confirmMeaning(s.app, to.MeaningDiff); err != nil {
			return err
		}
	}
	d.Target, d.Found = to.To, to
	d.Request = cmp.Or(d.Request, "meaning-"+uuid.NewString()[:8])
	answer, err := s.Decide(ctx, d)
	if err != nil {
		return err
	}
	return emit(s.app, answer, writeAnswer)
}

// confirmMeaning shows a diff to a person, and has them type how many accounts it hits.
func confirmMeaning(a *app, d *operator.MeaningDiff) error {
	shown := *a
	shown.out = a.err
	shown.Printer.Out = a.err
	if err := writeMeaningDiff(&shown, meaningReport{d}); err != nil {
		return err
	}
	n := strconv.Itoa(len(d.Accounts))
	if a.ask("To bring it into force, type how many accounts it hits: ") != n {
		return fmt.Errorf("not confirmed, and nothing done: type %s, or write --yes", n)
	}
	return nil
}

func writeMeaningDiff(a *app, r meaningReport) error {
	if r.To == r.InForce {
		_, err := fmt.Fprintf(a.out, "%s is in force: there is nothing to switch\n", r.To)
		return err
	}
	settings := [][]string{{"SETTING", "IN FORCE", "WOULD BE"}}
	for _, c := range r.Settings {
		settings = append(settings, []string{c.Name, cmp.Or(c.Was, "nothing"), cmp.Or(c.Is, "nothing")})
	}
	if err := a.Tables(settings, hitRows(r.Accounts), taskChangeRows(r.Tasks)); err != nil {
		return err
	}
	tellOfMore(a, len(r.Accounts)-shownHits)
	for _, kind := range slices.Sorted(maps.Keys(r.Letters)) {
		fmt.Fprintf(a.out, "not sent, except by --letters %s: %s\n", kind, output.Plural(r.Letters[kind], "letter"))
	}
	_, err := fmt.Fprintf(a.out, "\n%s in place of %s, as of %s: hits %s%s; nothing was done\n", r.To,
		cmp.Or(r.InForce, "none"), output.Time(r.At), output.Plural(len(r.Accounts), "account"),
		tables.InBrackets(hitCounts(r.Counts)))
	return err
}

// hitRows are the first accounts that are hit.
func hitRows(hits []billing.Hit) [][]string {
	rows := [][]string{{"ACCOUNT", "MODE", "CHANGE", "WHAT"}}
	for _, hit := range hits[:min(shownHits, len(hits))] {
		says := hit.Says
		if says == "" {
			says = output.Plural(len(hit.Differences), "row")
		}
		rows = append(rows, []string{hit.Account, hit.Mode, string(hit.Change), says})
	}
	return rows
}

// taskChangeRows are the tasks that would open and close.
func taskChangeRows(tasks []billing.TaskChange) [][]string {
	rows := [][]string{{"TASK", "ABOUT", "OPEN", "CLOSE", "MONEY"}}
	for _, c := range tasks {
		rows = append(rows, []string{c.Kind, c.Reason, strconv.Itoa(c.Opens), strconv.Itoa(c.Closes),
			operator.Sums(c.Money)})
	}
	return rows
}

// hitCounts says how many accounts are hit by what.
func hitCounts(counts map[billing.HitChange]int) string {
	var list []string
	for _, change := range billing.HitChanges {
		if n := counts[change]; n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, change))
		}
	}
	return strings.Join(list, ", ")
}
