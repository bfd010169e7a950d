package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
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
func (r Reader) SourcePauses(ctx context.Context) ([]SourcePause, error) {
	return schema.List[SourcePause](ctx, r.db, "read which sources are paused", sourcePausesSQL)
}

const letInSQL = `
update receipts r set dispatch_at = now(), reason = '', updated_at = now()
  from (select d.id from receipts d where d.source = $1 and d.status = 'received' and d.dispatch_at = 'infinity'
           and not exists (select from pauses p where p.kind = 'source' and p.name = d.source and p.until is null)
         order by d.id limit $2 for no key update skip locked) oldest
 where r.id = oldest.id`

// LetIn makes due up to limit receipts that waited for the end of a source's pause, the oldest first.
func (s *Store) LetIn(ctx context.Context, source string, limit int) error {
	return schema.Exec(ctx, s.db, "let in what has waited for source "+source, letInSQL, source, limit)
}

const sourceWaitersSQL = `select source, count(*) from receipts where status = 'received' and dispatch_at = 'infinity' group by 1`

// SourceWaiters counts the receipts that wait for the end of each source's pause.
func (r Reader) SourceWaiters(ctx context.Context) (map[string]int, error) {
	return schema.Map[string, int](ctx, r.db, "count what waits for paused sources", sourceWaitersSQL)
}
