// Package doctor examines the services and settings that pawl depends on, and recommends what to do.
package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Level is the severity of a finding.
type Level string

// The levels: no problem, a warning, and a failure that keeps pawl from receiving or processing events.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is a result of a check.
type Finding struct {
	// Area is the part of pawl, such as "database", and Check the subject in it.
	Area  string `json:"area"`
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	// Do is the recommended action. It is empty if no action is needed.
	Do string `json:"do,omitempty"`
}

// Report lists the findings of all checks.
type Report struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
}

// Failed reports whether a check has failed.
func (r *Report) Failed() bool { return !r.OK }

// Doctor runs the checks. All fields are required.
type Doctor struct {
	// File is the name of the configuration file.
	File      string
	Config    *config.Config
	Providers map[string]webhook.Provider
	Pool      *pgxpool.Pool
	Temporal  client.Client
	// Meaning is the billing policy of the configuration.
	Meaning fact.Policy
}

// Within is the timeout of a check. All checks run concurrently.
const Within = 10 * time.Second

// check examines one area.
type check struct {
	// area is the area of the findings. If run returns an error, name and do are the subject and the action of that
	// finding.
	area, name, do string
	// run adds any number of findings. It returns an error if it could not finish.
	run func(context.Context, *findings) error
}

// checks lists all checks.
func (d *Doctor) checks() []check {
	const seeDatabase = "see the database"
	all := []check{
		{"config", "file", "", d.configuration},
		{"config", "meaning", seeDatabase, d.meaning},
		{"database", "reachable", "check the DSN of `database`; the server is stopped, overloaded or locked",
			d.database},
		{"temporal", "reachable", "check TEMPORAL_ADDRESS or temporal.config_file", d.temporal},
		{"temporal", "schedules", "see Temporal", d.schedules},
		{"sinks", "breakers", seeDatabase, d.sinks},
		{"clock", "database", seeDatabase, d.databaseClock},
	}
	names := slices.Sorted(maps.Keys(d.Config.Sources))
	for _, name := range names {
		if d.Config.Sources[name].APIURL != "" {
			all = append(all, check{"clock", name, "check the source's api_url", d.providerClock(name)})
		}
		if d.Config.Watches(name) {
			all = append(all, check{"endpoint", name, "check the source's api_key, and that this host may call Stripe",
				d.endpoint(name)})
		}
	}
	return append(all, check{"answers", "5xx", seeDatabase, d.countdown},
		check{"secrets", "uses", seeDatabase, d.secrets})
}

// Examine runs all checks concurrently and returns their findings in a fixed order. A check that exceeds [Within] is a
// failure.
func (d *Doctor) Examine(ctx context.Context) *Report {
	found := examine(ctx, d.checks())
	return &Report{!slices.ContainsFunc(found, func(f Finding) bool { return f.Level == Fail }), found}
}

func examine(ctx context.Context, all []check) []Finding {
	found := make([][]Finding, len(all))
	var examining sync.WaitGroup
	for i, c := range all {
		examining.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, Within)
			defer cancel()
			f := &findings{area: c.area}
			switch err := c.run(ctx, f); {
			case err != nil && ctx.Err() != nil:
				f.add(Fail, c.name, c.do, "gave no answer within %s", Within)
			case err != nil:
				f.add(Fail, c.name, c.do, "%s", output.FirstLine(err))
			}
			found[i] = f.list
		})
	}
	examining.Wait()
	return slices.Concat(found...)
}

// findings collects the findings of one check.
type findings struct {
	area string
	list []Finding
}

func (f *findings) add(level Level, check, do, found string, args ...any) {
	if len(args) > 0 {
		found = fmt.Sprintf(found, args...)
	}
	if level == OK {
		do = ""
	}
	f.list = append(f.list, Finding{f.area, check, level, found, do})
}

// configuration adds the warnings about the file.
func (d *Doctor) configuration(_ context.Context, f *findings) error {
	for _, w := range d.Config.Warnings {
		f.add(Warn, w.Key, w.Fix, "%s", w.Problem)
	}
	if len(d.Config.Warnings) == 0 {
		f.add(OK, "file", "", "%s is fine", d.File)
	}
	return nil
}
