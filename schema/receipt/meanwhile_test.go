package receipt_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
)

// A run that has ended before its start was recorded has said all of that itself.
func TestMarkStarted_EndedMeanwhile_Stands(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	start := receipt.Started{ReceiptID: id, WorkflowID: "w", RunID: "r", StartedAt: time.Now()}
	if err := behind(t, pool, func() error { return s.MarkStarted(t.Context(), start) },
		`update receipts set status = 'processed', workflow_id = 'w' where id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if r := mustGet(t, s, id); r.Status != receipt.Processed {
		t.Errorf("the receipt is %s, want processed", r.Status)
	}
}

// A duplicate is counted though its receipt was changed after the statement had begun that counts it.
func TestInsert_HeldAndChangedMeanwhile_Counted(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	id := mustInsert(t, s, delivery(event("evt_2")))[0].ReceiptID

	// The statement waits where another delivery of evt_1 is about to be committed, before it looks at evt_2.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `insert into receipts (id, source, provider, account, mode, event_id, identity, type, object_id, api_version, received_at, body_hash, secret_label, correlation_id, status, reason)
		select gen_random_uuid(), source, provider, account, mode, 'evt_1', identity, type, object_id, api_version, received_at, body_hash, secret_label, correlation_id, status, reason from receipts where id = $1`, id); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		out, err := s.Insert(t.Context(), delivery(event("evt_1"), event("evt_2")))
		if err == nil && (!out[0].Duplicate || !out[1].Duplicate || out[1].ReceiptID != id) {
			t.Errorf("got %+v", out)
		}
		done <- err
	}()
	awaitLock(t, pool, done)
	if _, err := pool.Exec(t.Context(), `update receipts set status = 'processing' where id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `select duplicates from receipts where id = $1`, id); n != 1 {
		t.Errorf("%d duplicates are counted, want 1", n)
	}
}

// behind calls write while a transaction with the statement sql is under way, commits that once write waits for it,
// and returns what write returned.
func behind(t *testing.T, pool *pgxpool.Pool, write func() error, sql string, args ...any) error {
	t.Helper()
	return behindUntil(t, pool, write, func() {}, sql, args...)
}

// behindUntil is behind that also calls waiting, while write waits.
func behindUntil(t *testing.T, pool *pgxpool.Pool, write func() error, waiting func(), sql string, args ...any) error {
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
	awaitLock(t, pool, wrote)
	waiting()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return <-wrote
}

// awaitLock returns when somebody waits for a lock. A result in wrote says that nobody does.
func awaitLock(t *testing.T, pool *pgxpool.Pool, wrote <-chan error) {
	t.Helper()
	for count(t, pool, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 0 {
		select {
		case err := <-wrote:
			t.Fatalf("written beside a lock: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
