package retention

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// pressure measures whether deliveries are answered slowly. The ingress processes count the authentic deliveries.
// They count a delivery as slow if its answer came later than receipt.SlowAnswer, or if it was not committed. If more
// than one in a hundred is slow between two looks, the 99th percentile is above that bound.
type pressure struct {
	db    schema.Querier
	every time.Duration

	at   time.Time // the time of the last look
	last answers
	slow bool
}

// answers counts the deliveries of yesterday and today.
type answers struct{ Admitted, Slow int64 }

const answersSQL = `
select coalesce(sum(count) filter (where what = 'admitted'), 0)::bigint as admitted,
       coalesce(sum(count) filter (where what = 'slow'), 0)::bigint as slow
  from source_counts where day >= (now() at time zone 'utc')::date - 1`

// look reports whether deliveries were answered slowly between the last two measurements. It measures again if the last
// measurement is old enough.
func (p *pressure) look(ctx context.Context) (slow bool, err error) {
	if time.Since(p.at) < p.every {
		return p.slow, nil
	}
	now, err := schema.One[answers](ctx, p.db, "read how fast deliveries are answered", answersSQL)
	if err != nil {
		return false, err
	}
	// The counts fall at midnight, when a day leaves the sum. The next look then measures again.
	more := answers{now.Admitted - p.last.Admitted, now.Slow - p.last.Slow}
	p.slow = !p.at.IsZero() && more.Slow > 0 && more.Slow*100 > more.Admitted
	p.at, p.last = time.Now(), now
	return p.slow, nil
}
