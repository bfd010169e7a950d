package main

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	runstore "github.com/pawlhq/pawl/schema/run"
)

// sinkReport is one sink as `pawl sinks` shows it.
type sinkReport struct {
	// Name has ":live" or ":test" at its end where the sink is per mode; a consumer's begins with "consumers:".
	Name string `json:"name"`
	// State is "in", "out" or "paused".
	State string `json:"state"`
	// Since is when it was last out, or is, or since when it is paused; null for one that never was.
	Since *time.Time `json:"since"`
	// Reason says why it is out, or who has paused it and why, Probes how often it was tried since, Waiting how many
	// runs wait for it.
	Reason  string `json:"reason"`
	Probes  int    `json:"probes"`
	Waiting int    `json:"waiting"`
	// Places is how many effects are in flight at once, from each worker process.
	Places int `json:"places"`
}

func sinks(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "sinks", Short: "Show the sinks and consumers, and which of them are out or paused", Args: noArgument,
		Long: `Show the sinks and consumers, and which of them are out or paused.
A sink is out after equal failures in a row, or one 401 or 403: its effects wait until it answers a probe. One is paused
by pawl pause, and until pawl resume.`,
	}
	cmd.AddCommand(sinksCheck(a))
	return show(a, cmd, func(ctx context.Context, s *session, _ []string) ([]sinkReport, error) {
		return readSinks(ctx, s.cfg, s.db)
	}, func(a *app, report []sinkReport) error { return table(a.out, sinkTable(report)) })
}

// readSinks returns the configured sinks and consumers, as they stand.
func readSinks(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]sinkReport, error) {
	runs := runstore.NewStore(db, receipt.Options{})
	defer runs.Close()
	breakers, err := breaker.New(db).All(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := pause.New(db).Now(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := runs.SinkWaiters(ctx)
	if err != nil {
		return nil, err
	}
	return reportSinks(cfg.Served(), breakers, pauses, waiting), nil
}

func reportSinks(sinks []config.Served, breakers []breaker.Breaker, pauses []pause.Pause,
	waiting map[string]int) []sinkReport {
	reports := []sinkReport{}
	for _, s := range sinks {
		r := sinkReport{Name: s.Name, State: "in", Places: s.Sink.Places, Waiting: waiting[s.Name]}
		for _, b := range breakers {
			if b.Sink != s.Name {
				continue
			}
			r.Since, r.Reason, r.Probes = optionalTime(b.Since), b.Why(), b.Probes
			if b.Open {
				r.State = "out"
			}
		}
		if p, is := pause.Find(pauses, pause.Sink, s.Name); is {
			r.State, r.Since, r.Reason = "paused", optionalTime(p.Since), p.Words()
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
		rows = append(rows, []string{r.Name, r.State, since, strconv.Itoa(r.Waiting), strconv.Itoa(r.Probes),
			strconv.Itoa(r.Places), r.Reason})
	}
	return rows
}
