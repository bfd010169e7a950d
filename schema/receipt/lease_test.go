package receipt_test

import (
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
)

func TestDue_LeaseAndRelease(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	ctx := t.Context()
	mustInsert(t, s, delivery(event("a"), event("b"), event("c")))
	due := func() []receipt.Pending {
		t.Helper()
		got, err := s.Due(ctx, 2)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := due(); len(got) != 0 {
		t.Fatalf("due at once: %+v; the hand-over in memory goes first", got)
	}
	if b, err := s.Backlog(ctx); err != nil || b.Count != 3 || b.Oldest == nil {
		t.Errorf("backlog %+v, %v; want 3", b, err)
	}
	if _, err := pool.Exec(ctx, `update receipts set dispatch_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	first, second, third := due(), due(), due()
	if len(first) != 2 || len(second) != 1 || len(third) != 0 {
		t.Fatalf("taken: %d, %d, %d; want 2, 1, 0: a lease holds", len(first), len(second), len(third))
	}
	var held bool
	if err := pool.QueryRow(ctx, `select bool_and(dispatch_at between now() + $1 - interval '5 seconds' and now() + $1) from receipts`, receipt.Lease).Scan(&held); err != nil || !held {
		t.Errorf("leases: %t, %v; want %s", held, err, receipt.Lease)
	}
	if p := second[0]; p.Provider != "stripe" || p.Mode != "test" || p.Type != "invoice.paid" || p.ObjectID != "in_1" || p.ReceivedAt.IsZero() {
		t.Errorf("pending %+v", p)
	}
	if err := s.Release(ctx, first[0].ReceiptID); err != nil {
		t.Fatal(err)
	}
	if got := due(); len(got) != 1 || got[0].ReceiptID != first[0].ReceiptID {
		t.Errorf("after release: %+v, want %s", got, first[0].ReceiptID)
	}
}
