package receipt_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// Two deliveries of the same bytes under unsigned IDs share a flush, and Postgres rejects the first one. The second
// one is not a replay, because the first one is not stored.
func TestInsert_UnsignedID_TwinRefused_Runs(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	refused := event("refused")
	refused.Type = "nul \x00"
	insert := func(into *[]receipt.Outcome, events ...receipt.New) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			*into, err = s.Insert(ctx, delivery(events...))
			return err
		}
	}
	var before, first, second []receipt.Outcome
	errs := schematest.InOneFlush(t, pool, func() error { return insert(&before, event("before"))(t.Context()) },
		`lock table receipts in share mode`, nil,
		insert(&first, unsigned("guid-1", "same bytes"), refused),
		insert(&second, unsigned("guid-2", "same bytes")))
	if errs[0] == nil || errs[1] != nil {
		t.Fatalf("got %v, want the first refused and the second held", errs)
	}
	if second[0].Status != receipt.Received {
		t.Errorf("got %+v, want it received", second[0])
	}
}

// A delivery of many events uses several transactions. If two of them contain the same event, the event has one
// receipt.
func TestInsert_ManyEvents_SeveralTransactions(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	var events []receipt.New
	for i := range 5000 {
		events = append(events, event(fmt.Sprintf("evt_%d", i)))
	}
	events = append(events, event("evt_0"), event("evt_4999"))
	outcomes := mustInsert(t, s, delivery(events...))
	fresh := 0
	for i, o := range outcomes {
		if o.ReceiptID == "" || o.EventID != events[i].EventID {
			t.Fatalf("event %d: %+v", i, o)
		}
		if !o.Duplicate {
			fresh++
		}
	}
	if len(outcomes) != 5002 || fresh != 5000 {
		t.Errorf("%d outcomes, %d of them new; want 5002 and 5000", len(outcomes), fresh)
	}
	var receipts, transactions, most int
	if err := pool.QueryRow(t.Context(), `select sum(n), count(*), max(n) from (select count(*) n from receipt_bodies group by xmin::text) x`).Scan(&receipts, &transactions, &most); err != nil {
		t.Fatal(err)
	}
	if receipts != 5000 || transactions != 3 || most != 2000 {
		t.Errorf("%d receipts in %d transactions of %d at most, want 5000 in 3 of 2000", receipts, transactions, most)
	}
}

// A large body and a large batch do not share a commit with small requests.
func TestInsert_Large_NoNeighboursCommit(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	large := event("large")
	large.Body = make([]byte, 1<<20)
	var batch []receipt.New
	for i := range 200 {
		batch = append(batch, event(fmt.Sprintf("batch-%d", i)))
	}
	insert := func(events ...receipt.New) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Insert(ctx, delivery(events...)); return err }
	}
	for i, err := range schematest.InOneFlush(t, pool, func() error { return insert(event("before"))(t.Context()) }, `lock table receipts in share mode`, nil,
		insert(large), insert(event("small-1")), insert(batch...), insert(event("small-2"))) {
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for pattern, want := range map[string]int{"small-%": 2, "large": 1, "batch-%": 200} {
		var same, all int
		if err := pool.QueryRow(t.Context(), `select count(*) filter (where event_id like $1), count(*) from receipts where xmin::text in (select xmin::text from receipts where event_id like $1)`, pattern).Scan(&same, &all); err != nil {
			t.Fatal(err)
		}
		if same != want || pattern == "small-%" && all != want {
			t.Errorf("%s: %d of its own and %d in all share a transaction, want %d", pattern, same, all, want)
		}
	}
}
