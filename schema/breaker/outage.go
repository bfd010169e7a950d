package breaker

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Affected is an event with an effect that an outage delayed.
type Affected struct{ ReceiptID, Mode string }

// affectsSQL uses the newest outage of the sink. A worker may call it just after the end of an outage, because it reads
// the breakers once per second. The rows are inserted in a fixed order, so that two workers cannot deadlock.
const affectsSQL = `
insert into outage_events (outage, receipt_id, mode)
select o.id, e.receipt_id, e.mode
  from (select id from outages where sink = $1 order by since desc, id desc limit 1) o
 cross join unnest($2::uuid[], $3::text[]) e (receipt_id, mode) order by e.receipt_id
    on conflict do nothing`

// Affects records that the newest outage of a sink affects the events. An outage contains each event once. Affects
// omits an event without a receipt, and does nothing if the sink has never had an outage.
func (s *Store) Affects(ctx context.Context, sink string, events ...Affected) error {
	var receipts, modes []string
	for _, e := range events {
		if e.ReceiptID != "" {
			receipts, modes = append(receipts, e.ReceiptID), append(modes, e.Mode)
		}
	}
	if len(receipts) == 0 {
		return nil
	}
	return schema.Exec(ctx, s.pool, "record the events of the outage of "+sink, affectsSQL, sink, receipts, modes)
}

// Outage is a period in which a sink was down, with the events of one mode that it affected.
type Outage struct {
	ID int64 `json:"id"`
	// Sink is the name of the sink, with ":live" or ":test" if the sink is configured per mode.
	Sink string `json:"sink"`
	// Since is when the breaker opened, and Until when it closed. Until is null during the outage. Seconds is the
	// duration until then, or until now.
	Since   time.Time  `json:"began_at"`
	Until   *time.Time `json:"ended_at"`
	Seconds int64      `json:"duration_seconds"`
	// Reason describes the first failures. Answer is the text of the sink, with e-mail addresses erased, or "".
	Reason string `json:"reason"`
	Answer string `json:"answer"`
	// Mode is the mode of the counted events. An outage can affect events of both modes.
	Mode string `json:"mode"`
	// Events counts the events with an effect that waited for the sink or failed, and Accounts their accounts.
	Events   int `json:"events"`
	Accounts int `json:"accounts" db:"account_count"`
	// Money adds up the amounts of the main objects in minor units by currency. If several events are about one object,
	// it contains the newest amount of the object once.
	Money map[string]int64 `json:"money"`
	// Complete is false if the outage affected more events than the list counts. Events, Accounts and Money then
	// describe the newest of them.
	Complete bool `json:"complete"`
}

// OutageFilter filters a list of outages. An outage must match all fields that are set.
type OutageFilter struct {
	// Sink is the name of a sink. A name without a mode also matches the sink of each mode.
	Sink string
	// Since and Until match the outages that lasted at some time in this period.
	Since, Until time.Time
	// Mode is the mode of the events to count. The sinks of the other mode are omitted. Mode is required.
	Mode string
	// After is the last outage of the previous page: its ID and Since.
	After Outage
	Limit int
}

// mostCounted is the maximum number of events that the list counts per outage, so that a page of long outages does not
// exceed the timeout of the console.
const mostCounted = 10_000

// outages reads the newest outages of each sink. The outages of one sink follow each other, so only the last outage
// that began before $2 can have lasted until then.
var outages = `
with listed as (
    select o.id, o.sink, o.since, o.until, o.reason, o.answer
      from breakers b
     cross join lateral (
           select o.* from outages o
            where o.sink = b.sink and o.since < $3 and (o.since, o.id) < ($4, $5)
              and o.since >= coalesce((select max(e.since) from outages e where e.sink = b.sink and e.since <= $2), $2)
              and coalesce(o.until, 'infinity') > $2
            order by o.since desc, o.id desc limit $6) o
     where ($1 = '' or b.sink = $1 or starts_with(b.sink, $1 || ':'))
       and not b.sink like '%:' || case $7::text when 'live' then 'test' else 'live' end
     order by o.since desc, o.id desc limit $6
)
select l.id, l.sink, l.since, l.until, extract(epoch from coalesce(l.until, now()) - l.since)::bigint as seconds, l.reason, l.answer,
       $7::text as mode, least(found.events, $8::int) as events, found.account_count, found.money, found.events <= $8 as complete
  from listed l
 cross join lateral (
       with hit as materialized (
           select e.receipt_id, about.object, about.account, about.amount, coalesce(about.currency, '') as currency
             from (select receipt_id from outage_events where outage = l.id and mode = $7
                    order by receipt_id desc limit $8::int + 1) e
             left join lateral (select s.object, s.account, s.amount, s.currency from event_subjects s
                                 where s.receipt_id = e.receipt_id and s.main limit 1) about on true
       ), once as (
           select distinct on (object) amount, currency from hit where amount is not null order by object, receipt_id desc
       ), sums as (select currency, ` + schema.Total(`amount`) + ` as amount from once group by currency)
       select (select count(*) from hit)::int as events,
              (select count(distinct account) from hit where account <> '')::int as account_count,
              (select coalesce(jsonb_object_agg(currency, amount), '{}') from sums) as money) found
 order by l.since desc, l.id desc`

// Outages returns the outages that match f, the newest first. The cost depends on the number of affected events of the
// returned outages.
func Outages(ctx context.Context, db schema.Querier, f OutageFilter) ([]Outage, error) {
	return schema.List[Outage](ctx, db, "list outages", outages, f.Sink, f.Since, schema.Until(f.Until),
		schema.Until(f.After.Since), f.After.ID, f.Limit, f.Mode, mostCounted)
}
