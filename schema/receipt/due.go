package receipt

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

const otherModeSQL = `
select id, workflow_id from receipts
 where provider = $1 and account = $2 and event_id = $4 and mode = case $3 when 'live' then 'test' else 'live' end`

// OtherMode returns the workflow ID of the receipt that has k in the other mode, and whether there
// is one. The ID is "" while that receipt's start has not been recorded.
func (s *Store) OtherMode(ctx context.Context, k Key) (workflowID string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	var id uuid.UUID
	err = s.pool.QueryRow(ctx, otherModeSQL, k.Provider, k.Account, k.Mode, k.EventID).Scan(&id, &workflowID)
	if notFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("look for event %s in the other mode: %w", k.EventID, err)
	}
	return workflowID, true, nil
}

// countsSQL is two statements for two partial indexes.
const countsSQL = `
select status, count(*) from receipts where status in ('processing', 'retrying', 'needs_review', 'dead') group by status
union all
select 'received', count(*) from receipts where status = 'received' having count(*) > 0`

// OpenCounts returns how many receipts wait for their workflow, are being worked on, or are parked, per
// status; a status that nothing is in is missing.
func (s *Store) OpenCounts(ctx context.Context) (map[Status]int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, countsSQL)
	if err != nil {
		return nil, fmt.Errorf("count open receipts: %w", err)
	}
	counts := map[Status]int{}
	var status string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		counts[Status(status)] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count open receipts: %w", err)
	}
	return counts, nil
}
