package receipt

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pauseWords say who began pause p, when and why. They follow a source's name.
const pauseWords = `'is paused since ' || to_char(p.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' by ' || p.who || ': ' || p.why`

// SourcePause is a source that is paused, or was before.
type SourcePause struct {
	Name   string
	Paused bool
	// Waits says that receipts wait for the end of its pause.
	Waits bool
}

const sourcePausesSQL = `
select p.name, bool_or(p.until is null) as paused,
       exists (select from receipts r where r.source = p.name and r.status = 'received' and r.dispatch_at = 'infinity') as waits
  from pauses p where p.kind = 'source' group by p.name`

// SourcePauses returns the sources that are paused, or were before.
func (s *Store) SourcePauses(ctx context.Context) ([]SourcePause, error) {
	list, err := query[SourcePause](ctx, s, sourcePausesSQL)
	if err != nil {
		return nil, fmt.Errorf("read which sources are paused: %w", err)
	}
	return list, nil
}

const letInSQL = `
update receipts r set dispatch_at = now(), reason = '', updated_at = now()
  from (select d.id from receipts d where d.source = $1 and d.status = 'received' and d.dispatch_at = 'infinity'
           and not exists (select from pauses p where p.kind = 'source' and p.name = d.source and p.until is null)
         order by d.id limit $2 for no key update skip locked) oldest
 where r.id = oldest.id`

// LetIn makes due up to limit receipts that waited for the end of a source's pause, the oldest first.
func (s *Store) LetIn(ctx context.Context, source string, limit int) error {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, letInSQL, source, limit); err != nil {
		return fmt.Errorf("let in what has waited for source %s: %w", source, err)
	}
	return nil
}

const sourceWaitersSQL = `select source, count(*) from receipts where status = 'received' and dispatch_at = 'infinity' group by 1`

// SourceWaiters counts the receipts that wait for the end of each source's pause.
func (s *Store) SourceWaiters(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, sourceWaitersSQL)
	if err != nil {
		return nil, fmt.Errorf("count what waits for paused sources: %w", err)
	}
	counts := map[string]int{}
	var source string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&source, &n}, func() error { counts[source] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count what waits for paused sources: %w", err)
	}
	return counts, nil
}
