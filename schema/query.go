package schema

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Querier can read: it is a pool, a connection or a transaction of pgx.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Execer can write: it is a pool, a connection or a transaction of pgx.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// DB can read and write.
type DB interface {
	Querier
	Execer
}

// ErrNotFound means that no row matches.
var ErrNotFound = errors.New("not found")

// List returns the rows of a statement. It never returns nil. If T is a struct, columns are assigned by field name;
// otherwise the statement must have one column. In this and the following functions, doing is the start of the error
// text, for example "read the jobs".
func List[T any](ctx context.Context, db Querier, doing, sql string, args ...any) ([]T, error) {
	return Rows(ctx, db, doing, rowTo[T], sql, args...)
}

// Rows is like [List], but calls to for each row.
func Rows[T any](ctx context.Context, db Querier, doing string, to pgx.RowToFunc[T], sql string,
	args ...any) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return list, nil
}

// One returns the only row of a statement, read as in [List], or [ErrNotFound].
func One[T any](ctx context.Context, db Querier, doing, sql string, args ...any) (one T, err error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectExactlyOneRow returns its error
	if one, err = pgx.CollectExactlyOneRow(rows, rowTo[T]); errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, err)
	}
	return one, err
}

func rowTo[T any](row pgx.CollectableRow) (T, error) {
	if reflect.TypeFor[T]().Kind() == reflect.Struct {
		return pgx.RowToStructByName[T](row)
	}
	return pgx.RowTo[T](row)
}

// Map returns the rows of a statement with two columns as a map from the first column to the second.
func Map[K comparable, V any](ctx context.Context, db Querier, doing, sql string, args ...any) (map[K]V, error) {
	rows, _ := db.Query(ctx, sql, args...) // ForEachRow returns its error
	values, key, value := map[K]V{}, *new(K), *new(V)
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		values[key] = value
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return values, nil
}

// Until returns the upper bound of a list: at, or a time later than every stored time if at is zero.
func Until(at time.Time) time.Time {
	if at.IsZero() {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at
}

// Exec runs a statement.
func Exec(ctx context.Context, db Execer, doing, sql string, args ...any) error {
	_, err := Changes(ctx, db, doing, sql, args...)
	return err
}

// Changes runs a statement and reports whether it changed a row.
func Changes(ctx context.Context, db Execer, doing, sql string, args ...any) (bool, error) {
	tag, err := db.Exec(ctx, sql, args...)
	if err != nil {
		return false, fmt.Errorf("%s: %w", doing, err)
	}
	return tag.RowsAffected() > 0, nil
}

// Bounded is a pool that sets a deadline for each statement.
type Bounded struct {
	*pgxpool.Pool
	Within time.Duration
}

// Exec calls Exec of the pool with the deadline.
func (b Bounded) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Within)
	defer cancel()
	return b.Pool.Exec(ctx, sql, args...)
}

// Query calls Query of the pool. The deadline lasts until the rows are closed.
func (b Bounded) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Within)
	rows, err := b.Pool.Query(ctx, sql, args...)
	return boundedRows{rows, cancel}, err
}

type boundedRows struct {
	pgx.Rows
	cancel context.CancelFunc
}

func (r boundedRows) Close() {
	r.Rows.Close()
	r.cancel()
}
