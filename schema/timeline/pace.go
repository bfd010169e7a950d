package timeline

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Pace is the recent rate of deliveries and the speed of effects.
type Pace struct {
	// Hours are the last 24 hours, the current one last.
	Hours []Hour
	// Speeds has an entry for each kind of effect of the newest [MostPaced] events.
	Speeds []Speed
}

// Hour counts the authentic deliveries of one hour.
type Hour struct {
	At         time.Time
	Deliveries int64
}

// Speed is how long the effects of one kind took, in seconds from the receipt of their event. Median is the time within
// which half of them were done, Most the time for 19 of 20.
type Speed struct {
	Kind         string
	Effects      int
	Median, Most float64
}

// MostPaced is the number of events, newest first, from which a pace is computed.
const MostPaced = 1000

// hoursSQL reads the counts per hour, which the ingress stores for some weeks. It does not read receipts.
const hoursSQL = `
select h.at, coalesce(sum(s.count), 0)::bigint as deliveries
  from generate_series(date_trunc('hour', now()) - interval '23 hours', now(), interval '1 hour') h (at)
  left join source_hours s on s.hour = h.at
 group by h.at order by h.at`

const speedsSQL = `
with newest as materialized (select id, received_at from receipts order by id desc limit $1)
select kind, count(*)::int as effects, percentile_cont(0.5) within group (order by took) as median,
       percentile_cont(0.95) within group (order by took) as most
  from newest n
 cross join lateral (select e.kind, extract(epoch from e.done_at - n.received_at)::float8 as took from effects e
                      where e.receipt_id = n.id and e.state = 'done' and e.done_at is not null offset 0) done
 group by kind order by kind`

// ReadPace returns the current pace.
func ReadPace(ctx context.Context, db schema.Querier) (p Pace, err error) {
	if p.Hours, err = schema.List[Hour](ctx, db, "count the deliveries by hour", hoursSQL); err == nil {
		p.Speeds, err = schema.List[Speed](ctx, db, "read how long effects took", speedsSQL, MostPaced)
	}
	return p, err
}

// Took is how long those calls of a sink took that the sink answered. It is computed from the newest [MostPaced]
// events, like [Speed].
type Took struct {
	Sink         string
	Median, Most float64
}

// tookSQL gets the sink of each kind of effect and mode as parameters.
const tookSQL = `
with newest as materialized (select id from receipts order by id desc limit $1)
select k.sink, percentile_cont(0.5) within group (order by took) as median, percentile_cont(0.95) within group (order by took) as most
  from newest n
 cross join lateral (select a.key, extract(epoch from a.ended_at - a.started_at)::float8 as took from attempts a
                      where a.receipt_id = n.id and a.outcome = 'done' offset 0) done
  join unnest($2::text[], $3::text[], $4::text[]) k (kind, mode, sink) on k.kind = split_part(done.key, ':', 1) and k.mode = split_part(done.key, ':', 3)
 group by k.sink order by k.sink`

// ReadTook returns how long calls took, by sink. kinds, modes and sinks have equal lengths: the effects of kinds[n] in
// modes[n] call sinks[n].
func ReadTook(ctx context.Context, db schema.Querier, kinds, modes, sinks []string) ([]Took, error) {
	return schema.List[Took](ctx, db, "read how long calls took", tookSQL, MostPaced, kinds, modes, sinks)
}
