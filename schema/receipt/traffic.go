package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

// Traffic is the recent traffic of a source.
type Traffic struct {
	Source string
	// Hour counts the admitted deliveries of the last whole hour, Day the deliveries of the last 24 hours.
	Hour, Day int64
	// Refused counts the rejected requests since yesterday (UTC), by class.
	Refused map[string]int64
}

const trafficSQL = `
select s.source,
       coalesce((select h.count from source_hours h where h.source = s.source and h.hour = date_trunc('hour', now()) - interval '1 hour'), 0) as hour,
       coalesce((select sum(h.count) from source_hours h where h.source = s.source and h.hour > now() - interval '24 hours'), 0)::bigint as day,
       coalesce((select jsonb_object_agg(c.name, c.count)
                   from (select name, sum(count) as count from source_counts
                          where source = s.source and what = 'refused' and day >= (now() at time zone 'utc')::date - 1 group by name) c), '{}') as refused
  from unnest($1::text[]) s (source) order by s.source`

// ReadTraffic returns the traffic of each of the sources.
func ReadTraffic(ctx context.Context, db schema.Querier, sources []string) ([]Traffic, error) {
	return schema.List[Traffic](ctx, db, "read the traffic of the sources", trafficSQL, sources)
}
