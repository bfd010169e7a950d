package main

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/receipt"
)

// sinkReport is one sink as `pawl sinks` shows it.
type sinkReport struct {
	// Name has ":live" or ":test" at its end where the sink is per mode; a consumer's begins with "consumers:".
	Name string `json:"name"`
	// State is "in" or "out".
	State string `json:"state"`
	// Since is when it was last out, or is; null for one that never was.
	Since *time.Time `json:"since"`
	// Reason says why it is out, Probes how often it was tried since, Waiting how many runs wait for it.
	Reason  string `json:"reason"`
	Probes  int    `json:"probes"`
	Waiting int    `json:"waiting"`
	// Places is how many effects are in flight at once, from each worker process.
	Places int `json:"places"`
}

func (a *app) sinks() *cobra.Command {
	return &cobra.Command{
		Use: "sinks", Short: "Show the sinks and consumers, and which of them are out", Args: noArgument,
		Long: `Show the sinks and consumers, and which of them are out.
A sink is out after equal failures in a row, or one 401 or 403: its effects wait until it answers a probe.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report []sinkReport
			err := a.withDatabase(cmd.Context(), func(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) error {
				receipts := receipt.NewStore(db, receipt.Options{})
				defer receipts.Close()
				breakers, err := breaker.New(db).All(ctx)
				if err != nil {
					return err
				}
				waiting, err := receipts.SinkWaiters(ctx)
				report = reportSinks(process.Places(cfg), breakers, waiting)
				return err
			})
			if err != nil {
				return err
			}
			if a.json {
				return a.writeJSON(report)
			}
			return table(a.out, sinkTable(report))
		},
	}
}

func reportSinks(sinks []process.Sink, breakers []breaker.Breaker, waiting map[string]int) []sinkReport {
	reports := []sinkReport{}
	for _, s := range sinks {
		r := sinkReport{Name: s.Name, State: "in", Places: s.Places, Waiting: waiting[s.Name]}
		for _, b := range breakers {
			if b.Sink != s.Name {
				continue
			}
			r.Since, r.Reason, r.Probes = optionalTime(b.Since), b.Reason, b.Probes
			if b.Open {
				r.State = "out"
			}
		}
		reports = append(reports, r)
	}
	return reports
}

func sinkTable(report []sinkReport) [][]string {
	rows := [][]string{{"SINK", "STATE", "SINCE", "WAITING", "PROBES", "PLACES", "WHY"}}
	for _, r := range report {
		since := "-"
		if r.Since != nil {
			since = r.Since.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{r.Name, r.State, since, strconv.Itoa(r.Waiting), strconv.Itoa(r.Probes), strconv.Itoa(r.Places), r.Reason})
	}
	return rows
}
