// Package breaker keeps which sinks are out, for all workers: what one of them has seen keeps the others from trying.
//
// A breaker is open while its sink is out. Then single probes go through, one at a time whoever makes them, and the
// first that the sink answers closes it.
package breaker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{"all": allSQL, "open": openSQL, "probe": probeSQL, "failed": failedSQL, "close": closeSQL}

// Breaker is that of one sink.
type Breaker struct {
	// Sink is its name: that of the configuration, with ":live" or ":test" where the sink is per mode.
	Sink string
	Open bool
	// Since is when it was opened, or closed.
	Since time.Time
	// Reason says in our own words what the sink does, "" where it is closed.
	Reason string
	// Probes counts those that have failed since it was opened.
	Probes int
	// ProbeIn is how long it is until the next one may go through. Like every time here it is by the database's clock.
	ProbeIn time.Duration
}

// Store is the breakers in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the breakers of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const allSQL = `select sink, open, since, reason, probes, probe_at - now() as probe_in from breakers order by sink`

// All returns the breakers that were ever open.
func (s *Store) All(ctx context.Context) ([]Breaker, error) {
	rows, err := s.pool.Query(ctx, allSQL)
	if err != nil {
		return nil, fmt.Errorf("read breakers: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Breaker])
	if err != nil {
		return nil, fmt.Errorf("read breakers: %w", err)
	}
	return list, nil
}

// One that is open stays as it is: two workers may have seen the same.
const openSQL = `
insert into breakers as b (sink, open, since, reason, probe_at) values ($1, true, now(), $2, now() + make_interval(secs => $3))
    on conflict (sink) do update set open = true, since = now(), reason = excluded.reason, probes = 0, probe_at = excluded.probe_at
 where not b.open`

// Open opens a sink's breaker, with the first probe in so long. One that is open stays as it is.
func (s *Store) Open(ctx context.Context, sink, reason string, probeIn time.Duration) error {
	if _, err := s.pool.Exec(ctx, openSQL, sink, reason, probeIn.Seconds()); err != nil {
		return fmt.Errorf("open the breaker of %s: %w", sink, err)
	}
	return nil
}

const probeSQL = `update breakers set probe_at = now() + make_interval(secs => $2) where sink = $1 and open and probe_at <= now()`

// Probe asks to be the one that probes a sink, and returns whether the caller is. Nobody else is until the lease is over,
// which must outlast the probe.
func (s *Store) Probe(ctx context.Context, sink string, lease time.Duration) (bool, error) {
	tag, err := s.pool.Exec(ctx, probeSQL, sink, lease.Seconds())
	if err != nil {
		return false, fmt.Errorf("probe %s: %w", sink, err)
	}
	return tag.RowsAffected() > 0, nil
}

const failedSQL = `
update breakers set reason = $2, probes = probes + 1, probe_at = now() + make_interval(secs => $3) where sink = $1 and open`

// Failed records a probe that has failed, and when the next may go through.
func (s *Store) Failed(ctx context.Context, sink, reason string, probeIn time.Duration) error {
	if _, err := s.pool.Exec(ctx, failedSQL, sink, reason, probeIn.Seconds()); err != nil {
		return fmt.Errorf("record a probe of %s: %w", sink, err)
	}
	return nil
}

const closeSQL = `update breakers set open = false, since = now(), reason = '', probes = 0 where sink = $1 and open`

// Close closes a sink's breaker, and returns whether it was open: one caller is told so.
func (s *Store) Close(ctx context.Context, sink string) (bool, error) {
	tag, err := s.pool.Exec(ctx, closeSQL, sink)
	if err != nil {
		return false, fmt.Errorf("close the breaker of %s: %w", sink, err)
	}
	return tag.RowsAffected() > 0, nil
}
