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
		Use:   "gaps SOURCE --from TIME [--to TIME] [--file --why REASON]",
		Short: "Find what the provider has sent and never came, and take it in",
		Long: `List what Stripe has sent to a source in a period, with the source's api_key, and show what of it never came. It ends
with "no gap between A and B", or with the list.

--file takes the missing events in, by the same way as deliveries: the evidence says that they came by the API and nobody
has signed them. Should one be delivered after all, that is a duplicate, and its effects are done once. More than 50 events
are filed after a confirmation, which --yes stands for.

TIME is a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d. Stripe keeps events for 30 days.

Exit code 0 when there is no gap, or all missing events are filed, 1 when there is one.`,
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
				return runGaps(ctx, s, name, from, to, file, d)
			})
		},
	}
	timeFlag(cmd.Flags(), &from, "from", "since when (required)")
	timeFlag(cmd.Flags(), &to, "to", "until when (default: now)")
	cmd.Flags().BoolVar(&file, "file", false, "take in what is missing")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "file more than 50 without asking")
	d.flags(cmd, "why, for the audit trail (required with --file)")
	return cmd
}

// withStripe calls f with the source that can be asked for what Stripe holds. Stripe may take its time:
// there is no deadline.
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
	return emit(s.app, report, writeGaps)
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
		says += "; file what is missing with: " + a.commandLine("gaps "+operator.ShellWord(r.Source)) + " --from " +
			r.From.Format(time.RFC3339) + " --to " + r.To.Format(time.RFC3339) + " --file --why REASON"
	} else {
		says += fmt.Sprintf("; %d filed: no gap is left", len(r.Filed))
	}
	if r.More {
		says += "; what is older was not looked at: file these first, and ask again"
	}
	fmt.Fprintln(a.out, "\n"+says)
}
