// Package outbox stores and delivers the events that pawl publishes. Effects write them in their own transactions. Each
// destination gets each event at least once. The events of an account are delivered in the order in which they were
// committed.
package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// Store is the outbox in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the outbox of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Event is one published event. Destinations use EventID to ignore repetitions.
type Event struct {
	ID        int64
	EventID   string
	Mode      string
	Account   string
	Type      string
	ReceiptID string
	Data      json.RawMessage
	CreatedAt time.Time
	// Attempts counts the attempts to deliver the event while it was the oldest of its account.
	Attempts    int
	DeliveredTo []string
	// OnlyTo is the only destination that gets the event; "" means all.
	OnlyTo string
	// Correlation and Trace are copied from the receipt; see [github.com/pawlhq/pawl/schema/receipt.Pending].
	Correlation, Trace string
}

// News is a published event before it is written. OnlyTo is the only destination that gets the event, or "" for all.
type News struct {
	Account, Type, OnlyTo string
	Data                  json.RawMessage
}

// Write queues a statement in b that writes news to the outbox in order. b must be part of the transaction with the
// change that news reports.
//
// The first event of an account is due at once. The others wait for it, as after standBackSQL, so that the publisher
// does not have to postpone them.
func Write(b *pgx.Batch, mode, receiptID, effectKey string, news []News) {
	if len(news) == 0 {
		return
	}
	rows := make([]newsRow, len(news))
	seen := map[string]bool{}
	for i, n := range news {
		rows[i] = newsRow{n, seen[n.Account]}
		seen[n.Account] = true
	}
	b.Queue(writeSQL, append([]any{mode, receiptID, effectKey}, writeColumns.Args(rows)...)...)
}

const writeSQL = `
insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, only_to, next_at)
select gen_random_uuid(), $1, n.account, n.type, $2::uuid, $3, n.data, n.only_to, now() + case when n.behind then interval '5 minutes' else interval '0' end
  from unnest($4::text[], $5::text[], $6::jsonb[], $7::boolean[], $8::text[]) as n(account, type, data, behind, only_to)`

type newsRow struct {
	News
	// Behind is set if the list contains an earlier event of the same account.
	Behind bool
}

var writeColumns = schema.ColumnsOf[newsRow](writeSQL)

// mostPassed is how many due events one call of Take reads. Take postpones events that are not the oldest of their
// account, so that the next call does not read them again.
const mostPassed = 256

// standBackSQL postpones each due event that is not the oldest unpublished event of its account. When the oldest event
// is published, callBackSQL makes the next event due. Without callBackSQL, the next event would be due after five
// minutes.
//
// standBackSQL locks the row of the oldest event. If another transaction has locked this row, standBackSQL skips the
// account. A concurrent Settle that has not committed waits for this lock, and then makes the next event due. After
// a Settle that has committed, the row is no longer the oldest.
const standBackSQL = `
update outbox o set next_at = now() + interval '5 minutes'
  from (select due.id
          from (select id, mode, account from outbox where published_at is null and next_at <= now() order by next_at, id limit $1) due
         cross join lateral (select h.id from outbox h where h.published_at is null and h.mode = due.mode and h.account = due.account
                              order by h.id limit 1) oldest
         cross join lateral (select from outbox h where h.id = oldest.id and h.published_at is null for no key update skip locked) held
         where oldest.id < due.id) behind
 where o.id = behind.id`

// queued is how many events of one account are leased together. One change publishes fewer.
const queued = 16

// takeSQL leases the oldest unpublished event of each account and the events after it, if the oldest one is due. If the
// oldest one is not due, takeSQL leases nothing of the account, which preserves the order. The lease is stored as
// next_at of the oldest event and covers the others.
//
// It reads only due rows. A query that visited each account took 195 ms, several times a second, when 50,000 accounts
// waited for a destination that was down.
const takeSQL = `
with oldest as (
    select due.id, due.mode, due.account from outbox due
     where due.published_at is null and due.next_at <= now()
       and not exists (select from outbox h where h.published_at is null and h.mode = due.mode and h.account = due.account and h.id < due.id)
     order by due.next_at, due.id limit $1
       for update skip locked
), taken as (
    update outbox o set attempts = o.attempts + 1, next_at = now() + make_interval(secs => $2)
      from oldest where o.id = oldest.id
    returning o.*
)
select ` + eventColumns + ` from taken e
union all
select ` + eventColumns + ` from oldest
 cross join lateral (select n.* from outbox n where n.published_at is null and n.mode = oldest.mode and n.account = oldest.account and n.id > oldest.id
                      order by n.id limit $3 - 1) e`

const eventColumns = `e.id, e.event_id::text, e.mode, e.account, e.type, e.receipt_id::text, e.data, e.created_at, e.attempts, e.delivered_to, e.only_to,
       coalesce((select r.correlation_id from receipts r where r.id = e.receipt_id), ''),
       coalesce((select b.trace from receipt_bodies b where b.receipt_id = e.receipt_id), '')`

// Take leases the due events of up to limit accounts: for each account the oldest event and the events after it, in the
// order of delivery. When the lease ends, the events can be leased again. The caller must pass all events of an account
// to one call of Settle. As soon as one of them is recorded as published, another publisher may lease the next.
func (s *Store) Take(ctx context.Context, limit int, lease time.Duration) (events []Event, err error) {
	// If Take postponed all events that it read, read the next ones.
	for stoodBack := int64(1); stoodBack > 0 && len(events) == 0; {
		batch := &pgx.Batch{}
		batch.Queue(standBackSQL, mostPassed).Exec(func(tag pgconn.CommandTag) error {
			stoodBack = tag.RowsAffected()
			return nil
		})
		batch.Queue(takeSQL, limit, lease.Seconds(), queued).Query(func(rows pgx.Rows) (err error) {
			events, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
			return err
		})
		if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
			return nil, fmt.Errorf("take outbox events: %w", err)
		}
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.ID, b.ID) })
	return events, nil
}

// Settled is the result of delivering a leased event.
type Settled struct {
	ID          int64    `json:"id"`
	DeliveredTo []string `json:"delivered_to"`
	// Published is set if every destination has received the event.
	Published bool `json:"published"`
	// Error and RetryIn are set if a destination did not accept the event.
	Error   string        `json:"error"`
	RetryIn time.Duration `json:"retry_in"`
}

// settleSQL records a list of [Settled]. It does not change events that are already published. The subquery keeps
// Postgres from scanning the index of unpublished events.
const settleSQL = `
update outbox o set delivered_to = s.delivered_to, last_error = s.error,
       published_at = case when s.published then now() end,
       next_at = now() + make_interval(secs => s.retry_in / 1e9)
  from jsonb_to_recordset($1::jsonb) as s(id bigint, delivered_to text[], published boolean, error text, retry_in float8)
 where o.id = s.id and (select o.published_at is null)`

// callBackSQL makes the next events due after earlier ones of their account were published. It is a separate statement:
// a statement that waited for a concurrent standBackSQL would not see the rows that standBackSQL postponed.
const callBackSQL = `
update outbox o set next_at = now()
  from (select mode, account, max(id) as id from outbox where id = any($1) group by mode, account) last
 cross join lateral (select n.id from outbox n where n.published_at is null and n.mode = last.mode and n.account = last.account and n.id > last.id
                      order by n.id limit 1) next
 where o.id = next.id`

// Settle records the results of leased events in one commit.
func (s *Store) Settle(ctx context.Context, settled []Settled) error {
	var published, waiting []Settled
	var ids []int64
	for _, e := range settled {
		e.DeliveredTo = append([]string{}, e.DeliveredTo...) // an empty list instead of null
		if e.Published {
			published, ids = append(published, e), append(ids, e.ID)
		} else {
			waiting = append(waiting, e)
		}
	}
	batch := &pgx.Batch{}
	if len(published) > 0 {
		batch.Queue(settleSQL, published)
		batch.Queue(callBackSQL, ids)
	}
	if len(waiting) > 0 { // execute after callBackSQL, which would shorten the wait
		batch.Queue(settleSQL, waiting)
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle outbox events: %w", err)
	}
	return nil
}

const pendingSQL = `
select count(*), coalesce(now() - min(created_at), interval '0') as oldest from outbox where published_at is null`

// Pending returns how many events are unpublished, and the age of the oldest.
func (s *Store) Pending(ctx context.Context) (count int, oldest time.Duration, err error) {
	pending, err := schema.One[struct {
		Count  int
		Oldest time.Duration
	}](ctx, s.pool, "count outbox events", pendingSQL)
	return pending.Count, pending.Oldest, err
}

// refusedSQL reads the oldest event of each account, because only the oldest one is delivered.
const refusedSQL = `
select first.last_error as error, max(first.attempts) as attempts, count(*)::int as events, min(first.created_at) as since
  from outbox first
  join outbox behind on behind.published_at is null and behind.mode = first.mode and behind.account = first.account
 where first.published_at is null and first.last_error <> ''
 group by first.last_error order by 4`

// Refused describes unpublished events that failed with the same error.
type Refused struct {
	// Error contains the name of the destination and its response.
	Error string
	// Attempts is the highest number of attempts of one event. Events is the number of events that wait, and Since the
	// time of the oldest.
	Attempts, Events int
	Since            time.Time
}

// Refused returns the events that a destination did not accept, grouped by error, oldest first.
func (s *Store) Refused(ctx context.Context) ([]Refused, error) {
	return schema.List[Refused](ctx, s.pool, "read refused outbox events", refusedSQL)
}
