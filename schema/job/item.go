package job

import (
	"context"
	"errors"

	"github.com/pawlhq/pawl/schema"
)

// takeSQL selects items with failed attempts last, so that they do not delay the other items.
const takeSQL = `
select i.target, i.name, i.seen, i.attempts, i.result, i.note, i.ended_at
  from job_items i join jobs j on j.id = i.job
 where i.job = $1 and j.state = (select 'running') and i.result = '' order by i.attempts, i.target limit $2`

// Take returns up to most items of a job without a result, or no items if the job is not running. It leases nothing, so
// only one caller at a time may work on a job.
func (s *Store) Take(ctx context.Context, id string, most int) ([]Item, error) {
	return schema.List[Item](ctx, s.pool, "read the items of job "+id, takeSQL, id, most)
}

// holdsSQL locks the row of the job until the transaction ends.
const holdsSQL = `
select true from jobs j join job_items i on i.job = j.id
 where j.id = $1 and i.target = $2 and i.result = '' and j.state in ('running', 'paused') for share of j`

// Holds reports whether a job that is not finished contains the item and the item has no result. It locks the row of
// the job until the caller's transaction ends.
func Holds(ctx context.Context, db schema.Querier, id, target string) (bool, error) {
	holds, err := schema.One[bool](ctx, db, "read the item "+target+" of job "+id, holdsSQL, id, target)
	if errors.Is(err, schema.ErrNotFound) {
		return false, nil
	}
	return holds, err
}

const endSQL = `
with ended as (
    update job_items set result = $3, note = $4, ended_at = now() where job = $1 and target = $2 and result = '' returning 1
)
update jobs
   set done = done + ($3 = 'done')::int, refused = refused + ($3 = 'refused')::int, failed = failed + ($3 = 'failed')::int, changed_at = now()
 where id = $1 and exists (select from ended)`

// End records the result of an item. A second call changes nothing: the first result is kept.
func (s *Store) End(ctx context.Context, id, target string, r Result, note string) error {
	return schema.Exec(ctx, s.pool, "record the result of "+target+" in job "+id, endSQL, id, target, string(r), note)
}

const triedSQL = `update job_items set attempts = attempts + 1, note = $3 where job = $1 and target = $2 and result = ''`

// Tried records that an attempt of an item failed, and why. The item is retried after all other items.
func (s *Store) Tried(ctx context.Context, id, target, note string) error {
	return schema.Exec(ctx, s.pool, "record a try of "+target+" in job "+id, triedSQL, id, target, note)
}

// itemsSQL returns the items that a person should look at first.
const itemsSQL = `
select target, name, seen, attempts, result, note, ended_at
  from job_items where job = $1 and ($2 = '' or result = $2 or $2 = 'open' and result = '')
 order by array_position(array['failed', 'refused', '', 'done'], result), target limit $3`

// Items returns items of a job, the failed and refused items first. only selects the items with this result, or with
// "open" the items without a result; "" selects all items.
func (s *Store) Items(ctx context.Context, id, only string, limit int) ([]Item, error) {
	return schema.List[Item](ctx, s.pool, "list the items of job "+id, itemsSQL, id, only, limit)
}

// standingSQL groups events by their current status, and reconciled accounts by the first word of the note.
const standingSQL = `
select coalesce(r.status, split_part(i.note, ':', 1)) as status, coalesce(r.reason_code, '') as reason_code, count(*)::int as events
  from jobs j join job_items i on i.job = j.id
  left join lateral (select r.id, r.status, r.reason_code from receipts r
                      where r.id = case when j.action not in ('recompute', 'reconcile', 'announce', 'close-task', 'apply-rules') then i.target::uuid end
                     offset 0) r on true
 where j.id = $1 and i.result = 'done' and (r.id is not null or j.action = 'reconcile') group by 1, 2 order by 3 desc, 1, 2`

// Standing is the number of events with one status and reason, or of reconciled accounts with one outcome.
type Standing struct {
	Status     string `json:"status"`
	ReasonCode string `json:"reason_code"`
	Events     int    `json:"events"`
}

// Standing counts the events of the job that have a result, by their current status and reason.
func (s *Store) Standing(ctx context.Context, id string) ([]Standing, error) {
	return schema.List[Standing](ctx, s.pool, "count the events of job "+id, standingSQL, id)
}
