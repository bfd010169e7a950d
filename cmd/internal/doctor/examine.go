package doctor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// Within is the timeout of a check. All checks run concurrently.
const Within = 10 * time.Second

// checks lists all checks.
func (d *Doctor) checks() []check {
	const seeDatabase = "check the database"
	all := []check{
		{"config", "file", "", d.configuration},
		{"config", "rules", seeDatabase, d.rules},
		{"database", "reachable", "check the DSN of `database`; the server is stopped, overloaded or locked",
			d.database},
		{"temporal", "reachable", "check TEMPORAL_ADDRESS or temporal.config_file", d.temporal},
		{"temporal", "schedules", "check Temporal", d.schedules},
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
	return append(all, check{"answers", "5xx", seeDatabase, d.answers},
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
				f.add(Fail, c.name, c.do, "no answer within %s", Within)
			case err != nil:
				f.add(Fail, c.name, c.do, "%s", output.FirstLine(err))
			}
			found[i] = f.list
		})
	}
	examining.Wait()
	return slices.Concat(found...)
}

// configuration adds the warnings about the file.
func (d *Doctor) configuration(_ context.Context, f *findings) error {
	for _, w := range d.Config.Warnings {
		f.add(Warn, w.Key, w.Fix, "%s", w.Problem)
	}
	if len(d.Config.Warnings) == 0 {
		f.add(OK, "file", "", "%s has no problems", d.File)
	}
	return nil
}
