package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const receiptColumns = `r.id::text as id, coalesce(r.routed_by, r.source) as source, r.provider, r.account, r.mode, r.event_id, r.id_origin, r.type, r.object_id,
       r.api_version, r.occurred_at, r.received_at, r.body_hash, r.secret_label, r.correlation_id, r.status, r.reason,
       r.workflow_id, r.last_error, r.duplicates, r.updated_at`

const getSQL = `select ` + receiptColumns + ` from receipts r where r.id = $1`

// Get returns a receipt by its ID, or [ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (Receipt, error) {
	u, err := parseID(id)
	if err != nil {
		return Receipt{}, err
	}
	found, err := query[Receipt](ctx, s, getSQL, [16]byte(u))
	if err != nil {
		return Receipt{}, fmt.Errorf("get receipt %s: %w", id, err)
	}
	if len(found) == 0 {
		return Receipt{}, fmt.Errorf("get receipt %s: %w", id, ErrNotFound)
	}
	return found[0], nil
}

const bodySQL = `select headers, body from receipt_bodies where receipt_id = $1`

// Body returns what came in, or [ErrNotFound] when there is no such receipt or its body is erased.
func (s *Store) Body(ctx context.Context, id string) (Body, error) {
	u, err := parseID(id)
	if err != nil {
		return Body{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	var b Body
	err = s.pool.QueryRow(ctx, bodySQL, [16]byte(u)).Scan(&b.header, &b.Bytes)
	if notFound(err) {
		err = ErrNotFound
	}
	if err != nil {
		return Body{}, fmt.Errorf("read body of receipt %s: %w", id, err)
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

// openCountsSQL is two statements for two partial indexes.
const openCountsSQL = `
select status, count(*) from receipts where status in ('processing', 'retrying', 'needs_review', 'dead') group by status
union all
select 'received', count(*) from receipts where status = 'received' having count(*) > 0`

// OpenCounts returns how many receipts wait for their workflow, are being worked on, or are parked, per
// status; a status that nothing is in is missing.
func (s *Store) OpenCounts(ctx context.Context) (map[Status]int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, openCountsSQL)
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

// query collects the rows of a statement, which has the read time-out.
func query[T any](ctx context.Context, s *Store, sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

func notFound(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
