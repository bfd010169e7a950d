package report

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
	"github.com/pawlhq/pawl/schema/receipt"
	runstore "github.com/pawlhq/pawl/schema/run"
)

// Sink is one sink as `pawl sinks` shows it.
type Sink struct {
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

// ReadSinks returns the configured sinks and consumers, as they stand.
func ReadSinks(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]Sink, error) {
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
	return Sinks(cfg.Served(), breakers, pauses, waiting), nil
}

// Sinks says of every sink how it stands; waiting counts the runs that wait for each.
func Sinks(sinks []config.Served, breakers []breaker.Breaker, pauses []pause.Pause,
	waiting map[string]int) []Sink {
	reports := []Sink{}
	for _, s := range sinks {
		r := Sink{Name: s.Name, State: "in", Places: s.Sink.Places, Waiting: waiting[s.Name]}
		for _, b := range breakers {
			if b.Sink != s.Name {
				continue
			}
			r.Since, r.Reason, r.Probes = optional(b.Since), b.Why(), b.Probes
			if b.Open {
				r.State = "out"
			}
		}
		if p, is := pause.Find(pauses, pause.Sink, s.Name); is {
			r.State, r.Since, r.Reason = "paused", optional(p.Since), p.Words()
		}
		reports = append(reports, r)
	}
	return reports
}
