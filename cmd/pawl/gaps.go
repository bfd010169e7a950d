package main

import (
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
	"github.com/pawlhq/pawl/schema/quota"
)

func gaps(a *app) *cobra.Command {
	d := decision{Decision: operator.Decision{Verb: operator.VerbFileGaps}}
	from, to := time.Time{}, time.Now()
	file := false
	cmd := &cobra.Command{
		Use:   "gaps SOURCE --from TIME [--to TIME] [--file {--why REASON | --dry-run}]",
		Short: "Find events that the provider sent and pawl did not receive, and file them",
		Long: `List the events that Stripe sent to a source in a period, with the source's api_key, and print those that pawl did
not receive, or "no gap between A and B".

--file stores the missing events like deliveries. Their evidence states that they were read from the API and have no
signature. If one of them is delivered later, it is a duplicate, and its effects are done once. To file more than 50
events, confirm the question or add --yes. --dry-run prints the events, and files none.

TIME is a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d. Stripe keeps events for 30 days.

Exit code 0 if there is no gap, or if all missing events were filed; otherwise 1.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("gaps needs one source")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if file {
				if err := d.accountable(a, "gaps --file"); err != nil {
					return err
				}
			}
			switch {
			case from.IsZero():
				return usagef("gaps needs --from TIME: a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d")
			case !from.Before(to):
				return usagef("--from must be before --to")
			}
			return withStripe(cmd.Context(), a, args[0], func(ctx context.Context, s *session, name string) error {
				return runGaps(ctx, s, name, from, to, file && !d.dryRun, d)
			})
		},
	}
	timeFlag(cmd.Flags(), &from, "from", "since when (required)")
	timeFlag(cmd.Flags(), &to, "to", "until when (default: now)")
	cmd.Flags().BoolVar(&file, "file", false, "file the missing events")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "file more than 50 without asking")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "with --file, print the events and file none")
	d.flags(cmd, "why, for the audit trail (required with --file, not with --dry-run)")
	return cmd
}

// withStripe calls f with a source that has an api_key. It sets no deadline, because Stripe can be slow.
func withStripe(ctx context.Context, a *app, source string, f func(context.Context, *session, string) error) error {
	return a.withSession(ctx, 0, a.config, func(ctx context.Context, s *session) error {
		if _, known := s.cfg.Sources[source]; source != "" && !known {
			return fmt.Errorf("no source %q is configured; there are: %s", source,
				strings.Join(slices.Sorted(maps.Keys(s.cfg.Sources)), ", "))
		}
		name, err := pickStripe(s.cfg, source)
		if err != nil {
			return err
		}
		return f(ctx, s, name)
	})
}

// mostUnasked is how many are changed without a confirmation.
const mostUnasked = 50

func runGaps(ctx context.Context, s *session, name string, from, to time.Time, file bool, d decision) error {
	api, err := process.StripeAPI(name, s.cfg.Sources[name], quota.New(s.db))
	if err != nil {
		return err
	}
	g, err := process.Gaps(s.cfg, providers(), name, api, s.db, s.receipts)
	if err != nil {
		return err
	}
	tell := s.progress()
	g.API, g.Told = api.With(patience), func(n int) { tell("%s listed", output.Plural(n, "event")) }
	report, err := g.Find(ctx, from, to)
	if err != nil {
		return err
	}
	if report.KeptSince != nil {
		fmt.Fprintf(s.err, "Stripe keeps events for 30 days: nothing before %s can be looked at\n",
			report.KeptSince.Format(time.RFC3339))
	}
	if missing := len(report.Missing); file && missing > 0 {
		d.yes = d.yes || missing <= mostUnasked
		if err := s.confirm(d, output.Plural(missing, "event")+" never came. File all of it?"); err != nil {
			return err
		}
		d.Target, d.Found = report.Source, report
		if _, err := s.Decide(ctx, d.Decision); err != nil {
			return err
		}
	}
	return emit(s.app, report, func(a *app, r *operator.GapReport) {
		writeGaps(a, r)
		if d.dryRun && len(r.Missing) > 0 {
			fmt.Fprintf(a.out, "would file %s; nothing was done\n", output.Plural(len(r.Missing), "event"))
		}
	})
}

func writeGaps(a *app, r *operator.GapReport) {
	between := fmt.Sprintf("between %s and %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	of := fmt.Sprintf("%s listed, %d of no interest to %s", output.Plural(r.Listed, "event"), r.Unwanted,
		output.Clean(r.Source))
	if len(r.Missing) == 0 {
		fmt.Fprintf(a.out, "no gap %s (%s)\n", between, of)
		return
	}
	became := map[string]string{}
	for _, f := range r.Filed {
		became[f.EventID] = "filed" + output.Because(f.Reason)
		if f.Duplicate {
			became[f.EventID] = "has come meanwhile"
		}
	}
	rows := output.Rows("EVENT|TYPE|OBJECT|ACCOUNT|MODE|CREATED|", r.Missing, func(g operator.Gap) []any {
		says := became[g.EventID]
		if says == "" && g.Pending {
			says = "Stripe still tries to deliver it"
		}
		return []any{g.EventID, g.Type, g.Object, g.Account, g.Mode, g.Created, says}
	})
	a.List(rows, "ACCOUNT", "MODE", "OBJECT")
	says := fmt.Sprintf("%s never came %s (%s)", output.Plural(len(r.Missing), "event"), between, of)
	if len(r.Filed) == 0 {
		says += "; file the missing events with: " + a.commandLine("gaps "+operator.ShellWord(r.Source)) + " --from " +
			r.From.Format(time.RFC3339) + " --to " + r.To.Format(time.RFC3339) + " --file --why REASON"
	} else {
		says += fmt.Sprintf("; %d filed: no gap is left", len(r.Filed))
	}
	if r.More {
		says += "; older events were not compared: file these first, and run the command again"
	}
	fmt.Fprintln(a.out, "\n"+says)
}
