package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/account"
	"github.com/pawlhq/pawl/schema/quota"
)

func reconcile(a *app) *cobra.Command {
	d := operator.Decision{Verb: operator.VerbReconcile}
	var mode, source string
	var dryRun, yes bool
	all := reconcileAll{rate: 1}
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
			if all.is {
				return noArgument(cmd, args)
			}
			return oneID("reconcile")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.accountable("reconcile", &d); err != nil && !dryRun {
				return err
			}
			if len(d.Request) > operator.MaxRequest {
				return usagef("--request-id: use %d bytes at most", operator.MaxRequest)
			}
			if all.is {
				return all.run(cmd.Context(), a, source, d, dryRun, yes)
			}
			return withStripe(cmd.Context(), a, source, func(ctx context.Context, s *session, name string) error {
				api, err := process.StripeAPI(name, s.cfg.Sources[name], quota.New(s.db))
				if err != nil {
					return err
				}
				d.Target = args[0]
				tell := s.progress()
				return runReconcile(ctx, s, &operator.Reconciler{
					DB: s.db, API: api, Source: name, Policy: s.Policy, Patience: patience, Request: d.Request,
					Told: func(customer string, n int) {
						tell("%s: %s to compare", customer, output.Plural(n,
							"object"))
					},
				}, mode, dryRun, yes, d)
			})
		},
	}
	modeFlag(cmd, &mode, "live or test, where both have the ID")
	cmd.Flags().StringVar(&source, "source", "", "`name` of the source whose key is used, where several have one")
	cmd.Flags().BoolVar(&all.is, "all", false, "all accounts, in place of ACCOUNT, as a job")
	timeFlag(cmd.Flags(), &all.since, "since", "with --all, only accounts that were touched since "+sinceUsage)
	cmd.Flags().Float64Var(&all.rate, "rate", all.rate, "with --all, how many accounts a second, at most")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the difference, and change nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "bring it there without asking")
	decisionFlags(cmd, &d, "why, for the audit trail (required without --dry-run)")
	return cmd
}

// reconcileAll is a call about all accounts.
type reconcileAll struct {
	is    bool
	since time.Time
	rate  float64
}

// run makes the job, or says how many accounts it would be about.
func (r reconcileAll) run(ctx context.Context, a *app, source string, d operator.Decision, dryRun, yes bool) error {
	return a.deciding(ctx, func(ctx context.Context, s *session) (err error) {
		if s.Asked, err = process.Asked(s.cfg, providers(), s.db, s.receipts); err != nil {
			return err
		}
		made, err := s.ReconcileAll(ctx, account.Uncompared{Touched: r.since}, source)
		if err != nil {
			return err
		}
		made.Rate = r.rate
		if !r.since.IsZero() {
			made.Filter["since"] = r.since.Format(time.RFC3339)
		}
		n := len(made.Others)
		of := output.Plural(n, "account")
		if dryRun || n == 0 {
			return emit(a, map[string]int{"accounts": n}, func(a *app, _ map[string]int) error {
				_, err := fmt.Fprintf(a.out, "would compare %s; nothing was done\n", of)
				return err
			})
		}
		return s.startJob(ctx, made, "Compare "+of+", and bring them to what Stripe says.", d, yes)
	})
}

// startJob makes a job about accounts, and starts it, once a person has typed how many they are.
func (s *session) startJob(ctx context.Context, made *operator.NewJob, does string, d operator.Decision,
	yes bool) error {
	n := strconv.Itoa(len(made.Others))
	if !yes && s.ask(does+" To go on, type how many they are: ") != n {
		return fmt.Errorf("not confirmed, and nothing done: type %s, or write --yes", n)
	}
	d.Verb, d.Request = operator.VerbStartJob, cmp.Or(d.Request, made.Action+"-"+uuid.NewString()[:8])
	d.Target, d.Found = d.Request, made
	answer, err := s.Decide(ctx, d)
	if err != nil {
		return err
	}
	return emit(s.app, answer, writeAnswer)
}

func runReconcile(ctx context.Context, s *session, r *operator.Reconciler, mode string, dryRun, yes bool,
	d operator.Decision) error {
	found, err := r.Compare(ctx, d.Target, mode)
	if err != nil {
		return err
	}
	if !s.JSON {
		if err := writeDifferences(s.app, found); err != nil {
			return err
		}
	}
	if len(found.Differences) > 0 && !dryRun {
		if !yes {
			if err := s.confirm("Bring our rows to what Stripe says?"); err != nil {
				return err
			}
		}
		d.Found = found
		if _, err := s.Decide(ctx, d); err != nil {
			return err
		}
	}
	return emit(s.app, found, writeFiled)
}

func writeDifferences(a *app, r *operator.Reconciliation) error {
	for _, id := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(a.err, "%s is left out: %s\n", output.Clean(id), output.Clean(r.LeftOut[id]))
	}
	if len(r.Differences) == 0 {
		_, err := fmt.Fprintf(a.out, "no difference: %s of %s compared\n", output.Plural(r.Compared, "object"),
			output.Clean(strings.Join(r.Customers, ", ")))
		return err
	}
	rows := [][]string{{"OBJECT", "FIELD", "OURS", "STRIPE'S"}}
	for _, d := range r.Differences {
		rows = append(rows, []string{d.Object, d.Field, shownOr(d.Ours), shownOr(d.Theirs)})
	}
	return a.Table(rows)
}

func shownOr(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func writeFiled(a *app, r *operator.Reconciliation) error {
	if len(r.Filed) == 0 {
		return nil
	}
	fmt.Fprintf(a.out, "\n%s filed; follow with:\n", output.Plural(len(r.Filed), "object"))
	for _, f := range r.Filed {
		if _, err := fmt.Fprintln(a.out,
			"  "+output.Clean(a.commandLine("events show "+operator.ShellWord(f.EventID)))); err != nil {
			return err
		}
	}
	return nil
}
