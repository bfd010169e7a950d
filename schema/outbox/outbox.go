// Package outbox delivers the internal events that effects write in their own transactions: at least once to every
// subscriber, in the order of commits within an account.
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

// Event is one internal event. Consumers deduplicate by EventID.
type Event struct {
	ID        int64
	EventID   string
	Mode      string
	Account   string
	Type      string
	ReceiptID string
	Data      json.RawMessage
	CreatedAt time.Time
	// Attempts counts how often the event was leased as the oldest of its account.
	Attempts    int
	DeliveredTo []string
	// OnlyTo is the only subscriber that gets the event; "" means all.
	OnlyTo string
	// Correlation and Trace come from the receipt; see [github.com/pawlhq/pawl/schema/receipt.Pending].
	Correlation, Trace string
}

// News is an internal event before it is written: its type, its account, the only subscriber that gets it ("" for all),
// and its data.
type News struct {
	Account, Type, OnlyTo string
	Data                  json.RawMessage
}

// Write adds a statement to b that writes news to the outbox in order, in the transaction of the change that they
// report.
//
// The first event of an account is due at once. The others are postponed behind it from the beginning, as by
// standBackSQL, so that the publisher does not have to write them before they are published.
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
	// Behind is set if the account has an earlier event in the list.
	Behind bool
}

var writeColumns = schema.ColumnsOf[newsRow](writeSQL)

// mostPassed is how many due events one call of Take reads. It postpones events that are not the oldest of their
// account, so that the next call does not read them again.
const mostPassed = 256

// standBackSQL postpones due events behind the oldest unpublished event of their account. callBackSQL makes the next
// one due after the oldest is published; otherwise it would be due again after five minutes.
//
// It locks the row of the oldest event, and skips the account if the row is locked. A concurrent Settle waits and then
// makes the next event due, or it came first and that row is no longer the oldest.
const standBackSQL = `
update outbox o set next_at = now() + interval '5 minutes'
  from (select due.id
          from (select id, mode, account from outbox where published_at is null and next_at <= now() order by next_at, id limit $1) due
         cross join lateral (select h.id from outbox h where h.published_at is null and h.mode = due.mode and h.account = due.account
                              order by h.id limit 1) oldest
         cross join lateral (select from outbox h where h.id = oldest.id and h.published_at is null for no key update skip locked) held
         where oldest.id < due.id) behind
 where o.id = behind.id`

// queued is how many events of one account are leased at once: more than one change publishes.
const queued = 16

// takeSQL leases the oldest unpublished event of each account if it is due, and the events that follow it. The lease
// (next_at) excludes other publishers. If the oldest event of an account is not due, takeSQL leases nothing of the
// account, which preserves the order. It writes only the row of the oldest event, which covers the others.
//
// It reads only due rows. Stepping from account to account took 195 ms, several times a second, when 50,000 accounts
// waited for a subscriber that was down.
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

// Take leases due events of up to limit accounts: the oldest of each account and the events that follow it, in delivery
// order. After the lease, they are leased again. One call of Settle must settle all events of an account: as soon as
// one of them is published, the next may be leased by another publisher.
func (s *Store) Take(ctx context.Context, limit int, lease time.Duration) (events []Event, err error) {
	// If all due events were postponed, more may follow them.
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

// Settled is the outcome of a leased event.
type Settled struct {
	ID          int64    `json:"id"`
	DeliveredTo []string `json:"delivered_to"`
	// Published is set if every subscriber has received the event.
	Published bool `json:"published"`
	// Error and RetryIn are set if some subscriber has not accepted the event.
	Error   string        `json:"error"`
	RetryIn time.Duration `json:"retry_in"`
}

// settleSQL writes a list of [Settled]. It does not change published events: the subquery keeps Postgres from scanning
// the index of unpublished ones.
const settleSQL = `
update outbox o set delivered_to = s.delivered_to, last_error = s.error,
       published_at = case when s.published then now() end,
       next_at = now() + make_interval(secs => s.retry_in / 1e9)
  from jsonb_to_recordset($1::jsonb) as s(id bigint, delivered_to text[], published boolean, error text, retry_in float8)
 where o.id = s.id and (select o.published_at is null)`

// callBackSQL makes the events due that standBackSQL postponed behind published ones. It is a separate statement: a
// statement that waited for a concurrent standBackSQL would not see the rows that it postponed.
const callBackSQL = `
update outbox o set next_at = now()
  from (select mode, account, max(id) as id from outbox where id = any($1) group by mode, account) last
 cross join lateral (select n.id from outbox n where n.published_at is null and n.mode = last.mode and n.account = last.account and n.id > last.id
                      order by n.id limit 1) next
 where o.id = next.id`

// Settle records the outcomes of leased events in one commit.
func (s *Store) Settle(ctx context.Context, settled []Settled) error {
	var published, waiting []Settled
	var ids []int64
	for _, e := range settled {
		e.DeliveredTo = append([]string{}, e.DeliveredTo...) // never null
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
	if len(waiting) > 0 { // after callBackSQL, which would override its wait
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

// refusedSQL reads the oldest event of each account, because only that one is tried.
const refusedSQL = `
select first.last_error as error, max(first.attempts) as attempts, count(*)::int as events, min(first.created_at) as since
  from outbox first
  join outbox behind on behind.published_at is null and behind.mode = first.mode and behind.account = first.account
 where first.published_at is null and first.last_error <> ''
 group by first.last_error order by 4`

// Refused describes unpublished events with the same error.
type Refused struct {
	// Error names the subscriber and contains its answer.
	Error string
	// Attempts is the highest number of attempts of one event. Events counts the waiting events, and Since is the
	// oldest.
	Attempts, Events int
	Since            time.Time
}

// Refused groups the events that subscribers have not accepted by their errors, the oldest first.
func (s *Store) Refused(ctx context.Context) ([]Refused, error) {
	return schema.List[Refused](ctx, s.pool, "read refused outbox events", refusedSQL)
}
