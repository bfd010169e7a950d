// Package outbox hands out the internal events that effects have written in their own transactions:
// at least once to every subscriber, in the order of commits within an account.
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

// Event is one internal event. EventID is what consumers deduplicate by.
type Event struct {
	ID        int64
	EventID   string
	Mode      string
	Account   string
	Type      string
	ReceiptID string
	Data      json.RawMessage
	CreatedAt time.Time
	// Attempts counts how often it was taken as the oldest of its account.
	Attempts    int
	DeliveredTo []string
	// OnlyTo is the one subscriber that it is for, "" for all.
	OnlyTo string
	// Correlation and Trace are those of the receipt; see [github.com/pawlhq/pawl/schema/receipt.Pending].
	Correlation, Trace string
}

// News is an internal event before it is written: its type, the account that it is about, the one subscriber that
// gets it ("" for all), and its data.
type News struct {
	Account, Type, OnlyTo string
	Data                  json.RawMessage
}

// Write adds a statement to b that writes news to the outbox, in their order: those of one change, in its transaction.
//
// The first event of an account is due at once. The others stand back behind it from the beginning, as standBackSQL
// would have them, so that the publisher writes to none of them before they are published.
func Write(b *pgx.Batch, mode, receiptID, effectKey string, news []News) {
	if len(news) == 0 {
		return
	}
	accounts, types, only := make([]string, len(news)), make([]string, len(news)), make([]string, len(news))
	data, behind := make([]json.RawMessage, len(news)), make([]bool, len(news))
	for i, n := range news {
		behind[i] = slices.Contains(accounts[:i], n.Account)
		accounts[i], types[i], only[i], data[i] = n.Account, n.Type, n.OnlyTo, n.Data
	}
	b.Queue(writeSQL, mode, receiptID, effectKey, accounts, types, data, behind, only)
}

const writeSQL = `
insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, only_to, next_at)
select gen_random_uuid(), $1, n.account, n.type, $2::uuid, $3, n.data, n.only_to, now() + case when n.behind then interval '5 minutes' else interval '0' end
  from unnest($4::text[], $5::text[], $6::jsonb[], $7::boolean[], $8::text[]) as n(account, type, data, behind, only_to)`

// mostPassed is how many due events one take goes through. Those that are not the oldest of their account stand back,
// so that the next take does not meet them.
const mostPassed = 256

// standBackSQL lets due events stand back behind the oldest unpublished event of their account, which is being
// delivered or waits to be. callBackSQL calls the next one back when that is published; after five minutes it would
// be due again by itself.
//
// It locks the oldest event's row, and skips an account whose row is locked. A concurrent settle waits and then calls
// back the next event, or it came first and that row is not the oldest any more.
const standBackSQL = `
update outbox o set next_at = now() + interval '5 minutes'
  from (select due.id
          from (select id, mode, account from outbox where published_at is null and next_at <= now() order by next_at, id limit $1) due
         cross join lateral (select h.id from outbox h where h.published_at is null and h.mode = due.mode and h.account = due.account
                              order by h.id limit 1) oldest
         cross join lateral (select from outbox h where h.id = oldest.id and h.published_at is null for no key update skip locked) held
         where oldest.id < due.id) behind
 where o.id = behind.id`

// queued is how many events of one account are taken at once: what one change announces, with room.
const queued = 16

// takeSQL takes the oldest unpublished event of each account if it is due, and those that follow it. The lease
// (next_at) keeps other publishers away; an account whose oldest event waits has nothing taken, so that order holds.
// The lease on the oldest row covers those behind it: only that row is written.
//
// It reads due rows only, and none that wait. To step from account to account took 195 ms when 50,000 of them waited
// for a subscriber that was down, several times a second.
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

// Take takes due events of up to limit accounts: the oldest of each account and those that follow it, in the order in
// which they must be delivered. The caller has them for the length of lease; after that they are handed out again.
// One call settles all events of an account: as soon as one of them is published, the next is handed out.
func (s *Store) Take(ctx context.Context, limit int, lease time.Duration) (events []Event, err error) {
	// If all due events had to stand back, there may be more behind them.
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

// Settled says what came of an event that was taken.
type Settled struct {
	ID          int64    `json:"id"`
	DeliveredTo []string `json:"delivered_to"`
	// Published is set when every subscriber has it.
	Published bool `json:"published"`
	// Error and RetryIn are for an event that some subscriber has not taken.
	Error   string        `json:"error"`
	RetryIn time.Duration `json:"retry_in"`
}

// settleSQL takes a list of [Settled]. Published events stay as they are: the subquery
// keeps Postgres from walking the index of unpublished ones.
const settleSQL = `
update outbox o set delivered_to = s.delivered_to, last_error = s.error,
       published_at = case when s.published then now() end,
       next_at = now() + make_interval(secs => s.retry_in / 1e9)
  from jsonb_to_recordset($1::jsonb) as s(id bigint, delivered_to text[], published boolean, error text, retry_in float8)
 where o.id = s.id and (select o.published_at is null)`

// callBackSQL calls back what stands behind published events: see standBackSQL. It is a statement of its own, because
// one that has waited for who let an event stand back does not see that event.
const callBackSQL = `
update outbox o set next_at = now()
  from (select mode, account, max(id) as id from outbox where id = any($1) group by mode, account) last
 cross join lateral (select n.id from outbox n where n.published_at is null and n.mode = last.mode and n.account = last.account and n.id > last.id
                      order by n.id limit 1) next
 where o.id = next.id`

// Settle records what came of taken events, in one commit.
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
	if len(waiting) > 0 { // after what may call it back: it has a wait of its own
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

// refusedSQL goes by the oldest event of each account: only that one is tried, and the others stand behind it.
const refusedSQL = `
select first.last_error as error, max(first.attempts) as attempts, count(*)::int as events, min(first.created_at) as since
  from outbox first
  join outbox behind on behind.published_at is null and behind.mode = first.mode and behind.account = first.account
 where first.published_at is null and first.last_error <> ''
 group by first.last_error order by 4`

// Refused is what a subscriber has not taken.
type Refused struct {
	// Error names the subscriber, and says what it answers.
	Error string
	// Attempts is how often the event that was tried most was tried. Events counts those that wait, Since is the
	// oldest.
	Attempts, Events int
	Since            time.Time
}

// Refused returns what subscribers have not taken, by their answers, the oldest first.
func (s *Store) Refused(ctx context.Context) ([]Refused, error) {
	return schema.List[Refused](ctx, s.pool, "read what subscribers refuse", refusedSQL)
}
