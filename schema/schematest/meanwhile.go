package schematest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Behind opens a transaction with the statement sql and calls write. When write waits for the transaction, Behind
// commits it. It returns the error of write.
func Behind(t *testing.T, pool *pgxpool.Pool, write func() error, sql string, args ...any) error {
	t.Helper()
	return BehindUntil(t, pool, write, func() {}, sql, args...)
}

// BehindUntil is like [Behind], and calls waiting while write waits.
func BehindUntil(t *testing.T, pool *pgxpool.Pool, write func() error, waiting func(), sql string, args ...any) error {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- write() }()
	AwaitLock(t, pool, wrote)
	waiting()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return <-wrote
}

// AwaitLock returns when a session waits for a lock. If wrote receives a result first, write did not wait, and the test
// fails.
func AwaitLock(t *testing.T, pool *pgxpool.Pool, wrote <-chan error) {
	t.Helper()
	for {
		var waiting int
		if err := pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return
		}
		select {
		case err := <-wrote:
			t.Fatalf("the write did not wait for the lock: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// joining is a context that signals when its caller starts to wait for a group commit.
type joining struct {
	context.Context
	joined func()
}

func (j joining) Done() <-chan struct{} {
	j.joined()
	return j.Context.Done()
}

// InOneFlush calls writes so that they share one flush, in their order, and returns their errors. To collect them, it
// lets first wait for a transaction with the statement sql.
func InOneFlush(t *testing.T, pool *pgxpool.Pool, first func() error, sql string, arg []any,
	writes ...func(context.Context) error) []error {
	t.Helper()
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	if err := BehindUntil(t, pool, first, func() {
		for i, write := range writes {
			joined := make(chan struct{})
			wg.Go(func() { errs[i] = write(joining{t.Context(), sync.OnceFunc(func() { close(joined) })}) })
			<-joined
		}
	}, sql, arg...); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return errs
}
