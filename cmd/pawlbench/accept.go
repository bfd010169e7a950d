package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/pawlbench/internal/bench"
)

func acceptCommand(a *app) *cobra.Command {
	cfg := bench.AcceptConfig{}
	var seconds int
	var length time.Duration
	cmd := &cobra.Command{
		Use: "accept", Short: "Measure from a webhook to its answer", Args: cobra.NoArgs,
		Long: `Measure from a webhook to its answer, with distinct signed Stripe events of 1.2 KB, and once more with half of the
deliveries duplicated:
  no-storage    the same server without storage
  insert        the same rows, one insert and one commit per request
  inline-start  one Temporal workflow started per request, before the answer
  pawl          the receipt; concurrent receipts share a commit
  pawl-signals  pawl with logs, traces and metrics; only if --mode names it
With --rate N: only pawl at a fixed rate, with Temporal and without. With --flood M: at the same time M events per
second with forged signatures. With --expired M: only pawl without Temporal, alone and while retention deletes M
expired payloads.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := known(cfg.Modes, append(slices.Clone(bench.AcceptModes), bench.ModeSignals)); err != nil {
				return err
			}
			if err := positive("--connections, --seconds and --rounds",
				append(cfg.Connections, seconds, cfg.Rounds)...); err != nil {
				return err
			}
			cfg.Length = time.Duration(seconds) * time.Second
			if cfg.Rate > 0 {
				cfg.Length = length
			}
			if cfg.Rate < 0 || cfg.Flood < 0 || cfg.Fill < 0 || cfg.Length < time.Second {
				return usagef("--rate, --flood and --fill start at 0, --for at 1s")
			}
			if (cfg.Flood > 0 || cfg.Expired > 0) && cfg.Rate == 0 {
				return usagef("--flood or --expired needs a --rate of valid events")
			}
			return accept(cmd.Context(), a, cfg)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Connections, "connections", []int{1, 16, 64, 256}, "`numbers` of concurrent connections")
	flags.StringSliceVar(&cfg.Modes, "mode", bench.AcceptModes, "`modes` to measure")
	flags.IntVar(&seconds, "seconds", 3, "duration of each measurement in a round")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "how often everything is measured; the results are medians")
	flags.IntVar(&cfg.Rate, "rate", 0, "send this many events per `second` instead")
	flags.IntVar(&cfg.Flood, "flood", 0, "send this many forged events per `second` at the same time")
	flags.DurationVar(&length, "for", time.Minute, "how long the rate is sent")
	flags.IntVar(&cfg.Expired, "expired", 0, "measure with this many expired `payloads`, while retention deletes them")
	flags.IntVar(&cfg.Fill, "fill", 0, "how many `receipts` the table of pawl contains at the start")
	return cmd
}

func accept(ctx context.Context, a *app, cfg bench.AcceptConfig) error {
	options, remove, err := a.options(ctx)
	if err != nil {
		return err
	}
	defer remove()
	cfg.Options = options
	results, err := bench.Accept(ctx, cfg)
	if err != nil {
		return err
	}
	return a.Emit(results, func() { a.Table(acceptTable(results)) })
}

// acceptTable compares each result with the results of the simpler servers at the same load.
func acceptTable(results []bench.AcceptResult) output.Table {
	return output.Rows("CONNECTIONS|DUPLICATES|MODE|PER SECOND|OF NO-STORAGE|OF INSERT|OF INLINE-START|P50 MS|P99 MS", results,
		func(r bench.AcceptResult) []any {
			beside := func(mode string) string {
				for _, o := range results {
					if o.Connections == r.Connections && o.Duplicates == r.Duplicates && o.Mode == mode {
						return ratio(r.RPS, o.RPS)
					}
				}
				return ratio(r.RPS, 0)
			}
			return []any{r.Connections, number(100*r.Duplicates, 0) + " %", r.Mode, number(r.RPS, 0),
				beside("no-storage"), beside("insert"), beside("inline-start"), number(r.P50, 2), number(r.P99, 2)}
		})
}
