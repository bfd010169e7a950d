// Package outbox hands out the internal events that effects have written in their own transactions:
// at least once to every subscriber, in the order of commits within an account.
package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements are all statements of the package by name, for schematest.CheckStatements.
var Statements = map[string]string{"take": takeSQL, "settle": settleSQL, "pending": pendingSQL}

// Store is the outbox in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the outbox of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Event is one internal event. EventID is what consumers deduplicate by.
type Event struct {
	ID          int64
	EventID     string
	Mode        string
	Account     string
	Type        string
	ReceiptID   string
	Data        json.RawMessage
	CreatedAt   time.Time
	Attempts    int
	DeliveredTo []string
}

// takeSQL takes the oldest unpublished event of each account that is due. The lease (next_at) keeps
// other publishers away; an account whose oldest event waits has nothing taken, so that order holds.
//
// heads steps from account to account through the index of what is unpublished. To ask of every unpublished
// event whether an older one waits took a second for each look at the 50,000 that piled up behind a
// subscriber that was down, several times a second.
const takeSQL = `
with recursive heads as (
    (select mode, account, id, next_at from outbox where published_at is null order by mode, account, id limit 1)
    union all
    select n.mode, n.account, n.id, n.next_at
      from heads h cross join lateral (
        select o.mode, o.account, o.id, o.next_at from outbox o
         where o.published_at is null and (o.mode, o.account) > (h.mode, h.account)
         order by o.mode, o.account, o.id limit 1) n
), due as (
    select o.id from outbox o join heads h on h.id = o.id
     where h.next_at <= now() and o.published_at is null and o.next_at <= now()
     order by h.id limit $1
       for update of o skip locked
)
update outbox o set attempts = o.attempts + 1, next_at = now() + make_interval(secs => $2)
  from due where o.id = due.id
returning o.id, o.event_id::text, o.mode, o.account, o.type, o.receipt_id::text, o.data, o.created_at, o.attempts, o.delivered_to`

// Take takes up to limit due events, at most one per account. Who takes an event has it for the length
// of lease; after that it is handed out again.
func (s *Store) Take(ctx context.Context, limit int, lease time.Duration) ([]Event, error) {
	rows, err := s.pool.Query(ctx, takeSQL, limit, lease.Seconds())
	if err != nil {
		return nil, fmt.Errorf("take outbox events: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
	if err != nil {
		return nil, fmt.Errorf("take outbox events: %w", err)
	}
	return events, nil
}

// Settled says what came of an event that was taken.
type Settled struct {
	ID          int64
	DeliveredTo []string
	// Published is set when every subscriber has it.
	Published bool
	// Error and RetryIn are for an event that some subscriber has not taken.
	Error   string
	RetryIn time.Duration
}

const settleSQL = `
update outbox set delivered_to = $2, last_error = $4,
       published_at = case when $3 then now() else published_at end,
       next_at = now() + make_interval(secs => $5)
 where id = $1 and published_at is null`

// Settle records what came of taken events, in one commit.
func (s *Store) Settle(ctx context.Context, settled []Settled) error {
	batch := &pgx.Batch{}
	for _, e := range settled {
		if e.DeliveredTo == nil {
			e.DeliveredTo = []string{}
		}
		batch.Queue(settleSQL, e.ID, e.DeliveredTo, e.Published, e.Error, e.RetryIn.Seconds())
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle outbox events: %w", err)
	}
	return nil
}

const pendingSQL = `
select count(*), coalesce(extract(epoch from now() - min(created_at)), 0)::float8 from outbox where published_at is null`

// Pending returns how many events are unpublished, and the age of the oldest.
func (s *Store) Pending(ctx context.Context) (count int, oldest time.Duration, err error) {
	var seconds float64
	if err := s.pool.QueryRow(ctx, pendingSQL).Scan(&count, &seconds); err != nil {
		return 0, 0, fmt.Errorf("count outbox events: %w", err)
	}
	return count, time.Duration(seconds * float64(time.Second)), nil
}
