package timeline

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backlog counts the open events, as of one moment.
type Backlog struct {
	// Parked counts the events that wait for a person, by cause; Waiting those that go on by themselves. The most
	// frequent cause comes first.
	Parked  []Cause `json:"parked"`
	Waiting []Cause `json:"waiting"`
	// Oldest is the open event that was received first, nil if no event is open.
	Oldest *Open `json:"oldest"`
}

// Cause is a status, a reason for it, and the events that have both.
type Cause struct {
	Status string `json:"status"`
	// ReasonCode is "" if nothing is wrong, or if the reason has words and no code.
	ReasonCode string `json:"reason_code"`
	Events     int    `json:"events"`
	// Oldest is when the first of them was received.
	Oldest time.Time `json:"oldest"`
	// Money is the sum of the parked events' amounts, in minor units by currency. Several events about one object
	// count once. An event that was parked before it was read has no known amount.
	Money map[string]int64 `json:"money,omitempty"`
}

// Open is an event that is not at rest.
type Open struct {
	ID         string    `json:"id"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	ReasonCode string    `json:"reason_code"`
	ReceivedAt time.Time `json:"received_at"`
}

const parkedSQL = `
with parked as materialized (
    select r.status, r.reason_code, r.received_at, about.told_of, about.amount, coalesce(about.currency, '') as currency
      from receipts r` + about + `
     where r.status in ('needs_review', 'dead')
), money as (
    select status, reason_code, currency, sum(amount)::bigint as amount
      from (select distinct on (status, reason_code, told_of) * from parked
             where amount is not null order by status, reason_code, told_of, received_at desc) once
     group by status, reason_code, currency
)
select status, reason_code, count(*)::int as events, min(received_at) as oldest,
       (select coalesce(jsonb_object_agg(m.currency, m.amount), '{}') from money m
         where m.status = p.status and m.reason_code = p.reason_code) as money
  from parked p group by status, reason_code order by 3 desc, status, reason_code`

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
	b := new(Backlog)
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) (err error) {
		if b.Parked, err = collect[Cause](ctx, tx, parkedSQL); err != nil {
			return err
		}
		if b.Waiting, err = collect[Cause](ctx, tx, waitingSQL); err != nil {
			return err
		}
		oldest, err := collect[Open](ctx, tx, oldestSQL)
		if len(oldest) > 0 {
			b.Oldest = &oldest[0]
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is open: %w", err)
	}
	return b, nil
}
