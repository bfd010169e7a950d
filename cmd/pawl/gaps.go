package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/quota"
	"github.com/pawlhq/pawl/schema/receipt"
)

func (a *app) gaps() *cobra.Command {
	var d operator.Decided
	var from, to string
	var file, yes bool
	cmd := &cobra.Command{
		Use: "gaps SOURCE --from TIME [--to TIME] [--file --why REASON]", Short: "Find what the provider has sent and never came, and take it in",
		Long: `List what Stripe has sent to a source in a period, with the source's api_key, and show what of it never came. It ends
with "no gap between A and B", or with the list.

--file takes in what is missing, by the same way as a delivery: as the evidence says, it came by the API and nobody has
signed it. Should it be delivered after all, that is a duplicate, and what it asks for is done once. More than 50 events
are filed after a confirmation, which --yes stands for.

TIME is a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d. Stripe keeps events for 30 days.

Exit code 0 when there is no gap, or what was missing is filed, 1 when there is one.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("gaps needs one source")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Who = a.who(d.Who)
			if file {
				if err := accountable("gaps --file", d.Who, d.Why); err != nil {
					return err
				}
			}
			now := time.Now()
			begin, err := moment("from", from, now)
			if err != nil {
				return err
			}
			end, err := moment("to", to, now)
			if err != nil {
				return err
			}
			if !begin.Before(end) {
				return usagef("--from must be before --to")
			}
			return a.withStripe(cmd.Context(), args[0], func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool, name string) error {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				g, err := a.gapsOf(cfg, db, receipts, name)
				if err != nil {
					return err
				}
				return a.runGaps(ctx, g, begin, end, file, yes, d)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "since when (required)")
	cmd.Flags().StringVar(&to, "to", "0s", "until when (default: now)")
	cmd.Flags().BoolVar(&file, "file", false, "take in what is missing")
	cmd.Flags().BoolVar(&yes, "yes", false, "file more than 50 without asking")
	cmd.Flags().StringVar(&d.Who, "who", "", whoUsage)
	cmd.Flags().StringVar(&d.Why, "why", "", "why, for the audit trail (required with --file)")
	cmd.Flags().StringVar(&d.RequestID, "request-id", "", "an `ID` of yours: a call repeated with it is one decision")
	return cmd
}

// moment reads a time: a date, a time, or how long ago.
func moment(flag, text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339, time.DateTime} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days+" ", "%d ", &n); err == nil && n >= 0 && n < 1000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if text == "" {
		return now, usagef("--%s is missing: write a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d", flag)
	}
	return now, usagef("--%s: %q is no time: write a date, a time such as 2026-11-22T08:00:00Z, or how long ago, such as 36h or 7d", flag, text)
}

// withStripe calls f with the database and the source that can be asked for what Stripe holds. What is asked there takes
// its time: there is no deadline.
func (a *app) withStripe(ctx context.Context, source string, f func(context.Context, *config.Config, *pgxpool.Pool, string) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if _, known := cfg.Sources[source]; source != "" && !known {
		return fmt.Errorf("no source %q is configured; there are: %s", source, strings.Join(slices.Sorted(maps.Keys(cfg.Sources)), ", "))
	}
	name, err := pickStripe(cfg, source)
	if err != nil {
		return err
	}
	pool, err := process.OpenPool(ctx, cfg, schema.Asking, askingConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := checkDatabase(ctx, cfg, pool); err != nil {
		return err
	}
	return f(ctx, cfg, pool, name)
}

func (a *app) gapsOf(cfg *config.Config, db *pgxpool.Pool, receipts *receipt.Store, name string) (*operator.Gaps, error) {
	source, err := process.Source(cfg, providers(), name)
	if err != nil {
		return nil, err
	}
	api, err := process.StripeAPI(name, cfg.Sources[name], quota.New(db))
	if err != nil {
		return nil, err
	}
	return &operator.Gaps{
		API: api, Source: name, Accounts: append([]string{""}, slices.Sorted(maps.Keys(cfg.Sources[name].Accounts.Ours))...),
		Types: cfg.Sources[name].Events, Filed: source.Filed, Held: receipts.Held, Insert: receipts.Insert,
		Audit: audit.New(db, a.log), Patience: patience, Now: time.Now,
	}, nil
}

// mostUnasked is how many are changed without a confirmation.
const mostUnasked = 50

func (a *app) runGaps(ctx context.Context, g *operator.Gaps, from, to time.Time, file, yes bool, d operator.Decided) error {
	report, err := g.Find(ctx, from, to)
	if err != nil {
		return err
	}
	if report.KeptSince != nil {
		fmt.Fprintf(a.err, "Stripe keeps events for 30 days: nothing before %s can be looked at\n", report.KeptSince.Format(time.RFC3339))
	}
	if file && len(report.Missing) > 0 {
		if len(report.Missing) > mostUnasked && !yes {
			if err := a.confirm(fmt.Sprintf("%s never came. File all of it?", plural(len(report.Missing), "event"))); err != nil {
				return err
			}
		}
		if err := g.File(ctx, report, d); err != nil {
			return err
		}
	}
	if a.json {
		err = a.writeJSON(report)
	} else {
		err = a.writeGaps(report)
	}
	if err == nil && (len(report.Missing) > len(report.Filed) || report.More) {
		err = errAnswered
	}
	return err
}

// confirm asks a person, who answers by typing yes.
func (a *app) confirm(question string) error {
	fmt.Fprintf(a.err, "%s Type yes: ", question)
	line, _ := bufio.NewReader(a.in).ReadString('\n') // an end without a line is no yes
	if strings.TrimSpace(line) != "yes" {
		return fmt.Errorf("not confirmed, and nothing is changed; --yes stands for the answer")
	}
	return nil
}

func (a *app) writeGaps(r *operator.GapReport) error {
	between := fmt.Sprintf("between %s and %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	of := fmt.Sprintf("%s listed, %d of no interest to %s", plural(r.Listed, "event"), r.Unwanted, clean(r.Source))
	if len(r.Missing) == 0 {
		_, err := fmt.Fprintf(a.out, "no gap %s (%s)\n", between, of)
		return err
	}
	became := map[string]string{}
	for _, f := range r.Filed {
		became[f.EventID] = "filed" + because(f.Reason)
		if f.Duplicate {
			became[f.EventID] = "has come meanwhile"
		}
	}
	rows := [][]string{{"EVENT", "TYPE", "OBJECT", "ACCOUNT", "MODE", "CREATED", ""}}
	for _, g := range r.Missing {
		says := became[g.EventID]
		if says == "" && g.Pending {
			says = "Stripe still tries to deliver it"
		}
		rows = append(rows, []string{clean(g.EventID), clean(g.Type), clean(g.Object), clean(g.Account), g.Mode, clock(g.Created), clean(says)})
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	says := fmt.Sprintf("%s never came %s (%s)", plural(len(r.Missing), "event"), between, of)
	if len(r.Filed) == 0 {
		says += "; file what is missing with: " + a.commandLine("gaps "+shellWord(r.Source)) + " --from " + r.From.Format(time.RFC3339) + " --to " + r.To.Format(time.RFC3339) + " --file --why REASON"
	} else {
		says += fmt.Sprintf("; %d filed: no gap is left", len(r.Filed))
	}
	if r.More {
		says += "; what is older was not looked at: file these first, and ask again"
	}
	_, err := fmt.Fprintln(a.out, "\n"+says)
	return err
}
