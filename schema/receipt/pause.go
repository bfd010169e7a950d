package receipt

import (
	"context"

	"github.com/pawlhq/pawl/schema"
)

// pauseWords describes pause p: its time, person and reason. The text is appended to the name of a source.
const pauseWords = `'is paused since ' || to_char(p.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' by ' || p.who || ': ' || p.why`

// SourcePause is a source that is paused or was paused before.
type SourcePause struct {
	Name   string
	Paused bool
	// Waits is set if receipts wait for the end of the pause.
	Waits bool
}

const sourcePausesSQL = `
select p.name, bool_or(p.until is null) as paused,
       exists (select from receipts r where r.source = p.name and r.status = 'received' and r.dispatch_at = 'infinity') as waits
  from pauses p where p.kind = 'source' group by p.name`

// SourcePauses returns the sources that are paused or were paused before.
func (r Reader) SourcePauses(ctx context.Context) ([]SourcePause, error) {
	return schema.List[SourcePause](ctx, r.db, "read which sources are paused", sourcePausesSQL)
}

const resumeSQL = `
update receipts r set dispatch_at = now(), reason = '', updated_at = now()
  from (select d.id from receipts d where d.source = $1 and d.status = 'received' and d.dispatch_at = 'infinity'
           and not exists (select from pauses p where p.kind = 'source' and p.name = d.source and p.until is null)
         order by d.id limit $2 for no key update skip locked) oldest
 where r.id = oldest.id`

// Resume makes up to limit receipts due that waited for the end of a source's pause, oldest first.
func (s *Store) Resume(ctx context.Context, source string, limit int) error {
	return schema.Exec(ctx, s.db, "resume receipts of source "+source, resumeSQL, source, limit)
}

const sourceWaitersSQL = `select source, count(*) from receipts where status = 'received' and dispatch_at = 'infinity' group by 1`

// SourceWaiters counts the receipts that wait for the end of a pause, by source.
func (r Reader) SourceWaiters(ctx context.Context) (map[string]int, error) {
	return schema.Map[string, int](ctx, r.db, "count receipts of paused sources", sourceWaitersSQL)
}
