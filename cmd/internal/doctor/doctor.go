// Package doctor examines everything that pawl relies on, and says what to do about it.
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

// Level says how bad a finding is.
type Level string

// The levels: as it should be, what a person should know, and what keeps events from being taken or run.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is what one check has found.
type Finding struct {
	// Area is the part of pawl, such as "database", and Check the question about it.
	Area  string `json:"area"`
	Check string `json:"check"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	// Do says what to do about it, "" where nothing is to be done.
	Do string `json:"do,omitempty"`
}

// Report is what all checks have found.
type Report struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
}

// Failed reports whether a check has failed.
func (r *Report) Failed() bool { return !r.OK }

// Doctor runs the checks. All fields are required.
type Doctor struct {
	// File is the name of the configuration's file.
	File      string
	Config    *config.Config
	Providers map[string]webhook.Provider
	Pool      *pgxpool.Pool
	Temporal  client.Client
	// Meaning is the configuration's.
	Meaning fact.Policy
}

// Within bounds each check; they run side by side.
const Within = 10 * time.Second

// check is one thing to examine.
type check struct {
	// area is what the findings are about, name the check that has no answer where run gives none, do what to do then.
	area, name, do string
	// run may find several things, and stops when its context ends. Its error says why it has no answer.
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

// Examine runs all checks at once and returns their findings, in their order. A check that has not answered after
// [Within] is a finding itself.
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

// findings collects those of one check.
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

// configuration shows the warnings about the file.
func (d *Doctor) configuration(_ context.Context, f *findings) error {
	for _, w := range d.Config.Warnings {
		f.add(Warn, w.Key, w.Fix, "%s", w.Problem)
	}
	if len(d.Config.Warnings) == 0 {
		f.add(OK, "file", "", "%s is fine", d.File)
	}
	return nil
}
