package receipt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const receiptColumns = `r.id::text as id, r.source, r.provider, r.account, r.mode, r.event_id, r.relay_of, r.identity, r.type, r.object_id,
       r.api_version, r.occurred_at, r.received_at, r.body_hash, r.secret_label, r.correlation_id, r.status, r.reason, r.reason_code,
       r.workflow_id, r.last_error, r.duplicates, r.updated_at`

const getSQL = `select ` + receiptColumns + ` from receipts r where r.id = $1`

// Get returns a receipt by its ID, or [ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (Receipt, error) {
	u, err := ParseID(id)
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

// heldBody is the body of a row b of receipt_bodies. A replay's body is that of the first receipt with the same
// bytes.
const heldBody = `coalesce(b.body, (
           select o.body from receipts r
             join receipts f on f.provider = r.provider and f.body_hash = r.body_hash and f.identity <> 'id' and not f.replayed
             join receipt_bodies o on o.receipt_id = f.id
            where r.id = b.receipt_id limit 1))`

const bodySQL = `select b.headers, ` + heldBody + ` from receipt_bodies b where b.receipt_id = $1`

// Body returns a receipt's body, or [ErrNotFound] if there is no such receipt or its body is erased.
func (s *Store) Body(ctx context.Context, id string) (Body, error) {
	u, err := ParseID(id)
	if err != nil {
		return Body{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	var b Body
	err = s.pool.QueryRow(ctx, bodySQL, [16]byte(u)).Scan(&b.header, &b.Bytes)
	if notFound(err) || err == nil && b.Bytes == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Body{}, fmt.Errorf("read body of receipt %s: %w", id, err)
	}
	return b, nil
}

const loadSQL = `
select ` + receiptColumns + `, b.headers, ` + heldBody + ` as body
  from receipts r left join receipt_bodies b on b.receipt_id = r.id
 where r.id = $1`

// Load returns a receipt and its body, or [ErrNotFound]. Bytes is nil if the body is erased.
func (s *Store) Load(ctx context.Context, id string) (Receipt, Body, error) {
	u, err := ParseID(id)
	if err != nil {
		return Receipt{}, Body{}, err
	}
	type row struct {
		Receipt
		Header []byte `db:"headers"`
		Bytes  []byte `db:"body"`
	}
	found, err := query[row](ctx, s, loadSQL, [16]byte(u))
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Receipt{}, Body{}, fmt.Errorf("load receipt %s: %w", id, err)
	}
	return found[0].Receipt, Body{header: found[0].Header, Bytes: found[0].Bytes}, nil
}

// openCountsSQL is two statements for two partial indexes.
const openCountsSQL = `
select status, count(*), extract(epoch from now() - min(received_at))::float8
  from receipts where status in ('processing', 'retrying', 'needs_review', 'dead') group by status
union all
select 'received', count(*), extract(epoch from now() - min(received_at))::float8
  from receipts where status = 'received' having count(*) > 0`

// Waiting is how many receipts have an open status, and the age of the oldest of them.
type Waiting struct {
	Count  int
	Oldest time.Duration
}

// Waiting counts, per status, the receipts that wait for their workflow, are being worked on, or are parked. A status
// without receipts is missing.
func (s *Store) Waiting(ctx context.Context) (map[Status]Waiting, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, openCountsSQL)
	if err != nil {
		return nil, fmt.Errorf("count open receipts: %w", err)
	}
	open := map[Status]Waiting{}
	var status string
	var n int
	var seconds float64
	if _, err := pgx.ForEachRow(rows, []any{&status, &n, &seconds}, func() error {
		open[Status(status)] = Waiting{n, time.Duration(seconds * float64(time.Second))}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count open receipts: %w", err)
	}
	return open, nil
}

// query collects the rows of a statement, within the read time-out.
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
