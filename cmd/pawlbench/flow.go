package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/pawlbench/internal/bench"
)

func flowCommand(a *app) *cobra.Command {
	var server string
	var signals bool
	cfg := bench.FlowConfig{}
	cmd := &cobra.Command{
		Use: "flow", Short: "Measure from a webhook to its last effect", Args: cobra.NoArgs,
		Long: `Measure from a webhook to its last effect, on a Temporal dev server and on Temporal with Postgres:
  naive  a workflow that does the same six effects one after the other, each as an activity
  pawl   the signed POST, receipt, workflow, all effects at their sinks
  floor  a workflow with one local activity that does nothing: the lower bound
The first run builds the Temporal server, which takes some minutes.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch server {
			case "both":
				cfg.Servers = []string{"postgres", "dev"}
			case "postgres", "dev":
				cfg.Servers = []string{server}
			default:
				return usagef("--server: %q is unknown: use dev, postgres or both", server)
			}
			if err := positive("--in-flight, --events and --rounds",
				append(cfg.InFlight, cfg.Events, cfg.Rounds)...); err != nil {
				return err
			}
			if err := known(cfg.Modes, bench.FlowModes); err != nil {
				return err
			}
			options, remove, err := a.options(cmd.Context())
			if err != nil {
				return err
			}
			defer remove()
			cfg.Options, cfg.Signals = options, signals
			results, err := bench.Flow(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.Emit(results, func() { a.Tables(flowTable(results), cpuTable(results)) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&signals, "signals", false, "log each change of state, export traces, and scrape the metrics")
	flags.StringVar(&server, "server", "both", "Temporal `server`: dev, postgres or both")
	flags.StringSliceVar(&cfg.Modes, "mode", bench.FlowModes, "`modes` to measure")
	flags.IntSliceVar(&cfg.InFlight, "in-flight", []int{1, 32}, "`numbers` of concurrent events")
	flags.IntVar(&cfg.Events, "events", 400, "events of a round; a quarter of them with one in flight")
	flags.BoolVar(&cfg.TwoProcesses, "two-processes", false,
		"run ingress and worker in two processes instead of pawl ingress --worker")
	flags.IntVar(&cfg.Rounds, "rounds", 3, "how often everything is measured; the results are medians")
	return cmd
}

// known returns an error if one of the modes is not in all.
func known(modes, all []string) error {
	for _, mode := range modes {
		if !slices.Contains(all, mode) {
			return usagef("--mode: %q is unknown: use %s", mode, strings.Join(all, ", "))
		}
	}
	return nil
}

func cpuTable(results []bench.FlowResult) output.Table {
	return output.Rows("SERVER|IN FLIGHT|MODE|CPU MS: PAWL|ITS POSTGRES|TEMPORAL|TEMPORAL'S POSTGRES|SANDBOX", results,
		func(r bench.FlowResult) []any {
			return []any{r.Server, r.InFlight, r.Mode, number(r.CPU.Pawl, 1), number(r.CPU.Postgres, 1),
				number(r.CPU.Temporal, 1), number(r.CPU.TemporalPostgres, 1), number(r.CPU.Sandbox, 1)}
		})
}

// flowTable compares each row with the rows "naive" and "floor" of the same server and load.
func flowTable(results []bench.FlowResult) output.Table {
	return output.Rows("SERVER|IN FLIGHT|MODE|PER SECOND|OF NAIVE|OF FLOOR|P50 MS|P99 MS|HISTORY EVENTS|TRANSITIONS|"+
		"COMMITS|WAL KB", results, func(r bench.FlowResult) []any {
		beside := func(mode string) string {
			for _, o := range results {
				if o.Server == r.Server && o.InFlight == r.InFlight && o.Mode == mode {
					return ratio(r.PerSecond, o.PerSecond)
				}
			}
			return ratio(r.PerSecond, 0)
		}
		return []any{r.Server, r.InFlight, r.Mode, number(r.PerSecond, 1), beside("naive"), beside("floor"),
			number(r.P50, 1), number(r.P99, 1), number(r.HistoryEvents, 0), number(r.StateTransitions, 0),
			number(r.Commits, 1), number(r.WALKB, 1)}
	})
}
