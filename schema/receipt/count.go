package receipt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Counted is what a [SourceCount] counts.
type Counted string

const (
	// Refused counts the refused requests of a class.
	Refused Counted = "refused"
	// Admitted counts the requests that a secret has admitted, by its label.
	Admitted Counted = "admitted"
)

// SourceCount is a number of requests at one source on one day (UTC), and when the last of them came.
type SourceCount struct {
	Source string
	What   Counted
	// Name is a class, or the label of a secret.
	Name  string
	Day   time.Time
	Count int64
	Last  time.Time
}

const countSourcesSQL = `
insert into source_counts (source, what, name, day, count, last)
select * from unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::bigint[], $6::timestamptz[])
on conflict (source, what, name, day) do update
   set count = source_counts.count + excluded.count, last = greatest(source_counts.last, excluded.last)`

// CountSources adds counts that were summed in memory; each source, kind, name and day stands there once. After an
// error they may or may not have been added: the counts inform, they decide nothing.
func (s *Store) CountSources(ctx context.Context, counts []SourceCount) error {
	if len(counts) == 0 {
		return nil
	}
	// All writers lock the rows in one order.
	counts = slices.SortedFunc(slices.Values(counts), func(a, b SourceCount) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name),
			a.Day.Compare(b.Day))
	})
	var texts [3][]string
	var days, last []time.Time
	var sums []int64
	for _, c := range counts {
		for i, text := range []string{c.Source, string(c.What), c.Name} {
			texts[i] = append(texts[i], text)
		}
		days, sums, last = append(days, c.Day), append(sums, c.Count), append(last, c.Last)
	}
	return s.exec(ctx, "count requests", countSourcesSQL, texts[0], texts[1], texts[2], days, sums, last)
}

// SecretUse is how often a source's secret has admitted a request, and when last.
type SecretUse struct {
	Source   string
	Label    string
	Uses     int64
	LastUsed time.Time
}

const secretUsesSQL = `
select source, name as label, sum(count)::bigint as uses, max(last) as last_used
  from source_counts where what = 'admitted' group by source, name order by source, name`

// SecretUses returns how often each secret has admitted a request, and when last. A secret without any use is
// missing. The uses of the last few seconds may be missing, too.
func (s *Store) SecretUses(ctx context.Context) ([]SecretUse, error) {
	return query[SecretUse](ctx, s, "read uses of secrets", secretUsesSQL)
}

// Silence is a source that has delivered nothing since Last.
type Silence struct {
	Source string
	Last   time.Time
}

// silentSQL takes ten deliveries on each of fourteen days before the last one for a habit.
const silentSQL = `
with seen as materialized (
    select source, day, sum(count) as count, max(last) as last from source_counts where what = 'admitted' and source = any($1) group by source, day
), newest as (
    select source, max(last) as last from seen group by source
)
select source, last from newest n
 where last < now() - interval '24 hours'
   and (select count(*) from seen s where s.source = n.source and s.count >= 10
           and s.day between (n.last at time zone 'utc')::date - 14 and (n.last at time zone 'utc')::date - 1) = 14
 order by source`

// Silent returns those of the sources that have delivered ten times or more on each of fourteen days, and nothing for
// 24 hours since.
func Silent(ctx context.Context, pool *pgxpool.Pool, sources []string) ([]Silence, error) {
	rows, _ := pool.Query(ctx, silentSQL, sources) // CollectRows returns its error
	silent, err := pgx.CollectRows(rows, pgx.RowToStructByName[Silence])
	if err != nil {
		return nil, fmt.Errorf("look for silent sources: %w", err)
	}
	return silent, nil
}
