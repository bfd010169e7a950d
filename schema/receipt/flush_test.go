package receipt_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/receipt"
)

// joining is a context that tells when a group commit is waited for with it.
type joining struct {
	context.Context
	joined func()
}

func (j joining) Done() <-chan struct{} {
	j.joined()
	return j.Context.Done()
}

// inOneFlush calls writes so that they share a flush, in their order, and returns what each returned: they wait while
// first is written, which waits for a transaction with the statement sql.
func inOneFlush(t *testing.T, pool *pgxpool.Pool, first func() error, sql string, arg []any, writes ...func(context.Context) error) []error {
	t.Helper()
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	if err := behindUntil(t, pool, first, func() {
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

// Two deliveries of the same bytes under IDs that nothing signs share a flush, and the first of them is refused: the
// other one is no replay of what is not held.
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
	errs := inOneFlush(t, pool, func() error { return insert(&before, event("before"))(t.Context()) },
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

// Two runs of a receipt end at the same moment: the one that began its last task later has the last word, whichever
// of them comes first in the flush.
func TestFinishRun_TwoRunsInOneFlush_LaterTaskStands(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	finish := func(id, run string, task time.Time, to receipt.Status) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.FinishRun(ctx, receipt.Finish{ReceiptID: id, WorkflowID: "w", RunID: run, StartedAt: began,
				Outcome: string(to), Status: to, AsOf: task})
		}
	}
	for _, later := range []string{"a", "b"} {
		earlier := map[string]string{"a": "b", "b": "a"}[later]
		before := mustInsert(t, s, delivery(event("before "+later)))[0].ReceiptID
		id := mustInsert(t, s, delivery(event("evt_"+later)))[0].ReceiptID
		errs := inOneFlush(t, pool, func() error { return finish(before, later+" before", began, receipt.Processed)(t.Context()) },
			`select from receipts where id = $1 for update`, []any{before},
			finish(id, later+"-"+later, began.Add(time.Second), receipt.Compensated),
			finish(id, later+"-"+earlier, began, receipt.Processed))
		if errs[0] != nil || errs[1] != nil {
			t.Errorf("got %v", errs)
		}
		if r := mustGet(t, s, id); r.Status != receipt.Compensated {
			t.Errorf("run %s is the later one: the receipt is %s, want compensated", later, r.Status)
		}
		if n := count(t, pool, `select count(*) from runs where receipt_id = $1 and closed_at is not null`, id); n != 2 {
			t.Errorf("%d runs are closed, want 2", n)
		}
	}
}

// Two runs of a receipt begin at the same moment: both are recorded.
func TestMarkStarted_TwoRunsInOneFlush_BothRecorded(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	start := func(id, run string, kind receipt.Kind) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.MarkStarted(ctx, receipt.Started{ReceiptID: id, WorkflowID: "w", RunID: run, StartedAt: began, Kind: kind})
		}
	}
	before := mustInsert(t, s, delivery(event("before")))[0].ReceiptID
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	errs := inOneFlush(t, pool, func() error { return start(before, "before", receipt.Original)(t.Context()) },
		`select from receipts where id = $1 for update`, []any{before},
		start(id, "first", receipt.Original), start(id, "second", receipt.Reset))
	if errs[0] != nil || errs[1] != nil {
		t.Errorf("got %v", errs)
	}
	if n := count(t, pool, `select count(*) from runs where receipt_id = $1`, id); n != 2 {
		t.Errorf("%d runs are recorded, want 2", n)
	}
	if r := mustGet(t, s, id); r.Status != receipt.Processing {
		t.Errorf("the receipt is %s, want processing", r.Status)
	}
}

// A delivery of many events takes several transactions, and an event that stands in two of them is one.
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

// A large body and a large batch share no commit with what is small.
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
	for i, err := range inOneFlush(t, pool, func() error { return insert(event("before"))(t.Context()) }, `lock table receipts in share mode`, nil,
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
