package receipt

import (
	"context"
	"fmt"
	"time"
)

// dueSQL orders by due time, so that what was missed longest is started first.
const dueSQL = `
update receipts r set dispatch_at = now() + $2::interval
  from (select id from receipts where status = 'received' and dispatch_at <= now()
         order by dispatch_at limit $1 for no key update skip locked) due
 where r.id = due.id
returning r.id::text as receipt_id, r.provider, r.account, r.mode, r.event_id, r.type, r.object_id, r.received_at, r.workflow_id`

// Due takes up to limit receipts whose workflow nobody has started. For the length of lease no
// other sweep takes them; after it they are due again, unless they have been marked as started.
func (s *Store) Due(ctx context.Context, limit int, lease time.Duration) ([]Pending, error) {
	due, err := query[Pending](ctx, s, dueSQL, limit, lease)
	if err != nil {
		return nil, fmt.Errorf("take due receipts: %w", err)
	}
	return due, nil
}

const releaseSQL = `
update receipts r set dispatch_at = now()
  from (select id from receipts where id = any($1::uuid[]) and status = (select 'received') order by id for no key update) held
 where r.id = held.id` // see [schema.PlanByKey]

// Release makes receipts that [Store.Due] took due again at once: their start has failed for a
// reason that will pass.
func (s *Store) Release(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	uuids := make([][16]byte, len(ids))
	for i, id := range ids {
		u, err := parseID(id)
		if err != nil {
			return err
		}
		uuids[i] = u
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, releaseSQL, uuids); err != nil {
		return fmt.Errorf("release due receipts: %w", err)
	}
	return nil
}

const backlogSQL = `select count(*), min(received_at) from receipts where status = 'received'`

// Backlog is how many receipts wait for their workflow.
type Backlog struct {
	Count int
	// Oldest is when the one that waits longest came in; zero when none waits.
	Oldest time.Time
}

// Backlog counts the receipts that wait for their workflow.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	var b Backlog
	var oldest *time.Time
	if err := s.pool.QueryRow(ctx, backlogSQL).Scan(&b.Count, &oldest); err != nil {
		return Backlog{}, fmt.Errorf("count the backlog: %w", err)
	}
	if oldest != nil {
		b.Oldest = *oldest
	}
	return b, nil
}
