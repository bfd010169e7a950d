package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/bench"
)

func (a *app) benchOutage() *cobra.Command {
	cfg := bench.OutageConfig{}
	cmd := &cobra.Command{
		Use: "outage", Short: "Measure what a sink that hangs, or is out, does to others", Args: noArgument,
		Long: `Measure what a sink that hangs, or is out, does to others: the latency of relays to a consumer that is well, while finance
is well, while it hangs, and while it answers 503; then how long it takes until all that waited for it is done.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Server != "dev" && cfg.Server != "postgres" {
				return usagef("--server: %q is no server: use dev or postgres", cfg.Server)
			}
			if err := positive("--events and --relays", cfg.Events, cfg.Relays); err != nil {
				return err
			}
			if cfg.Length < time.Second || cfg.Down < time.Second {
				return usagef("--for and --down start at 1s")
			}
			if cfg.Options, err = a.benchOptions(); err != nil {
				return err
			}
			result, err := bench.Outage(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(result)
			}
			rows := [][]string{{"FINANCE", "RELAYS", "P50 MS", "P99 MS"}}
			for _, r := range result.Relays {
				rows = append(rows, []string{r.Finance, strconv.Itoa(r.Count), number(r.P50, 1), number(r.P99, 1)})
			}
			rows = append(rows, []string{}, []string{"WAITING", "PARKED", "OVER IN S", "MOST TRIES", "ENTRIES"}, []string{
				strconv.Itoa(result.Waiting), strconv.Itoa(result.Parked), number(result.OverIn, 0), strconv.Itoa(result.MostTries), strconv.Itoa(result.Entries),
			})
			return table(a.out, rows)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Server, "server", "postgres", "Temporal `server`: dev or postgres")
	flags.IntVar(&cfg.Events, "events", 10, "invoices a second")
	flags.IntVar(&cfg.Relays, "relays", 10, "relayed events a second")
	flags.DurationVar(&cfg.Length, "for", 30*time.Second, "how long while finance is well, and while it hangs")
	flags.DurationVar(&cfg.Down, "down", 10*time.Minute, "how long finance is out")
	return cmd
}
