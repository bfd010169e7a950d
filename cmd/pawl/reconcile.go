package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/quota"
)

// reconciling is a call of pawl reconcile.
type reconciling struct {
	decision
	mode, source string
	all          bool
	since        time.Time
}

func reconcile(a *app) *cobra.Command {
	r := reconciling{decision: decision{Decision: operator.Decision{Verb: operator.VerbReconcile}}}
	cmd := &cobra.Command{
		Use:   "reconcile ACCOUNT|--all --why REASON",
		Short: "Compare accounts with what Stripe says now, and bring them there",
		Long: `Ask Stripe, with the source's api_key, for all that it holds of an account's customers: the customer, the
subscriptions, those that have ended, too, invoices, credit notes, checkouts that were paid and have no invoice, and the
refunds, disputes and early fraud warnings of charges. Each list is read up to its newest thousand, and
warnings up to the newest hundred charges; anything beyond is named as left out. Show where our rows say something else.
After a confirmation, which --yes stands for, what Stripe says is kept as facts, and a run for each object brings
the rows, the workspace and the finance entries there, by the keys of the events that were lost: nothing is done twice.
Nobody is written to; a letter that a lost event would have sent is sent when pawl gaps files that event.

ACCOUNT is our ID of it, or the provider's of a customer, a subscription or an invoice of it; or of a customer that no
event has told of.

--all compares every account that has access, or something open, as a job: it makes half of the
source's api_rate of requests at most. pawl jobs show says of each account whether it is the same, was mended, or asks: a
customer or an object that Stripe does not show is for a person to look at. With a key, a schedule does so within each
policy.reconcile by itself.

Exit code 0 when there is no difference, or it was filed, 1 when there is one.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if r.all {
				return noArgument(cmd, args)
			}
			return oneID(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.accountable(a, "reconcile"); err != nil {
				return err
			}
			if len(r.Request) > operator.MaxRequest {
				return usagef("--request-id: use %d bytes at most", operator.MaxRequest)
			}
			if r.all {
				return r.runAll(cmd.Context(), a)
			}
			r.Target = args[0]
			return withStripe(cmd.Context(), a, r.source, r.run)
		},
	}
	modeFlag(cmd, &r.mode, "live or test, where both have the ID")
	cmd.Flags().StringVar(&r.source, "source", "", "`name` of the source whose key is used, where several have one")
	cmd.Flags().BoolVar(&r.all, "all", false, "all accounts, in place of ACCOUNT, as a job")
	timeFlag(cmd.Flags(), &r.since, "since", "with --all, only accounts that were touched since "+sinceUsage)
	cmd.Flags().Float64Var(&r.rate, "rate", 1, "with --all, how many accounts a second, at most")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "show the difference, and change nothing")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "bring it there without asking")
	r.flags(cmd, "why, for the audit trail (required without --dry-run)")
	return cmd
}

// runAll makes the job about all accounts, or says how many it would be about.
func (r *reconciling) runAll(ctx context.Context, a *app) error {
	var made *operator.NewJob
	none, of := true, ""
	err := a.deciding(ctx, func(ctx context.Context, s *session) (err error) {
		if s.Asked, err = process.Asked(s.cfg, providers(), s.db, s.receipts); err != nil {
			return err
		}
		if made, err = s.ReconcileAll(ctx, account.Uncompared{Touched: r.since}, r.source); err != nil {
			return err
		}
		if !r.since.IsZero() {
			made.Filter["since"] = r.since.Format(time.RFC3339)
		}
		n := len(made.Others)
		if none, of = r.dryRun || n == 0, output.Plural(n, "account"); !none {
			return nil
		}
		return emit(a, map[string]int{"accounts": n}, func(a *app, _ map[string]int) {
			fmt.Fprintf(a.out, "would compare %s; nothing was done\n", of)
		})
	})
	if err != nil || none {
		return err
	}
	return a.startJob(ctx, r.decision, made, "Compare "+of+", and bring them to what Stripe says.")
}

// run compares one account, and brings it to what Stripe says once a person has confirmed that.
func (r *reconciling) run(ctx context.Context, s *session, source string) error {
	api, err := process.StripeAPI(source, s.cfg.Sources[source], quota.New(s.db))
	if err != nil {
		return err
	}
	tell := s.progress()
	found, err := (&operator.Reconciler{
		DB: s.db, API: api.With(patience), Source: source, Policy: s.Policy, Request: r.Request,
		Told: func(customer string, n int) { tell("%s: %s to compare", customer, output.Plural(n, "object")) },
	}).Compare(ctx, r.Target, r.mode)
	if err != nil {
		return err
	}
	if !s.JSON {
		writeDifferences(s.app, found)
	}
	if len(found.Differences) > 0 && !r.dryRun {
		if err := s.confirm(r.decision, "Bring our rows to what Stripe says?"); err != nil {
			return err
		}
		r.Found = found
		if _, err := s.Decide(ctx, r.Decision); err != nil {
			return err
		}
	}
	return emit(s.app, found, writeFiled)
}

func writeDifferences(a *app, r *operator.Reconciliation) {
	for _, id := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(a.err, "%s is left out: %s\n", output.Clean(id), output.Clean(r.LeftOut[id]))
	}
	if len(r.Differences) == 0 {
		fmt.Fprintf(a.out, "no difference: %s of %s compared\n", output.Plural(r.Compared, "object"),
			output.Clean(strings.Join(r.Customers, ", ")))
		return
	}
	a.Table(output.Rows("OBJECT|FIELD|OURS|STRIPE'S", r.Differences, func(d operator.Difference) []any {
		return []any{d.Object, d.Field, cmp.Or(d.Ours, "-"), cmp.Or(d.Theirs, "-")}
	}))
}

func writeFiled(a *app, r *operator.Reconciliation) {
	if len(r.Filed) == 0 {
		return
	}
	fmt.Fprintf(a.out, "\n%s filed; follow with:\n", output.Plural(len(r.Filed), "object"))
	for _, f := range r.Filed {
		fmt.Fprintln(a.out,
			"  "+output.Clean(a.commandLine("events show "+operator.ShellWord(f.EventID))))
	}
}
