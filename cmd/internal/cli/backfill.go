package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/source"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/quota"
)

func eventsBackfill(a *command.App) *cobra.Command {
	d := decision{Decision: decide.Decision{Verb: source.Backfill.Name}}
	from, to := time.Time{}, time.Now()
	cmd := &cobra.Command{
		Use:   "backfill SOURCE --from TIME [--to TIME] [--yes --reason REASON]",
		Short: "Find events that the provider sent and pawl did not receive, and store them",
		Long: `List the events that Stripe sent to a source in a period, with the source's api_key, and print the missing ones, or
"no gap between A and B". Missing events are events that pawl did not receive.

--yes stores the missing events like deliveries. Their evidence states that they were read from the API and have no
signature. If one of them is delivered later, it is a duplicate, and its effects are done once.

TIME is a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d. Stripe keeps events for 30 days.

Exit code 0 if there is no gap, or if all missing events were stored; otherwise 1.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("events backfill needs one source")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.yes {
				if err := d.accountable(a, "events backfill --yes"); err != nil {
					return err
				}
			}
			switch {
			case from.IsZero():
				return command.Usagef("events backfill needs --from TIME: a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d")
			case !from.Before(to):
				return command.Usagef("--from must be before --to")
			}
			return withStripe(cmd.Context(), a, args[0], func(ctx context.Context, s *command.Session,
				name string) error {
				return backfill(ctx, s, name, from, to, d)
			})
		},
	}
	command.TimeFlag(cmd.Flags(), &from, "from", "since when (required)")
	command.TimeFlag(cmd.Flags(), &to, "to", "until when (default: now)")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "store the missing events")
	d.flags(cmd, "the reason, for the audit trail (required with --yes)")
	return cmd
}

// withStripe calls f with a source that has an api_key. It sets no deadline, because Stripe can be slow.
func withStripe(ctx context.Context, a *command.App, source string,
	f func(context.Context, *command.Session, string) error) error {
	return a.WithSession(ctx, 0, a.Load, func(ctx context.Context, s *command.Session) error {
		if _, known := s.Config.Sources[source]; source != "" && !known {
			return fmt.Errorf("no source %q is configured; there are: %s", source,
				strings.Join(slices.Sorted(maps.Keys(s.Config.Sources)), ", "))
		}
		name, err := pickStripe(s.Config, source)
		if err != nil {
			return err
		}
		return f(ctx, s, name)
	})
}

// backfill reports the missing events. With --yes it stores them.
func backfill(ctx context.Context, s *command.Session, name string, from, to time.Time, d decision) error {
	api, err := process.StripeAPI(name, s.Config.Sources[name], quota.New(s.DB))
	if err != nil {
		return err
	}
	g, err := process.Gaps(s.Config, s.Providers, name, api, s.DB, s.Receipts)
	if err != nil {
		return err
	}
	tell := s.Progress()
	g.API, g.OnPage = api.With(patience), func(n int) { tell("%s listed", output.Plural(n, "event")) }
	report, err := g.Find(ctx, from, to)
	if err != nil {
		return err
	}
	if report.KeptSince != nil {
		fmt.Fprintf(s.Err, "Stripe keeps events for 30 days: no events before %s are available\n",
			report.KeptSince.Format(time.RFC3339))
	}
	if d.yes && len(report.Missing) > 0 {
		d.Target, d.Found = report.Source, report
		if _, err := s.Decide(ctx, d.Decision); err != nil {
			return err
		}
	}
	return command.Emit(s.App, report, writeGaps)
}

func writeGaps(a *command.App, r *source.GapReport) {
	between := fmt.Sprintf("between %s and %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	of := fmt.Sprintf("%s listed, %d ignored by %s", output.Plural(r.Listed, "event"), r.Unwanted,
		output.Clean(r.Source))
	if len(r.Missing) == 0 {
		fmt.Fprintf(a.Out, "no gap %s (%s)\n", between, of)
		return
	}
	became := map[string]string{}
	for _, f := range r.Filed {
		became[f.EventID] = "stored" + output.WithReason(f.Reason)
		if f.Duplicate {
			became[f.EventID] = "arrived meanwhile"
		}
	}
	rows := output.Rows("EVENT|TYPE|OBJECT|ACCOUNT|MODE|CREATED|", r.Missing, func(g source.Gap) []any {
		says := became[g.EventID]
		if says == "" && g.Pending {
			says = "Stripe still tries to deliver it"
		}
		return []any{g.EventID, g.Type, g.Object, g.Account, g.Mode, g.Created, says}
	})
	a.List(rows, "ACCOUNT", "MODE", "OBJECT")
	says := fmt.Sprintf("%s missing %s (%s)", output.Plural(len(r.Missing), "event"), between, of)
	if len(r.Filed) == 0 {
		says += "; store the missing events with: " +
			a.CommandLine("events backfill "+decide.ShellWord(r.Source)) + " --from " +
			r.From.Format(time.RFC3339) + " --to " + r.To.Format(time.RFC3339) + " --yes --reason REASON"
	} else {
		says += fmt.Sprintf("; %d stored: no gap is left", len(r.Filed))
	}
	if r.More {
		says += "; older events were not compared: store these first, and run the command again"
	}
	fmt.Fprintln(a.Out, "\n"+says)
}
