package receipt

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Failures counts the 5xx answers to authentic deliveries of a source since its last 2xx answer.
type Failures struct {
	Source string
	// Failures is the number of these answers. Since and Last are the times of the first and the last of them.
	Failures    int64
	Since, Last time.Time
}

// Answers summarizes how one process answered the authentic deliveries of a source since it last recorded them.
type Answers struct {
	Failures
	// Recovered is set if one of the answers was a 2xx. Failures then counts only the failures after it.
	Recovered bool
}

// And returns a with one more answer.
func (a Answers) And(ok bool, at time.Time) Answers {
	switch {
	case ok:
		a.Recovered, a.Failures.Failures, a.Since = true, 0, at
	case a.Failures.Failures == 0:
		a.Since = at
		fallthrough
	default:
		a.Failures.Failures++
	}
	a.Last = at
	return a
}

// Then returns the summary of a and of later answers.
func (a Answers) Then(later Answers) Answers {
	if later.Last.IsZero() {
		return a
	}
	if later.Recovered || a.Failures.Failures == 0 {
		later.Recovered = later.Recovered || a.Recovered
		return later
	}
	a.Failures.Failures += later.Failures.Failures
	a.Last = later.Last
	return a
}

// countAnswersSQL writes nothing as long as no answer fails.
const countAnswersSQL = `
insert into source_failures as f (source, failures, since, last)
select source, failures, since, last
  from unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[]) as i(source, failures, since, last)
 where failures > 0 or exists (select from source_failures h where h.source = i.source and h.failures > 0)
 order by source
on conflict (source) do update set
    failures = excluded.failures + case when f.source = any($5) then 0 else f.failures end,
    since = case when f.source = any($5) or f.failures = 0 then excluded.since else f.since end, last = excluded.last`

var answerColumns = schema.ColumnsOf[Failures](countAnswersSQL)

// CountAnswers records the answers of a process, one entry per source. If it fails, nothing is recorded.
func (s *Store) CountAnswers(ctx context.Context, answers []Answers) error {
	var failures []Failures
	var recovered []string
	for _, a := range answers {
		if failures = append(failures, a.Failures); a.Recovered {
			recovered = append(recovered, a.Source)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return schema.Exec(ctx, s.db, "count answers", countAnswersSQL, append(answerColumns.Args(failures), recovered)...)
}

const failingSQL = `
select source, failures, since, last from source_failures where failures > 0 and source = any($1) order by source`

// Failing returns the failures of the sources with a failed last answer.
func Failing(ctx context.Context, db schema.Querier, sources []string) ([]Failures, error) {
	return schema.List[Failures](ctx, db, "read the failures of sources", failingSQL, sources)
}
