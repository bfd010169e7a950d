package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const receiptColumns = `r.id::text as id, r.source, r.provider, r.account, r.mode, r.event_id, r.id_origin, r.type, r.object_id,
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

const deliveriesSQL = `
select source, received_at, outcome, body_hash, secret_label from deliveries where receipt_id = $1 order by received_at, outcome = 'duplicate'`

// Deliveries returns every authentic delivery of a receipt's event, oldest first.
func (s *Store) Deliveries(ctx context.Context, id string) ([]Seen, error) {
	u, err := parseID(id)
	if err != nil {
		return nil, err
	}
	seen, err := query[Seen](ctx, s, deliveriesSQL, [16]byte(u))
	if err != nil {
		return nil, fmt.Errorf("list deliveries of receipt %s: %w", id, err)
	}
	return seen, nil
}

const runsSQL = `
select workflow_id, run_id, receipt_id::text as receipt_id, kind, requested_by, reason, previous_run_id, started_at, closed_at, outcome
  from runs where receipt_id = $1 order by started_at, run_id`

// Runs returns the runs of a receipt, oldest first.
func (s *Store) Runs(ctx context.Context, id string) ([]Run, error) {
	u, err := parseID(id)
	if err != nil {
		return nil, err
	}
	runs, err := query[Run](ctx, s, runsSQL, [16]byte(u))
	if err != nil {
		return nil, fmt.Errorf("list runs of receipt %s: %w", id, err)
	}
	return runs, nil
}

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
