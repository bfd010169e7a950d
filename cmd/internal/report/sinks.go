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
	"github.com/pawlhq/pawl/workflows/plan"
)

// Sink is the state of a sink, as `pawl sinks` shows it.
type Sink struct {
	// Name ends with ":live" or ":test" if the sink is configured per mode. The name of a destination begins with
	// "destinations:".
	Name string `json:"name"`
	// State is "up", "down" or "paused". A sink is down while its circuit breaker is open.
	State string `json:"state"`
	// Since is the start of the current interruption, or of the last one. A sink is interrupted while it is down or
	// paused. Since is null if there was no interruption.
	Since *time.Time `json:"interrupted_at"`
	// Reason is the cause of the state: the error, or who paused the sink and why. Probes is the number of attempts
	// since the breaker opened. Waiting is the number of runs that wait for the sink.
	Reason  string `json:"reason"`
	Probes  int    `json:"probes"`
	Waiting int    `json:"waiting"`
	// MaxConcurrency is how many effects a worker process sends to the sink at the same time.
	MaxConcurrency int `json:"max_concurrency"`
	// Median and Most are the 50th and the 95th percentile of the duration of calls that got a response, in seconds.
	// They are null for destinations, if there were no recent calls, and in reports without durations.
	Median *float64 `json:"median_seconds"`
	Most   *float64 `json:"p95_seconds"`
}

// TimedSinks is like [ReadSinks], and adds the durations of calls.
func TimedSinks(ctx context.Context, cfg *config.Config, db *pgxpool.Pool) ([]Sink, error) {
	sinks, err := ReadSinks(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	var kinds, modes, names []string
	for _, s := range cfg.Targets() {
		for mode := range s.Credentials {
			for _, kind := range plan.Catalogue() {
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

// ReadSinks returns the state of the configured sinks and destinations.
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

// Sinks combines the configured sinks with their breakers and pauses. waiting is the number of runs that wait, by sink.
func Sinks(sinks []config.Served, breakers []breaker.Breaker, pauses []pause.Pause, waiting map[string]int) []Sink {
	reports := []Sink{}
	for _, s := range sinks {
		r := Sink{Name: s.Name, State: "up", MaxConcurrency: s.Target.MaxConcurrency, Waiting: waiting[s.Name]}
		for _, b := range breakers {
			if b.Sink != s.Name {
				continue
			}
			r.Since, r.Reason, r.Probes = optional(b.Since), b.Explanation(), b.Probes
			if b.Open {
				r.State = "down"
			}
		}
		if p, is := pause.Find(pauses, pause.Sink, s.Name); is {
			r.State, r.Since, r.Reason = "paused", optional(p.Since), p.Words()
		}
		reports = append(reports, r)
	}
	return reports
}
