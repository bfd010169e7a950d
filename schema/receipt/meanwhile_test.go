package receipt_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/schematest"
)

// A duplicate is counted even if its receipt changes after the counting statement has begun.
func TestInsert_HeldAndChangedMeanwhile_Counted(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	id := mustInsert(t, s, delivery(event("evt_2")))[0].ReceiptID

	// The statement blocks at evt_1, which another delivery is about to commit, before it reads evt_2.
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
	schematest.AwaitLock(t, pool, done)
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
