package receipt

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/schema"
)

// Lease is how long only one process may start the workflow of a receipt: the process that received the event, or that
// found the receipt due. If the start is not recorded within the lease, the receipt becomes due again. The lease is
// long enough for a slow start, so that no workflow is started twice, and short enough that a crash delays an event
// only by seconds.
const (
	Lease = 10 * time.Second
	lease = "interval '10 seconds'"
)

// dueSQL orders the receipts by the time since when they are due, oldest first. It postpones receipts of paused
// sources, so that they do not delay others.
const dueSQL = `
with ` + schema.Lazy + `
update receipts r set dispatch_at = case when due.pause is null then now() + ` + lease + ` else 'infinity' end,
       reason = coalesce('` + Paused + `: source ' || r.source || ' ' || due.pause, r.reason),
       updated_at = case when due.pause is null then r.updated_at else now() end
  from (select d.id, (select ` + pauseWords + ` from pauses p where p.kind = 'source' and p.name = d.source and p.until is null) as pause
          from receipts d where d.status = 'received' and d.dispatch_at <= now()
         order by d.dispatch_at limit $1 for no key update skip locked) due cross join lazy
 where r.id = due.id
returning ` + PendingColumns + `, due.pause is not null as paused`

// PendingColumns are the columns of receipts r for a [Pending].
const PendingColumns = `
    r.id::text as receipt_id, r.source, r.provider, r.account, r.mode, r.event_id, r.type, r.object_id, r.correlation_id as correlation, r.received_at, r.workflow_id, r.relay_of, r.rerun,
    coalesce((select b.trace from receipt_bodies b where b.receipt_id = r.id), '') as trace`

// Due leases up to limit receipts without a started workflow, for the time [Lease]. Receipts of a paused source wait
// until [Store.Resume] is called.
func (s *Store) Due(ctx context.Context, limit int) ([]Pending, error) {
	return unpaused(ctx, s.db, "take due receipts", dueSQL, limit, func(row struct {
		Pending
		Paused bool
	}) (Pending, bool) {
		return row.Pending, row.Paused
	})
}

// unpaused leases up to limit rows and returns the rows that do not belong to a paused source. If all of them do, it
// leases the next rows.
func unpaused[Row, T any](ctx context.Context, db schema.Querier, doing, sql string, limit int,
	read func(Row) (_ T, paused bool)) (due []T, err error) {
	for {
		found, err := schema.List[Row](ctx, db, doing, sql, limit)
		if err != nil {
			return nil, err
		}
		for _, row := range found {
			if of, paused := read(row); !paused {
				due = append(due, of)
			}
		}
		if len(due) > 0 || len(found) < limit {
			return due, nil
		}
	}
}

const releaseSQL = `
with ` + schema.Lazy + `
update receipts r set dispatch_at = now()
  from (select id from receipts where id = any($1::uuid[]) and status = (select 'received') order by id for no key update) held cross join lazy
 where r.id = held.id` // see [schema.Handling]

// Release ends the caller's [Lease] of receipts. They are then due again.
func (s *Store) Release(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	uuids := make([][16]byte, len(ids))
	for i, id := range ids {
		u, err := ParseID(id)
		if err != nil {
			return err
		}
		uuids[i] = u
	}
	return schema.Exec(ctx, s.db, "release due receipts", releaseSQL, uuids)
}
