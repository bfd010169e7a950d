package receipt

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Counted is the kind of a [SourceCount].
type Counted string

const (
	// Refused counts rejected requests by their class.
	Refused Counted = "refused"
	// Admitted counts admitted requests by the label of the secret that verified them.
	Admitted Counted = "admitted"
	// Slow counts admitted requests that were answered later than [SlowAnswer], or that were not committed. It has no
	// name.
	Slow Counted = "slow"
)

// SlowAnswer is the time from the verification of a request to its answer that the 99th percentile should not exceed.
// Background work waits while it does. Every provider waits at least four times as long.
const SlowAnswer = 250 * time.Millisecond

// SourceCount is the number of requests of one kind at one source on one day (UTC), and the time of the last one.
type SourceCount struct {
	Source string
	What   Counted
	// Name is a class of rejections or the label of a secret. It is "" for Slow.
	Name  string
	Day   time.Time
	Count int64
	Last  time.Time
}

const countSourcesSQL = `
with counted as (
    select * from unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::bigint[], $6::timestamptz[])
               as i(source, what, name, day, count, last)
), hours as (
    insert into source_hours (source, hour, count)
    select source, date_trunc('hour', last), sum(count) from counted where what = 'admitted' group by 1, 2 order by 1, 2
    on conflict (source, hour) do update set count = source_hours.count + excluded.count
)
insert into source_counts (source, what, name, day, count, last) select * from counted
on conflict (source, what, name, day) do update
   set count = source_counts.count + excluded.count, last = greatest(source_counts.last, excluded.last)`

var countColumns = schema.ColumnsOf[SourceCount](countSourcesSQL)

// CountSources adds counts that were summed in memory. counts must not contain the same source, kind, name and day
// twice. If CountSources fails, the counts may or may not have been added. Nothing depends on their accuracy.
func (s *Store) CountSources(ctx context.Context, counts []SourceCount) error {
	if len(counts) == 0 {
		return nil
	}
	// All writers lock the rows in this order.
	counts = slices.SortedFunc(slices.Values(counts), func(a, b SourceCount) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name),
			a.Day.Compare(b.Day))
	})
	return schema.Exec(ctx, s.db, "count requests", countSourcesSQL, countColumns.Args(counts)...)
}

// countsKept is how long the counts of a name are kept, measured back from the last day with a count. hoursKept is the
// same for the hours of a source, because [Silent] reads four weeks.
const (
	countsKept = 90 * 24 * time.Hour
	hoursKept  = 5 * 7 * 24 * time.Hour
)

// trimCountsSQL measures from the last row of a name and not from today. The last use of a secret therefore stays
// known, and so do the active weeks of a source that has become silent.
const trimCountsSQL = `
with hours as (
    delete from source_hours h
     using (select source, max(hour) as last from source_hours group by source) l
     where l.source = h.source and h.hour < l.last - $2::interval
)
delete from source_counts c
 using (select source, what, name, max(day) as last from source_counts group by source, what, name) l
 where (l.source, l.what, l.name) = (c.source, c.what, c.name) and c.day < l.last - $1::interval`

// TrimCounts deletes counts that are no longer needed.
func TrimCounts(ctx context.Context, db schema.Execer) error {
	return schema.Exec(ctx, db, "trim counts", trimCountsSQL, countsKept, hoursKept)
}

// SecretUse is the number of requests that a secret admitted in the 90 days before its last use.
type SecretUse struct {
	Source   string
	Label    string
	Uses     int64
	LastUsed time.Time
}

const secretUsesSQL = `
select source, name as label, sum(count)::bigint as uses, max(last) as last_used
  from source_counts where what = 'admitted' group by source, name order by source, name`

// SecretUses returns the uses of each secret. It omits secrets that were never used. The uses of the last few seconds
// may not be counted yet.
func (r Reader) SecretUses(ctx context.Context) ([]SecretUse, error) {
	return schema.List[SecretUse](ctx, r.db, "read uses of secrets", secretUsesSQL)
}

// Silence is a source without a delivery since Last. Expected is the number of deliveries that it should have had since
// then.
type Silence struct {
	Source   string
	Last     time.Time
	Expected int
}

// silentSQL computes how many deliveries a source should have had since its last one: as many as in the same hours of
// up to four earlier weeks. It ignores the hour of the last delivery and the current hour.
const silentSQL = `
with seen as (
    select source, min(hour) as first, max(hour) as last from source_hours where source = any($1) group by source
), known as (
    select source, last, least(4, floor(extract(epoch from last - first) / 604800))::int as weeks from seen
     where last - first >= interval '14 days'
), expected as (
    select k.source, k.weeks, coalesce(sum(h.count), 0) as count
      from known k cross join generate_series(1, k.weeks) w
      left join source_hours h on h.source = k.source and h.hour > k.last - w * interval '7 days'
                              and h.hour <= now() - w * interval '7 days' - interval '1 hour'
     group by k.source, k.weeks
)
select e.source, (e.count / e.weeks)::int as expected,
       (select max(c.last) from source_counts c where c.source = e.source and c.what = 'admitted') as last
  from expected e where e.count / e.weeks >= 10 order by e.source`

// Silent returns the sources that have been silent for too long. Such a source has delivered for at least 14 days, and
// at least ten deliveries were expected since the last one.
func Silent(ctx context.Context, db schema.Querier, sources []string) ([]Silence, error) {
	return schema.List[Silence](ctx, db, "find silent sources", silentSQL, sources)
}
