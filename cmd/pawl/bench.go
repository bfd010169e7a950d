package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/bench"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/receipt"
)

func benchOptions(a *app, signals bool) (bench.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Options{}, fmt.Errorf("find this program, which runs itself: %w", err)
	}
	// The workers that come and go with the rounds say so at the level of info.
	a.log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return bench.Options{Pawl: self, Progress: a.err, Log: a.log, Signals: signals}, nil
}

func positive(flag string, counts ...int) error {
	if len(counts) == 0 || slices.Min(counts) < 1 {
		return usagef("%s: counts start at 1", flag)
	}
	return nil
}

func factor(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return number(a/b, 2) + "×"
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

func benchFlow(a *app) *cobra.Command {
	var server string
	var signals bool
	cfg := bench.FlowConfig{Providers: providers()}
	cmd := &cobra.Command{
		Use: "flow", Short: "Measure the way from a webhook to its last effect", Args: noArgument,
		Long: `Measure the way from a webhook to its last effect, on a Temporal dev server and on Temporal with Postgres:
  naive  a workflow that does the same six effects one after the other, each as an activity
  pawl   the signed POST, receipt, workflow, all effects at their sinks
  floor  a workflow with one local activity that does nothing: less cannot be
The first run builds Temporal's server, which takes some minutes.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch server {
			case "both":
				cfg.Servers = []string{"postgres", "dev"}
			case "postgres", "dev":
				cfg.Servers = []string{server}
			default:
				return usagef("--server: %q is no server: use dev, postgres or both", server)
			}
			if err := positive("--in-flight, --events and --rounds",
				append(cfg.InFlight, cfg.Events, cfg.Rounds)...); err != nil {
				return err
			}
			for _, mode := range cfg.Modes {
				if !slices.Contains(bench.FlowModes, mode) {
					return usagef("--mode: %q is no mode: use %s", mode, strings.Join(bench.FlowModes, ", "))
				}
			}
			if cfg.Options, err = benchOptions(a, signals); err != nil {
				return err
			}
			results, err := bench.Flow(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.Emit(results, func() { a.Tables(flowTable(results), cpuTable(results)) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&signals, "signals", false, "log each change of state, and have traces and metrics taken")
	flags.StringVar(&server, "server", "both", "Temporal `server`: dev, postgres or both")
	flags.StringSliceVar(&cfg.Modes, "mode", bench.FlowModes, "`modes` to measure")
	flags.IntSliceVar(&cfg.InFlight, "in-flight", []int{1, 32}, "how many events are under way at once")
	flags.IntVar(&cfg.Events, "events", 400, "events of a round; a quarter with one in flight")
	flags.BoolVar(&cfg.TwoProcesses, "two-processes", false,
		"run ingress and worker apart, not as pawl ingress --worker")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "how often everything is measured; medians count")
	return cmd
}

func cpuTable(results []bench.FlowResult) [][]string {
	return output.Rows("SERVER|IN FLIGHT|MODE|CPU MS: PAWL|ITS POSTGRES|TEMPORAL|TEMPORAL'S POSTGRES|SANDBOX", results,
		func(r bench.FlowResult) []any {
			return []any{r.Server, r.InFlight, r.Mode, number(r.CPU.Pawl, 1), number(r.CPU.Postgres, 1),
				number(r.CPU.Temporal, 1), number(r.CPU.TemporalPostgres, 1), number(r.CPU.Sandbox, 1)}
		})
}

// flowTable shows each row beside the naive one and the floor of the same server and load.
func flowTable(results []bench.FlowResult) [][]string {
	return output.Rows("SERVER|IN FLIGHT|MODE|PER SECOND|OF NAIVE|OF FLOOR|P50 MS|P99 MS|HISTORY EVENTS|TRANSITIONS|"+
		"COMMITS|WAL KB", results, func(r bench.FlowResult) []any {
		beside := func(mode string) string {
			for _, o := range results {
				if o.Server == r.Server && o.InFlight == r.InFlight && o.Mode == mode {
					return factor(r.PerSecond, o.PerSecond)
				}
			}
			return factor(r.PerSecond, 0)
		}
		return []any{r.Server, r.InFlight, r.Mode, number(r.PerSecond, 1), beside("naive"), beside("floor"),
			number(r.P50, 1), number(r.P99, 1), number(r.HistoryEvents, 0), number(r.StateTransitions, 0),
			number(r.Commits, 1), number(r.WALKB, 1)}
	})
}

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
	return output.Rows("CONNECTIONS|DUPLICATES|MODE|PER SECOND|OF NO-STORAGE|OF INSERT|OF INLINE-START|P50 MS|P99 MS", results,
		func(r bench.AcceptResult) []any {
			beside := func(mode string) string {
				for _, o := range results {
					if o.Connections == r.Connections && o.Duplicates == r.Duplicates && o.Mode == mode {
						return factor(r.RPS, o.RPS)
					}
				}
				return factor(r.RPS, 0)
			}
			return []any{r.Connections, number(100*r.Duplicates, 0) + " %", r.Mode, number(r.RPS, 0),
				beside("no-storage"), beside("insert"), beside("inline-start"), number(r.P50, 2), number(r.P99, 2)}
		})
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
