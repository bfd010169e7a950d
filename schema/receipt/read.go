package receipt

import (
	"context"
	"errors"
	"fmt"

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
