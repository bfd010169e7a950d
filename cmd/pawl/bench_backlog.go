package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/bench"
)

func (a *app) benchBacklog() *cobra.Command {
	cfg := bench.BacklogConfig{}
	cmd := &cobra.Command{
		Use: "backlog", Short: "Measure how a backlog is started, and what accepting feels of it", Args: noArgument,
		Long: `Measure how what was accepted while Temporal was away is started when it is back: how long that takes, how many starts
are asked for, and the latency of events that are offered meanwhile, beside that of the same rate with nothing waiting.
Temporal is a stand-in that takes so many starts a second and does nothing else, so that pawl is what is measured.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := positive("--events, --takes and --rate", cfg.Events, cfg.Takes, cfg.Rate); err != nil {
				return err
			}
			if cfg.Takes <= cfg.Rate {
				return usagef("--takes: a Temporal that takes no more than --rate never catches up")
			}
			if cfg.Window < time.Second {
				return usagef("--window starts at 1s")
			}
			if cfg.Options, err = a.benchOptions(); err != nil {
				return err
			}
			result, err := bench.Backlog(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(result)
			}
			return table(a.out, backlogTable(result))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Events, "events", 100_000, "how many events wait")
	flags.IntVar(&cfg.Takes, "takes", 500, "how many starts a second Temporal takes")
	flags.IntVar(&cfg.Rate, "rate", 100, "how many events a second are offered beside")
	flags.DurationVar(&cfg.Window, "window", 20*time.Second, "how long at a time latency is taken")
	return cmd
}

func backlogTable(r bench.BacklogResult) [][]string {
	rows := [][]string{{"WHILE", "P50 MS", "P99 MS", "OF NOTHING WAITS"}}
	for _, row := range []struct {
		while string
		bench.AcceptResult
	}{{"nothing waits", r.Alone}, {"Temporal is away", r.Away}, {"the backlog is started", r.Draining}, {"in its worst window", r.Worst}} {
		rows = append(rows, []string{row.while, number(row.P50, 2), number(row.P99, 2), factor(row.P99, r.Alone.P99)})
	}
	return append(rows, []string{},
		[]string{"WAITING", "TEMPORAL TAKES", "STARTED", "OF THAT", "OVER IN S", "START CALLS", "EVENTS", "ANSWERED 503"},
		[]string{
			strconv.Itoa(r.Waiting), strconv.Itoa(r.Takes) + "/s", number(r.PerSecond, 0) + "/s", factor(r.PerSecond, float64(r.Takes)), number(r.Over, 0),
			strconv.Itoa(r.Calls), strconv.Itoa(r.Events), strconv.Itoa(r.Shed),
		})
}
