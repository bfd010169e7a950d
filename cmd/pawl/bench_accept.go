package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/bench"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/receipt"
)

func benchAccept(a *app) *cobra.Command {
	cfg := bench.AcceptConfig{}
	var seconds int
	var length time.Duration
	cmd := &cobra.Command{
		Use: "accept", Short: "Measure the way from a webhook to its answer", Args: noArgument,
		Long: `Measure the way from a webhook to its answer, with distinct signed Stripe events of 1.2 KB and once more
with half the deliveries duplicates:
  no-storage    the same server, keeping nothing
  insert        the same rows, one insert and one commit per request
  inline-start  a Temporal workflow started per request, while the provider waits
  pawl          the receipt committed together with those that wait at the same moment
  pawl-signals  pawl that logs each event, and has traces and metrics taken; where --mode asks for it
With --rate N: pawl alone at a fixed rate, with Temporal and without it; and with --flood M beside it, M
events a second with forged signatures.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			for _, mode := range cfg.Modes {
				if all := append(slices.Clone(bench.AcceptModes), bench.ModeSignals); !slices.Contains(all, mode) {
					return usagef("--mode: %q is no mode: use %s", mode, strings.Join(all, ", "))
				}
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
			if cfg.Flood > 0 && cfg.Rate == 0 {
				return usagef("--flood goes beside a --rate of valid events: set it, too")
			}
			if cfg.Options, err = benchOptions(a, false); err != nil {
				return err
			}
			results, err := bench.Accept(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.Emit(results, func() { a.Table(acceptTable(results)) })
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&cfg.Connections, "connections", []int{1, 16, 64, 256}, "how many connections deliver at once")
	flags.StringSliceVar(&cfg.Modes, "mode", bench.AcceptModes, "`modes` to measure")
	flags.IntVar(&seconds, "seconds", 3, "how long each is measured in a round")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "how often everything is measured; medians count")
	flags.IntVar(&cfg.Rate, "rate", 0, "offer this many events per `second` instead")
	flags.IntVar(&cfg.Flood, "flood", 0, "offer this many forged events per `second` beside the rate")
	flags.DurationVar(&length, "for", time.Minute, "how long the rate is offered")
	flags.IntVar(&cfg.Fill, "fill", 0, "how many `receipts` pawl's table holds before")
	return cmd
}

// acceptTable shows each row beside the rivals at the same load.
func acceptTable(results []bench.AcceptResult) [][]string {
	rows := [][]string{{"CONNECTIONS", "DUPLICATES", "MODE", "PER SECOND", "OF NO-STORAGE", "OF INSERT",
		"OF INLINE-START", "P50 MS", "P99 MS"}}
	beside := func(r bench.AcceptResult, mode string) float64 {
		i := slices.IndexFunc(results, func(o bench.AcceptResult) bool {
			return o.Connections == r.Connections && o.Duplicates == r.Duplicates && o.Mode == mode
		})
		if i < 0 {
			return 0
		}
		return results[i].RPS
	}
	for _, r := range results {
		rows = append(rows, []string{
			strconv.Itoa(r.Connections), number(100*r.Duplicates, 0) + " %", r.Mode, number(r.RPS, 0),
			factor(r.RPS, beside(r, "no-storage")), factor(r.RPS, beside(r, "insert")),
			factor(r.RPS, beside(r, "inline-start")),
			number(r.P50, 2), number(r.P99, 2),
		})
	}
	return rows
}

// benchServe is a process of `pawl bench accept`: pawl's server in front of a rival.
func benchServe(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "serve MODE", Short: "Serve one mode of pawl bench accept", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.serve(cmd.Context(), process.Ingress, func(ctx context.Context, n *process.Node) error {
				rival, err := bench.NewRival(args[0], n.Pool, n.Temporal)
				if err != nil {
					return err
				}
				return n.Listen(ctx, rival, func([]receipt.Pending) {}, nil)
			})
		},
	}
}
