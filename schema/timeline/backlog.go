package timeline

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema"
)

// Backlog counts the open events at one moment.
type Backlog struct {
	// Parked counts the events that wait for a person, by cause. Waiting counts the events that continue without a
	// person. The most frequent cause comes first.
	Parked  []Cause `json:"parked"`
	Waiting []Cause `json:"waiting"`
	// Oldest is the open event with the earliest receipt, or nil if no event is open.
	Oldest *Open `json:"oldest"`
}

// Cause counts the events with one status and one reason.
type Cause struct {
	Status string `json:"status"`
	// ReasonCode is "" if the event has no reason, or a reason without a code.
	ReasonCode string `json:"reason_code"`
	Events     int    `json:"events"`
	// Oldest is when the first of them was received.
	Oldest time.Time `json:"oldest"`
	// Money is the sum of the parked events' amounts, in minor units by currency. Several events about one object count
	// once. An event that was parked before it was read has no known amount. Money is empty if more than 5,000 events
	// are parked.
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

// Parked is a cause in one mode, with events that are either all financial or all not.
type Parked struct {
	Cause
	Mode      string
	Financial bool
	// Since is when the first of them was parked.
	Since time.Time
}

// parkedSQL counts by mode, and by whether the type matches a pattern of $1; by neither if $1 is null. It does not sum
// the money if more than $2 events are parked, because each sum reads the facts of the event.
var parkedSQL = `
with parked as materialized (
    select id, status, reason_code, received_at, updated_at, case when $1::text[] is null then '' else mode end as mode,
           coalesce(type like any($1), false) as financial
      from receipts where status in ('needs_review', 'dead')
), money as materialized (
    select status, reason_code, mode, financial, currency, ` + schema.Total(`amount`) + ` as amount
      from (select distinct on (r.status, r.reason_code, r.mode, r.financial, about.told_of)
                   r.status, r.reason_code, r.mode, r.financial, about.amount, coalesce(about.currency, '') as currency
              from (select * from parked where (select count(*) from parked) <= $2::bigint) r` + about + `
             where about.amount is not null order by r.status, r.reason_code, r.mode, r.financial, about.told_of, r.received_at desc) once
     group by status, reason_code, mode, financial, currency
)
select status, reason_code, mode, financial, count(*)::int as events, min(received_at) as oldest, min(updated_at) as since,
       (select coalesce(jsonb_object_agg(m.currency, m.amount), '{}') from money m
         where (m.status, m.reason_code, m.mode, m.financial) = (p.status, p.reason_code, p.mode, p.financial)) as money
  from parked p group by status, reason_code, mode, financial order by 5 desc, status, reason_code, mode, financial`

// mostSummed is the largest number of parked events for which the money is summed.
const mostSummed = 5000

// waitingSQL is two statements for two partial indexes.
const waitingSQL = `
select status, reason_code, count(*)::int as events, min(received_at) as oldest, null::jsonb as money
  from receipts where status in ('processing', 'retrying') group by status, reason_code
union all
select 'received', '', count(*)::int, min(received_at), null from receipts where status = 'received' having count(*) > 0
 order by 3 desc, 1, 2`

// oldestSQL takes the first receipt of each status from an index.
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

// ReadBacklog counts the open events.
func ReadBacklog(ctx context.Context, db DB) (*Backlog, error) {
	b := &Backlog{Parked: []Cause{}}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error {
		parked, err := ReadParked(ctx, tx, nil)
		if err != nil {
			return err
		}
		for _, p := range parked {
			b.Parked = append(b.Parked, p.Cause)
		}
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
// financial. It does not sum their money if more than 5,000 are parked.
func ReadParked(ctx context.Context, db schema.Querier, financial []string) ([]Parked, error) {
	return schema.List[Parked](ctx, db, "read what is parked", parkedSQL, financial, mostSummed)
}
