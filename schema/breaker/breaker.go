// Package breaker keeps which sinks are out, for all workers: what one of them has seen keeps the others from trying.
//
// A breaker is open while its sink is out. Then single probes go through, one at a time whoever makes them, and the
// first that the sink answers closes it.
package breaker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Breaker is that of one sink.
type Breaker struct {
	// Sink is its name: that of the configuration, with ":live" or ":test" where the sink is per mode.
	Sink string
	Open bool
	// Since is when it was opened, or closed.
	Since time.Time
	// Failures are those that opened it and those of the probes since; zero where it is closed.
	Failures
	// Probes counts those that have failed since it was opened.
	Probes int
	// ProbeIn is how long it is until the next one may go through. Like every time here it is by the database's clock.
	ProbeIn time.Duration
}

// Failures are equal failures of a sink.
type Failures struct {
	// Reason says in our own words what the sink does.
	Reason string
	// Said is what the sink said about the last one, "" for nothing. It is for the eyes of operators.
	Said string
	// About names the accounts that the failed effects are about, or the keys of effects without one. Events are the
	// events that they belong to. Both have the latest last.
	About, Events []string
}

// mostNamed bounds how many failed effects are named: more would not tell a person more.
const mostNamed = 8

// list is l, never nil: that would be null.
func list(l []string) []string { return append([]string{}, l...) }

// And returns f with one more failure, which is the one that counts now.
func (f Failures) And(reason, said, about, event string) Failures {
	return Failures{Reason: reason, Said: said, About: latest(f.About, about), Events: latest(f.Events, event)}
}

func latest(list []string, name string) []string {
	list = append(slices.DeleteFunc(slices.Clone(list), func(n string) bool { return n == name }), name)
	return list[max(len(list)-mostNamed, 0):]
}

// Why tells an operator how the sink fails, in our words and its own, and for which events.
func (f Failures) Why() string {
	why := f.Reason
	if f.Said != "" {
		why += fmt.Sprintf(" (%q)", f.Said)
	}
	if len(f.Events) > 0 {
		why += " to " + strings.Join(f.Events, ", ")
	}
	return why
}

// Store is the breakers in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the breakers of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const allSQL = `
select sink, open, since, reason, said, about, events, probes, probe_at - now() as probe_in from breakers order by sink`

// All returns the breakers that were ever open.
func (s *Store) All(ctx context.Context) ([]Breaker, error) {
	return schema.List[Breaker](ctx, s.pool, "read breakers", allSQL)
}

// One that is open stays as it is: two workers may have seen the same.
const openSQL = `
insert into breakers as b (sink, open, since, reason, said, about, events, probe_at)
values ($1, true, now(), $2, $3, $4, $5, now() + make_interval(secs => $6))
    on conflict (sink) do update
   set open = true, since = now(), reason = excluded.reason, said = excluded.said, about = excluded.about,
       events = excluded.events, probes = 0, probe_at = excluded.probe_at
 where not b.open`

// Open opens a sink's breaker, with the first probe in so long. One that is open stays as it is.
func (s *Store) Open(ctx context.Context, sink string, f Failures, probeIn time.Duration) error {
	return schema.Exec(ctx, s.pool, "open the breaker of "+sink, openSQL, sink, f.Reason, f.Said, list(f.About),
		list(f.Events), probeIn.Seconds())
}

const probeSQL = `update breakers set probe_at = now() + make_interval(secs => $2) where sink = $1 and open and probe_at <= now()`

// Probe asks to be the one that probes a sink, and returns whether the caller is. Nobody else is until the lease is
// over, which must outlast the probe.
func (s *Store) Probe(ctx context.Context, sink string, lease time.Duration) (bool, error) {
	return schema.Changes(ctx, s.pool, "probe "+sink, probeSQL, sink, lease.Seconds())
}

const failedSQL = `
update breakers set reason = $2, said = $3, about = $4, events = $5, probes = probes + 1,
       probe_at = now() + make_interval(secs => $6)
 where sink = $1 and open`

// Failed records a probe that has failed, as the last of f, and when the next may go through.
func (s *Store) Failed(ctx context.Context, sink string, f Failures, probeIn time.Duration) error {
	return schema.Exec(ctx, s.pool, "record a probe of "+sink, failedSQL, sink, f.Reason, f.Said, list(f.About),
		list(f.Events), probeIn.Seconds())
}

const closeSQL = `
update breakers set open = false, since = now(), reason = '', said = '', about = '{}', events = '{}', probes = 0
 where sink = $1 and open`

// Close closes a sink's breaker, and returns whether it was open: one caller is told so.
func (s *Store) Close(ctx context.Context, sink string) (bool, error) {
	return schema.Changes(ctx, s.pool, "close the breaker of "+sink, closeSQL, sink)
}
