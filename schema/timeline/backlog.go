package timeline

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Backlog counts the unfinished events at one moment.
type Backlog struct {
	// Waiting counts the events that continue without a person, by cause. The most frequent cause comes first.
	Waiting []Cause `json:"waiting"`
	// Oldest is the unfinished event that was received first, or nil.
	Oldest *Open `json:"oldest"`
}

// Cause is the number of events with the same status and the same reason.
type Cause struct {
	Status string `json:"status"`
	// ReasonCode is the code of the reason. It is "" if the events have no reason or a reason without a code.
	ReasonCode string `json:"reason_code"`
	Events     int    `json:"events"`
	// Oldest is when the first of them was received.
	Oldest time.Time `json:"oldest_at"`
	// Money is the sum of the parked events' amounts, in minor units by currency. If several events are about one
	// object, the amount of the object is added once. An event that was parked before it was read has no known amount.
	// Money is empty if more than 5,000 events are parked.
	Money map[string]int64 `json:"money,omitempty"`
}

// Open is an event that is not finished.
type Open struct {
	ID         string    `json:"id"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	ReasonCode string    `json:"reason_code"`
	ReceivedAt time.Time `json:"received_at"`
}

// Parked is the number of parked events with the same cause and mode. Either all of them are financial or none.
type Parked struct {
	Cause
	Mode      string
	Financial bool
	// Since is when the first of them was parked.
	Since time.Time
}

// parkedSQL groups the parked events by mode, and by whether their type matches a pattern in $1. If more than $2 events
// are parked, it does not add up the money, because the sum requires reading the subject of each event.
var parkedSQL = `
with parked as materialized (
    select id, status, reason_code, received_at, updated_at, mode,
           coalesce(type like any($1::text[]), false) as financial
      from receipts where status in ('needs_review', 'dead')
), money as materialized (
    select status, reason_code, mode, financial, currency, ` + schema.Total(`amount`) + ` as amount
      from (select distinct on (r.status, r.reason_code, r.mode, r.financial, about.object)
                   r.status, r.reason_code, r.mode, r.financial, about.amount, coalesce(about.currency, '') as currency
              from (select * from parked where (select count(*) from parked) <= $2::bigint) r` + about + `
             where about.amount is not null order by r.status, r.reason_code, r.mode, r.financial, about.object, r.received_at desc) once
     group by status, reason_code, mode, financial, currency
)
select status, reason_code, mode, financial, count(*)::int as events, min(received_at) as oldest, min(updated_at) as since,
       (select coalesce(jsonb_object_agg(m.currency, m.amount), '{}') from money m
         where (m.status, m.reason_code, m.mode, m.financial) = (p.status, p.reason_code, p.mode, p.financial)) as money
  from parked p group by status, reason_code, mode, financial order by 5 desc, status, reason_code, mode, financial`

// mostSummed is the largest number of parked events with amounts that are added up.
const mostSummed = 5000

// waitingSQL is the union of two queries, so that each uses its own partial index.
const waitingSQL = `
select status, reason_code, count(*)::int as events, min(received_at) as oldest, null::jsonb as money
  from receipts where status in ('processing', 'retrying') group by status, reason_code
union all
select 'received', '', count(*)::int, min(received_at), null from receipts where status = 'received' having count(*) > 0
 order by 3 desc, 1, 2`

// oldestSQL reads the first receipt of each status from an index.
const oldestSQL = `
select r.id::text as id, r.event_id, r.type, r.status, r.reason_code, r.received_at
  from receipts r
 where r.id = (select id
                 from ((select id, received_at from receipts where status = 'processing' order by received_at limit 1)
                       union all
                       (select id, received_at from receipts where status = 'retrying' order by received_at limit 1)
                       union all
                       (select id, received_at from receipts where status = 'needs_review' order by received_at limit 1)
                       union all
                       (select id, received_at from receipts where status = 'dead' order by received_at limit 1)
                       union all
                       (select id, received_at from receipts where status = 'received' order by dispatch_at limit 1)) first
                order by received_at limit 1)`

// ReadBacklog counts the events that continue without a person.
func ReadBacklog(ctx context.Context, db DB) (*Backlog, error) {
	b := new(Backlog)
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) (err error) {
		if b.Waiting, err = schema.List[Cause](ctx, tx, "read what waits", waitingSQL); err != nil {
			return err
		}
		oldest, err := schema.List[Open](ctx, tx, "read the oldest event", oldestSQL)
		if len(oldest) > 0 {
			b.Oldest = &oldest[0]
		}
		return err
	})
	return b, err
}

// ReadParked counts the parked events by cause, mode, and whether their types match one of the SQL patterns in
// financial. It does not add up the money if more than 5,000 events are parked.
func ReadParked(ctx context.Context, db schema.Querier, financial []string) ([]Parked, error) {
	return schema.List[Parked](ctx, db, "read the parked events", parkedSQL, financial, mostSummed)
}
