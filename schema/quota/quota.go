// Package quota limits how many requests per second all processes together send to another system. Each request
// executes a statement in Postgres, so the package is for requests that are not frequent.
package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Store counts requests in Postgres. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// takeSQL counts a request in the current interval of $3 seconds. The clock of the database determines the interval for
// all processes. If the interval has no request left, takeSQL changes no row.
const takeSQL = `
insert into quotas as q (name, second, requests) values ($1, floor(extract(epoch from clock_timestamp()) / $3)::bigint, 1)
    on conflict (name) do update set second = excluded.second, requests = case when q.second = excluded.second then q.requests + 1 else 1 end
     where q.second <> excluded.second or q.requests < $2`

// Take waits until a request may be sent under the given name, with at most perSecond requests per second. Around the
// boundary of two seconds, twice as many may be sent at once. Take returns an error if ctx ends first.
func (s *Store) Take(ctx context.Context, name string, perSecond int) error {
	return s.takeEach(ctx, name, perSecond, 1)
}

// TakeHalf is like Take, with half of perSecond.
func (s *Store) TakeHalf(ctx context.Context, name string, perSecond int) error {
	if perSecond == 1 {
		return s.takeEach(ctx, name, 1, 2)
	}
	return s.takeEach(ctx, name, perSecond/2, 1)
}

func (s *Store) takeEach(ctx context.Context, name string, most, seconds int) error {
	for {
		taken, err := schema.Changes(ctx, s.pool, "take a request of "+name, takeSQL, name, most, seconds)
		if taken || err != nil {
			return err
		}
		// The random wait spreads the retries of several callers.
		select {
		case <-time.After(100*time.Millisecond + rand.N(400*time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("%s: more than %d requests in %d s: %w", name, most, seconds, ctx.Err())
		}
	}
}
