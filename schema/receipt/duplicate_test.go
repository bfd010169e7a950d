package receipt_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// The receipt of a duplicate stays locked until the answer is due. The delivery is still answered as a duplicate: the
// first delivery is committed, and after an error the provider would send the event again.
func TestInsert_Duplicate_LockedUntilTheAnswerIsDue_NoError(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), schematest.NewDSN(t)) // connections without a lock timeout
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := receipt.NewStore(pool, receipt.Options{})
	t.Cleanup(s.Close)
	first := mustInsert(t, s, delivery(event("evt_1")))[0]
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lock.Exec(t.Context(), `select from receipts where id = $1 for update`, first.ReceiptID); err != nil {
		t.Fatal(err)
	}
	due, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	out, err := s.Insert(due, delivery(event("evt_1")))
	if err != nil {
		t.Fatalf("Insert: %v, want a duplicate", err)
	}
	if got := out[0]; !got.Duplicate || got.ReceiptID != first.ReceiptID || got.Uncounted == nil {
		t.Errorf("got %+v, want an uncounted duplicate of %s", got, first.ReceiptID)
	}
}
