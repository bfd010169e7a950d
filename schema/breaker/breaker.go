// Package breaker stores which sinks are down, for all workers: after one worker has found a sink down, no worker
// calls it.
//
// A breaker is open while its sink is down. While it is open, workers send only single calls as probes, one at a time
// across all workers. The first successful probe closes the breaker.
//
// Each period in which a breaker is open is an [Outage]. It stays stored, with the events that it affected.
package breaker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Breaker is the breaker of one sink.
type Breaker struct {
	// Sink is the configured name of the sink, with ":live" or ":test" if the sink is per mode.
	Sink string
	Open bool
	// Since is when the breaker was opened or closed.
	Since time.Time
	// Failures describes the failures that opened the breaker and the failed probes since. It is zero if the breaker is
	// closed.
	Failures
	// Probes counts the failed probes since the breaker was opened.
	Probes int
	// ProbeIn is the time until the next probe. Like all times here, it is measured by the database's clock.
	ProbeIn time.Duration
}

// Failures describes failures of a sink that have the same reason.
type Failures struct {
	// Reason describes the failure in pawl's words.
	Reason string
	// Said is the sink's response to the last call, or "". Only operators may see it.
	Said string
	// About lists the accounts of the failed effects, or the keys of effects without an account. Events lists their
	// events. Both lists end with the latest entry.
	About, Events []string
}

// mostNamed is the maximum length of these lists.
const mostNamed = 8

// list returns l, or an empty list if l is nil. A nil list would be stored as null.
func list(l []string) []string { return append([]string{}, l...) }

// And returns f with one more failure. The reason and the response come from the new failure.
func (f Failures) And(reason, said, about, event string) Failures {
	return Failures{Reason: reason, Said: said, About: latest(f.About, about), Events: latest(f.Events, event)}
}

func latest(list []string, name string) []string {
	list = append(slices.DeleteFunc(slices.Clone(list), func(n string) bool { return n == name }), name)
	return list[max(len(list)-mostNamed, 0):]
}

// Explanation describes the failure to an operator: the reason, the response of the sink, and the events.
func (f Failures) Explanation() string {
	why := f.Reason
	if f.Said != "" {
		why += fmt.Sprintf(" (%q)", f.Said)
	}
	if len(f.Events) > 0 {
		why += " to " + strings.Join(f.Events, ", ")
	}
	return why
}

// Store stores the breakers in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const allSQL = `
select sink, open, since, reason, said, about, events, probes, probe_at - now() as probe_in from breakers order by sink`

// All returns all breakers that have ever been open.
func (s *Store) All(ctx context.Context) ([]Breaker, error) {
	return schema.List[Breaker](ctx, s.pool, "read breakers", allSQL)
}

// openSQL does not change a breaker that is open already, because two workers may report the same failure. The first
// report also begins an outage, or continues the outage that ended less than a minute ago for the same reason: a sink
// that answers some probes would otherwise have thousands of outages per day. Outages are stored permanently, so
// openSQL erases e-mail addresses in the sink's text.
const openSQL = `
with opened as (
    insert into breakers as b (sink, open, since, reason, said, about, events, probe_at)
    values ($1, true, now(), $2, $3, $4, $5, now() + make_interval(secs => $6))
        on conflict (sink) do update
       set open = true, since = now(), reason = excluded.reason, said = excluded.said, about = excluded.about,
           events = excluded.events, probes = 0, probe_at = excluded.probe_at
     where not b.open
    returning sink, since, reason, said
), continued as (
    update outages o set until = null from opened
     where o.id = (select id from outages where sink = $1 order by since desc, id desc limit 1)
       and o.until > opened.since - interval '1 minute' and o.reason = opened.reason
    returning o.id
)
insert into outages (sink, since, reason, answer)
select sink, since, reason, regexp_replace(said, '\S+@\S+', '(erased)', 'g') from opened where not exists (select from continued)`

// Open opens a sink's breaker, begins or continues an outage, and schedules the first probe. It does not change an open
// breaker.
func (s *Store) Open(ctx context.Context, sink string, f Failures, probeIn time.Duration) error {
	return schema.Exec(ctx, s.pool, "open the breaker of "+sink, openSQL, sink, f.Reason, f.Said, list(f.About),
		list(f.Events), probeIn.Seconds())
}

const probeSQL = `update breakers set probe_at = now() + make_interval(secs => $2) where sink = $1 and open and probe_at <= now()`

// Probe requests the right to send one probe to a sink, and reports whether the caller has got the right. No other
// caller gets this right until the lease ends. The lease must be longer than the probe takes.
func (s *Store) Probe(ctx context.Context, sink string, lease time.Duration) (bool, error) {
	return schema.Changes(ctx, s.pool, "probe "+sink, probeSQL, sink, lease.Seconds())
}

const failedSQL = `
update breakers set reason = $2, said = $3, about = $4, events = $5, probes = probes + 1,
       probe_at = now() + make_interval(secs => $6)
 where sink = $1 and open`

// Failed records a failed probe and schedules the next one. f contains the failure.
func (s *Store) Failed(ctx context.Context, sink string, f Failures, probeIn time.Duration) error {
	return schema.Exec(ctx, s.pool, "record a probe of "+sink, failedSQL, sink, f.Reason, f.Said, list(f.About),
		list(f.Events), probeIn.Seconds())
}

const closeSQL = `
update breakers set open = false, since = now(), reason = '', said = '', about = '{}', events = '{}', probes = 0
 where sink = $1 and open`

const endSQL = `
update outages set until = greatest(since, now()) where sink = $1 and until is null`

// Close closes a sink's breaker and ends the outage. If several callers close the breaker concurrently, it returns true
// to only one of them.
//
// The outage is ended in a second statement, which begins when this caller has locked the breaker: a single statement
// would not see an outage that began while it waited for the lock, and this outage would never end.
func (s *Store) Close(ctx context.Context, sink string) (closed bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if closed, err = schema.Changes(ctx, tx, "close the breaker of "+sink, closeSQL, sink); err != nil || !closed {
			return err
		}
		return schema.Exec(ctx, tx, "end the outage of "+sink, endSQL, sink)
	})
	return closed && err == nil, err
}
