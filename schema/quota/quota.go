// Package quota bounds how many requests all processes together make to another system in a second. It is for rare
// requests: each takes a statement of its own.
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

// takeSQL counts a request in the second that it is made in, or in the $3 seconds, by the database's clock, which all
// processes share. It changes no row where these have their fill.
const takeSQL = `
insert into quotas as q (name, second, requests) values ($1, floor(extract(epoch from clock_timestamp()) / $3)::bigint, 1)
    on conflict (name) do update set second = excluded.second, requests = case when q.second = excluded.second then q.requests + 1 else 1 end
     where q.second <> excluded.second or q.requests < $2`

// Take waits until another request may be made under the name. There may be perSecond of them in each second. Between
// two seconds there may be twice as many. It fails when ctx ends first.
func (s *Store) Take(ctx context.Context, name string, perSecond int) error {
	return s.takeEach(ctx, name, perSecond, 1)
}

// TakeHalf is Take at half the rate.
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
		// Those who wait shall not all come back in the same moment.
		select {
		case <-time.After(100*time.Millisecond + rand.N(400*time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("%s: more than %d requests in %d s: %w", name, most, seconds, ctx.Err())
		}
	}
}
