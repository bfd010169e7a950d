package receipt

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Repeated describes the parked events of a source that the provider delivers again and again.
type Repeated struct {
	Source, Mode string
	Events       int
	// Deliveries is the number of repeated deliveries in the last hour. Since is the time of the first of them.
	Deliveries int
	Since      time.Time
	// EventID is the event with the most repeated deliveries.
	EventID string
}

// leastRepeated is how many repeated deliveries within an hour are too many. A provider sends fewer if it only missed
// an answer.
const leastRepeated = 3

const repeatedSQL = `
with parked as (
    select r.source, r.mode, r.event_id, d.deliveries, d.since from receipts r cross join lateral (
           select count(*) as deliveries, min(received_at) as since from redeliveries
            where receipt_id = r.id and received_at > now() - interval '1 hour' and outcome = 'duplicate') d
     where r.status in ('needs_review', 'dead') and r.duplicates >= $1 and d.deliveries >= $1)
select source, mode, count(*)::int as events, sum(deliveries)::int as deliveries, min(since) as since,
       (array_agg(event_id order by deliveries desc, event_id))[1] as event_id
  from parked group by source, mode order by source, mode`

// ReadRepeated returns the sources with parked events that the provider still delivers.
func ReadRepeated(ctx context.Context, db schema.Querier) ([]Repeated, error) {
	return schema.List[Repeated](ctx, db, "read the repeated parked events", repeatedSQL, leastRepeated)
}
