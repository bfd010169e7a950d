package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const receiptColumns = `r.id::text as id, r.source, r.provider, r.account, r.mode, r.event_id, r.relay_of, r.identity, r.type, r.object_id,
       r.api_version, r.occurred_at, r.received_at, r.body_hash, r.secret_label, r.correlation_id, r.status, r.reason, r.reason_code,
       r.workflow_id, r.last_error, r.duplicates, r.updated_at`

const ignoredOfSQL = `
select id::text, event_id from receipts
 where reason_code = $4 and reason_code <> '' and status || '' = 'ignored' and provider = $1 and mode = $2 and account = $3 order by id`

// IgnoredOf returns the IDs of the receipts of a connected account that were ignored for a reason, the oldest first,
// and those of their events.
func IgnoredOf(ctx context.Context, tx interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, provider, mode, account, code string) (list [][2]string, err error) {
	rows, _ := tx.Query(ctx, ignoredOfSQL, provider, mode, account, code) // CollectRows returns its error
	list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ids [2]string, err error) {
		return ids, row.Scan(&ids[0], &ids[1])
	})
	if err != nil {
		return nil, fmt.Errorf("list what was ignored of account %s: %w", account, err)
	}
	return list, nil
}

const getSQL = `select ` + receiptColumns + ` from receipts r where r.id = $1`

// Get returns a receipt by its ID, or [ErrNotFound].
func (r Reader) Get(ctx context.Context, id string) (Receipt, error) {
	u, err := ParseID(id)
	if err != nil {
		return Receipt{}, err
	}
	return one[Receipt](ctx, r, "get receipt "+id, getSQL, [16]byte(u))
}

const bodySQL = `select headers, body from bodies where receipt_id = $1`

// Body returns a receipt's body, or [ErrNotFound] if there is no such receipt or its body is erased.
func (r Reader) Body(ctx context.Context, id string) (Body, error) {
	u, err := ParseID(id)
	if err != nil {
		return Body{}, err
	}
	doing := "read body of receipt " + id
	found, err := one[heldRow](ctx, r, doing, bodySQL, [16]byte(u))
	if err == nil && found.Bytes == nil {
		err = fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return found.body(), err
}

// BodyIn returns the bytes of a receipt's body in a transaction, nil where they are not held.
func BodyIn(ctx context.Context, tx interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, id string) ([]byte, error) {
	rows, _ := tx.Query(ctx, bodySQL, id) // CollectExactlyOneRow returns its error
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[heldRow])
	if err != nil && !notFound(err) {
		return nil, fmt.Errorf("read body of receipt %s: %w", id, err)
	}
	return found.Bytes, nil
}

// heldRow is a row of receipt_bodies.
type heldRow struct {
	Header []byte `db:"headers"`
	Bytes  []byte `db:"body"`
}

func (r heldRow) body() Body { return Body{header: r.Header, Bytes: r.Bytes} }

const loadSQL = `
select ` + receiptColumns + `, b.headers, b.body
  from receipts r left join bodies b on b.receipt_id = r.id
 where r.id = $1`

// Load returns a receipt and its body, or [ErrNotFound]. Bytes is nil if the body is erased.
func (r Reader) Load(ctx context.Context, id string) (Receipt, Body, error) {
	u, err := ParseID(id)
	if err != nil {
		return Receipt{}, Body{}, err
	}
	found, err := one[struct {
		Receipt
		heldRow
	}](ctx, r, "load receipt "+id, loadSQL, [16]byte(u))
	return found.Receipt, found.body(), err
}

// openCountsSQL is two statements for two partial indexes. What waits for another entry is not late: the event of that
// one is. An effect in doubt, and a sink that is out, are told by themselves.
const openCountsSQL = `
select status, mode, coalesce(type like any($1::text[]), false) as financial, count(*)::int, coalesce(extract(epoch from
       now() - min(received_at) filter (where reason_code not in ('` + WaitsForEntry + `', 'effect_uncertain', 'sink_out'))), 0)::float8 as seconds
  from receipts where status in ('processing', 'retrying', 'needs_review', 'dead') group by status, mode, financial
union all
select 'received', mode, coalesce(type like any($1::text[]), false) as financial, count(*)::int, extract(epoch from now() - min(received_at))::float8
  from receipts where status = 'received' group by mode, financial`

// Open is what the receipts of an open status have in common. Financial says that money hangs on their types.
type Open struct {
	Status    Status
	Mode      string
	Financial bool
}

// Waiting is how many open receipts are alike, and the age in seconds of the oldest.
type Waiting struct {
	Open
	Count   int
	Seconds float64
}

// Waiting counts the receipts that wait for their workflow, are being worked on, or are parked. Those whose types match
// a pattern of SQL's are financial. A combination without receipts is missing.
func (r Reader) Waiting(ctx context.Context, financial []string) ([]Waiting, error) {
	return query[Waiting](ctx, r, "count open receipts", openCountsSQL, financial)
}

// query collects the rows of a statement, within the read time-out. doing begins its error.
func query[T any](ctx context.Context, r Reader, doing, sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, r.readTimeout)
	defer cancel()
	rows, _ := r.pool.Query(ctx, sql, args...) // CollectRows returns its error
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return found, nil
}

// one returns the only row of a statement, as [query] does, or [ErrNotFound].
func one[T any](ctx context.Context, r Reader, doing, sql string, args ...any) (T, error) {
	found, err := query[T](ctx, r, doing, sql, args...)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// exec runs a statement within the read time-out. doing begins its error.
func (s *Store) exec(ctx context.Context, doing, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	if _, err := s.pool.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func notFound(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
