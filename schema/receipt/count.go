package receipt

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Rejections is a number of refused requests of one class, at one source, on one day (UTC).
type Rejections struct {
	Source string
	Class  string
	Day    time.Time
	Count  int64
}

const countRejectionsSQL = `
insert into rejection_counts (source, class, day, count)
select source, class, day, sum(count)::bigint
  from unnest($1::text[], $2::text[], $3::date[], $4::bigint[]) as t(source, class, day, count)
 group by source, class, day order by source, class, day
on conflict (source, class, day) do update set count = rejection_counts.count + excluded.count`

// CountRejections adds counts that were summed in memory. After an error they may or may not have
// been added: the counts inform, they decide nothing.
func (s *Store) CountRejections(ctx context.Context, counts []Rejections) error {
	if len(counts) == 0 {
		return nil
	}
	n := len(counts)
	sources, classes, days, sums := make([]string, n), make([]string, n), make([]time.Time, n), make([]int64, n)
	for i, c := range counts {
		sources[i], classes[i], days[i], sums[i] = c.Source, c.Class, c.Day, c.Count
	}
	return s.exec(ctx, "count rejections", countRejectionsSQL, sources, classes, days, sums)
}

// SecretUse is how often a source's secret has admitted a request, and when last.
type SecretUse struct {
	Source   string
	Label    string
	Uses     int64
	LastUsed time.Time
}

const countSecretUsesSQL = `
insert into secret_uses (source, label, uses, last_used)
select * from unnest($1::text[], $2::text[], $3::bigint[], $4::timestamptz[])
on conflict (source, label) do update
   set uses = secret_uses.uses + excluded.uses, last_used = greatest(secret_uses.last_used, excluded.last_used)`

// CountSecretUses adds uses that were summed in memory. uses must have each (source, label) once.
func (s *Store) CountSecretUses(ctx context.Context, uses []SecretUse) error {
	if len(uses) == 0 {
		return nil
	}
	uses = slices.SortedFunc(slices.Values(uses), func(a, b SecretUse) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Label, b.Label))
	})
	n := len(uses)
	sources, labels, counts, last := make([]string, n), make([]string, n), make([]int64, n), make([]time.Time, n)
	for i, u := range uses {
		sources[i], labels[i], counts[i], last[i] = u.Source, u.Label, u.Uses, u.LastUsed
	}
	return s.exec(ctx, "count secret uses", countSecretUsesSQL, sources, labels, counts, last)
}

const secretUsesSQL = `select source, label, uses, last_used from secret_uses order by source, label`

// SecretUses returns how often each secret has admitted a request, and when last. A secret without any use is
// missing. The uses of the last few seconds may be missing, too.
func (s *Store) SecretUses(ctx context.Context) ([]SecretUse, error) {
	return query[SecretUse](ctx, s, "read uses of secrets", secretUsesSQL)
}
