package receipt

import (
	"context"
	"fmt"
	"time"
)

// Lease is for how long a receipt belongs to one process, which starts its workflow meanwhile: to the one that has
// taken the event in, or to the one whose sweep has found the receipt due. After it the receipt is due (again), unless it
// has been marked as started. It is long enough for a start that takes its time and for its mark, so that no start is
// made twice, and short enough that a crash costs seconds.
const (
	Lease = 10 * time.Second
	lease = "interval '10 seconds'"
)

// dueSQL orders by due time, so that what was missed longest is started first.
const dueSQL = `
update receipts r set dispatch_at = now() + ` + lease + `
  from (select id from receipts where status = 'received' and dispatch_at <= now()
         order by dispatch_at limit $1 for no key update skip locked) due
 where r.id = due.id
returning r.id::text as receipt_id, r.provider, r.account, r.mode, r.event_id, r.type, r.object_id, r.received_at, r.workflow_id, r.relay_of`

// Due takes up to limit receipts whose workflow nobody has started, for the length of [Lease].
func (s *Store) Due(ctx context.Context, limit int) ([]Pending, error) {
	due, err := query[Pending](ctx, s, dueSQL, limit)
	if err != nil {
		return nil, fmt.Errorf("take due receipts: %w", err)
	}
	return due, nil
}

const releaseSQL = `
update receipts r set dispatch_at = now()
  from (select id from receipts where id = any($1::uuid[]) and status = (select 'received') order by id for no key update) held
 where r.id = held.id` // see [schema.Handling]

// Release makes receipts due at once whose [Lease] the caller has, and does not need any more.
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
