package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	accounts "github.com/pawlhq/pawl/cmd/internal/operator/account"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/quota"
)

// reconciling holds the arguments of pawl reconcile.
type reconciling struct {
	decision
	mode, source string
	all          bool
	since        time.Time
}

func reconcile(a *command.App) *cobra.Command {
	r := reconciling{decision: decision{Decision: decide.Decision{Verb: accounts.Reconcile.Name}}}
	cmd := &cobra.Command{
		Use:   "reconcile ACCOUNT|--all --reason REASON",
		Short: "Compare accounts with the current state at Stripe, and repair them",
		Long: `Fetch the objects of an account's customers from Stripe with the api_key of the source: the customer, all
subscriptions (also ended ones), invoices, credit notes, paid checkouts without an invoice, and the refunds, disputes and
early fraud warnings of charges. The command reads at most the newest thousand objects of each list, and the warnings of
the newest hundred charges; it names everything that it left out. It prints the fields that differ from our rows.

After a confirmation (or with --yes) it stores the fetched objects as facts and starts a run for each object. The runs
update the rows, the workspace and the finance entries with the keys of the original events, so that no effect happens
twice. The runs send no email. To send the emails of a lost event, file the event with pawl events backfill.

The command also compares the sum of the finance entries with Stripe's balance, for each currency: charges, refunds and
disputes, before fees. It prints a difference with the objects that differ. It books no entry for the difference; check
these objects first.

ACCOUNT is your ID of the account, or the provider's ID of one of its customers, subscriptions or invoices. It can also be
the ID of a customer that pawl has no event of.

--all compares every account that has access or anything open, as a job. The job uses at most half of the source's
api_rate_limit. pawl jobs show has the result of each account: equal, repaired, or a question for a person, for example because
Stripe does not return a customer. With an api_key, a schedule does the same once per policy.reconcile.

Exit code 0 if there is no difference or the differences were filed, otherwise 1. If nothing was compared, the exit
code is 1 and the last line has the reason.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if r.all {
				return command.NoArgument(cmd, args)
			}
			return command.OneID(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.accountable(a, "reconcile"); err != nil {
				return err
			}
			if len(r.Request) > decide.MaxRequest {
				return command.Usagef("--request-id: use %d bytes at most", decide.MaxRequest)
			}
			if r.all {
				return r.runAll(cmd.Context(), a)
			}
			r.Target = args[0]
			return withStripe(cmd.Context(), a, r.source, r.run)
		},
	}
	command.ModeFlag(cmd, &r.mode, "live or test, if both have the ID")
	cmd.Flags().StringVar(&r.source, "source", "",
		"`name` of the source with the api_key, required if several sources have one")
	cmd.Flags().BoolVar(&r.all, "all", false, "all accounts instead of ACCOUNT, as a job")
	command.TimeFlag(cmd.Flags(), &r.since, "since", "with --all, only accounts that changed since "+command.SinceUsage)
	cmd.Flags().Float64Var(&r.rate, "rate", 1, "with --all, the highest number of accounts per second")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "show the differences and change nothing")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "repair without a confirmation")
	r.flags(cmd, "the reason, for the audit trail (required without --dry-run)")
	return cmd
}

// runAll starts the job for all accounts. A dry run prints the number of accounts.
func (r *reconciling) runAll(ctx context.Context, a *command.App) error {
	var made *decide.NewJob
	none, of := true, ""
	err := a.Deciding(ctx, func(ctx context.Context, s *command.Session) (err error) {
		watched, err := process.Watched(s.Config, s.Providers, s.DB, s.Receipts)
		if err != nil {
			return err
		}
		s.APIs = source.APIs(watched)
		if made, err = accounts.ReconcileAll(ctx, s.Operator, account.Uncompared{Touched: r.since},
			r.source); err != nil {
			return err
		}
		if !r.since.IsZero() {
			made.Filter["since"] = r.since.Format(time.RFC3339)
		}
		n := len(made.Others)
		if n == 0 {
			return fmt.Errorf("nothing was compared: no account%s has access or an open subscription, invoice or dispute",
				r.changed())
		}
		if none, of = r.dryRun, output.Plural(n, "account"); !none {
			return nil
		}
		return command.Emit(a, map[string]int{"accounts": n}, func(a *command.App, _ map[string]int) {
			fmt.Fprintf(a.Out, "would compare %s; nothing was done\n", of)
		})
	})
	if err != nil || none {
		return err
	}
	return startJob(ctx, a, r.decision, made, "This job would compare "+of+" with Stripe and repair the differences.")
}

// changed describes the accounts that --since selects.
func (r *reconciling) changed() string {
	if r.since.IsZero() {
		return ""
	}
	return " that changed since " + r.since.Format(time.RFC3339)
}

// run compares one account with Stripe. After a confirmation it applies the differences.
func (r *reconciling) run(ctx context.Context, s *command.Session, source string) error {
	api, err := process.StripeAPI(source, s.Config.Sources[source], quota.New(s.DB))
	if err != nil {
		return err
	}
	tell := s.Progress()
	found, err := (&accounts.Reconciler{
		DB: s.DB, API: api.With(patience), Source: source, Policy: s.Policy, Request: r.Request,
		OnCustomer: func(customer string, n int) { tell("%s: %s to compare", customer, output.Plural(n, "object")) },
	}).Compare(ctx, r.Target, r.mode)
	if err != nil {
		return err
	}
	if !s.JSON {
		writeDifferences(s.App, found)
	}
	if len(found.Differences) > 0 && !r.dryRun {
		if err := confirm(s.App, r.decision, "Repair our rows from the state at Stripe?"); err != nil {
			return err
		}
		r.Found = found
		if _, err := s.Decide(ctx, r.Decision); err != nil {
			return err
		}
	}
	return command.Emit(s.App, found, writeFiled)
}

// writeDifferences prints the differences, and the verdict in the last line.
func writeDifferences(a *command.App, r *accounts.Reconciliation) {
	if r.Compared > 0 {
		for _, line := range omitted(r) {
			fmt.Fprintln(a.Err, output.Clean(line))
		}
	}
	if len(r.Differences) > 0 {
		a.Table(output.Rows("OBJECT|FIELD|OURS|STRIPE'S", r.Differences, func(d accounts.Difference) []any {
			return []any{d.Object, d.Field, cmp.Or(d.Ours, "-"), cmp.Or(d.Theirs, "-")}
		}))
	}
	for _, d := range r.Cash {
		fmt.Fprintln(a.Out, output.Clean(d.String()))
	}
	fmt.Fprintln(a.Out, output.Clean(verdict(r)))
}

// omitted describes each object that was not compared.
func omitted(r *accounts.Reconciliation) (lines []string) {
	for _, id := range slices.Sorted(maps.Keys(r.LeftOut)) {
		lines = append(lines, id+" is left out: "+r.LeftOut[id])
	}
	return lines
}

// verdict summarizes a comparison in one line.
func verdict(r *accounts.Reconciliation) string {
	objects := map[string]bool{}
	for _, d := range r.Differences {
		objects[d.Object] = true
	}
	var differ []string
	if len(objects) > 0 {
		differ = append(differ, output.Plural(len(objects), "object"))
	}
	if len(r.Cash) > 0 {
		differ = append(differ, "the sums of "+output.Plural(len(r.Cash), "currency"))
	}
	if r.Compared == 0 {
		return "nothing was compared" + output.WithReason(strings.Join(omitted(r), "; "))
	}
	compared := fmt.Sprintf(": %s of %s compared", output.Plural(r.Compared, "object"), strings.Join(r.Customers, ", "))
	if len(differ) == 0 {
		return "no difference" + compared
	}
	verb := " differ"
	if len(objects) == 1 && len(r.Cash) == 0 {
		verb = " differs"
	}
	return strings.Join(differ, " and ") + verb + compared
}

func writeFiled(a *command.App, r *accounts.Reconciliation) {
	if len(r.Filed) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "\n%s filed; follow with:\n", output.Plural(len(r.Filed), "object"))
	for _, f := range r.Filed {
		fmt.Fprintln(a.Out,
			"  "+output.Clean(a.CommandLine("events show "+decide.ShellWord(f.EventID))))
	}
}
