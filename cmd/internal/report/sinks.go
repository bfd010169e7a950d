package report

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/breaker"
	"github.com/pawlhq/pawl/schema/pause"
	runstore "github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
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
	// Median and Most are how long its calls took that had an answer, in seconds: half of them at most Median, 19 of 20
	// at most Most. They are nil where nobody has asked, or none was of late, and for consumers.
	Median *float64 `json:"median_seconds"`
	Most   *float64 `json:"p95_seconds"`
}

// TimedSinks is [ReadSinks] with how long calls took.
func TimedSinks(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]Sink, error) {
	sinks, err := ReadSinks(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	var kinds, modes, names []string
	for _, s := range cfg.AllSinks() {
		for mode := range s.Credentials {
			for _, kind := range workflows.Catalogue() {
				if kind.Sink == s.Name {
					kinds, modes, names = append(kinds, kind.Name), append(modes, mode), append(names, s.ForMode(mode))
				}
			}
		}
	}
	took, err := timeline.ReadTook(ctx, db, kinds, modes, names)
	for i := range sinks {
		for _, t := range took {
			if t.Sink == sinks[i].Name {
				sinks[i].Median, sinks[i].Most = &t.Median, &t.Most
			}
		}
	}
	return sinks, err
}

// ReadSinks returns the configured sinks and consumers, as they stand.
func ReadSinks(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]Sink, error) {
	breakers, err := breaker.New(db).All(ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := pause.Now(ctx, db)
	if err != nil {
		return nil, err
	}
	waiting, err := runstore.SinkWaiters(ctx, db)
	if err != nil {
		return nil, err
	}
	return Sinks(cfg.Served(), breakers, pauses, waiting), nil
}

// Sinks says of every sink how it stands; waiting counts the runs that wait for each.
func Sinks(sinks []config.Served, breakers []breaker.Breaker, pauses []pause.Pause, waiting map[string]int) []Sink {
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
