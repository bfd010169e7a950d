package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/run"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestMain(m *testing.M) { schematest.Main(m) }

type bench struct {
	*run.Store
	receipts *receipt.Store
	pool     *pgxpool.Pool
}

func setup(t *testing.T) bench {
	t.Helper()
	pool, o := schematest.New(t), receipt.Options{Timeout: 10 * time.Second}
	b := bench{run.NewStore(pool, o), receipt.NewStore(pool, o), pool}
	t.Cleanup(b.Close)
	t.Cleanup(b.receipts.Close)
	return b
}

// insert creates a receipt and returns its ID.
func (b bench) insert(t *testing.T, eventID string, change ...func(*receipt.New)) string {
	t.Helper()
	e := receipt.New{Mode: "test", EventID: eventID, Identity: receipt.ByID, Type: "invoice.paid", Object: "in_1", Status: receipt.Received, Body: []byte(eventID)}
	for _, f := range change {
		f(&e)
	}
	out, err := b.receipts.Insert(t.Context(), receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Events: []receipt.New{e}})
	if err != nil {
		t.Fatal(err)
	}
	return out[0].ReceiptID
}

func (b bench) get(t *testing.T, id string) receipt.Receipt {
	t.Helper()
	r, err := b.receipts.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runs returns the runs of a receipt, as the timeline contains them.
func (b bench) runs(t *testing.T, id string) []timeline.Run {
	t.Helper()
	e, err := timeline.Show(t.Context(), b.pool, id)
	if err != nil {
		t.Fatal(err)
	}
	return e.Runs
}

func (b bench) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Open: []string{"quiet", "quiet sample", "sink waiters", "waits for settled", "waits for sink"}})
}

func TestRuns_StartedAndFinished(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ctx := t.Context()
	id := s.insert(t, "evt_1")
	start := run.Started{ReceiptID: id, WorkflowID: "stripe:evt_1", RunID: "run-1", StartedAt: time.Now()}
	for range 2 { // a second call changes nothing
		if err := s.MarkStarted(ctx, start); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.get(t, id); r.Status != receipt.Processing || r.WorkflowID != "stripe:evt_1" {
		t.Errorf("after start: %s, workflow %q", r.Status, r.WorkflowID)
	}
	end := run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "stripe:evt_1", RunID: "run-1", StartedAt: start.StartedAt, Outcome: "processed", Status: receipt.Processed}
	for range 2 {
		if _, err := s.MarkFinished(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	// A late record of a start does not change the receipt.
	if err := s.MarkStarted(ctx, start); err != nil {
		t.Fatal(err)
	}
	reset := end
	reset.RunID, reset.Kind, reset.PreviousRunID, reset.Outcome, reset.Status = "run-2", run.Reset, "run-1", "compensated", receipt.Compensated
	if _, err := s.MarkFinished(ctx, reset); err != nil {
		t.Fatal(err)
	}
	if r := s.get(t, id); r.Status != receipt.Compensated {
		t.Errorf("after the reset run: %s, want compensated", r.Status)
	}
	runs := s.runs(t, id)
	if len(runs) != 2 {
		t.Fatalf("runs %+v; want 2", runs)
	}
	if runs[0].Kind != string(run.Original) || runs[0].Outcome != "processed" || runs[0].ClosedAt == nil {
		t.Errorf("first run %+v", runs[0])
	}
	if runs[1].Kind != string(run.Reset) || runs[1].PreviousRunID != "run-1" || runs[1].ClosedAt == nil {
		t.Errorf("reset run %+v", runs[1])
	}
	if n := s.count(t, `select count(*) from runs`); n != 2 {
		t.Errorf("runs: got %d, want 2", n)
	}
}

// A run can end before its start is recorded, and the late record keeps the end.
func TestMarkFinished_BeforeStarted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.insert(t, "evt_1")
	end := run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "w", RunID: "r", StartedAt: time.Now(), Outcome: "processed", Status: receipt.Processed}
	if _, err := s.MarkFinished(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkStarted(t.Context(), run.Started{ReceiptID: id, WorkflowID: "w", RunID: "r", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	r := s.get(t, id)
	runs := s.runs(t, id)
	if r.Status != receipt.Processed || r.WorkflowID != "w" || len(runs) != 1 || runs[0].Kind != string(run.Original) || runs[0].ClosedAt == nil {
		t.Errorf("receipt %s %q, runs %+v", r.Status, r.WorkflowID, runs)
	}
}

// A run decides that its event is ignored, whether or not its start was recorded before.
func TestMarkFinished_Ignored_AfterItsStart(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.insert(t, "evt_1")
	if err := s.MarkStarted(t.Context(), run.Started{ReceiptID: id, WorkflowID: "w", RunID: "r", StartedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.MarkFinished(t.Context(), run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "w", RunID: "r", StartedAt: time.Now(), Outcome: "ignored", Status: receipt.Ignored}); err != nil {
		t.Fatal(err)
	}
	if r := s.get(t, id); r.Status != receipt.Ignored {
		t.Errorf("status %s, want ignored", r.Status)
	}
}

func TestMarkFinished_RefusedAndUnknown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.insert(t, "evt_1", func(e *receipt.New) { e.Status, e.Reason = receipt.Ignored, "type" })
	var refused *receipt.TransitionError
	_, err := s.MarkFinished(t.Context(), run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "w", RunID: "r", StartedAt: time.Now(), Status: receipt.Processed})
	if !errors.As(err, &refused) || refused.From != receipt.Ignored {
		t.Errorf("got %v, want a transition from ignored refused", err)
	}
	if r := s.get(t, id); r.Status != receipt.Ignored {
		t.Errorf("status %s, want ignored", r.Status)
	}
	_, err = s.MarkFinished(t.Context(), run.Finished{Ref: event.Ref{ReceiptID: uuid.NewString()}, WorkflowID: "w", RunID: "r", StartedAt: time.Now(), Status: receipt.Processed})
	if !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// Statements on overlapping receipts in opposite orders do not deadlock.
func TestRuns_OverlappingBatches(t *testing.T) {
	t.Parallel()
	a := setup(t)
	b := run.NewStore(a.pool, receipt.Options{Timeout: 10 * time.Second})
	defer b.Close()
	var ids []string
	for i := range 40 {
		ids = append(ids, a.insert(t, fmt.Sprint("evt_", i)))
	}
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			if err := a.MarkStarted(t.Context(), run.Started{ReceiptID: id, WorkflowID: "w" + id, RunID: "r", StartedAt: time.Now()}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			f := run.Finished{Ref: a.get(t, ids[len(ids)-1-i]).Ref(), WorkflowID: "w" + ids[len(ids)-1-i], RunID: "r", StartedAt: time.Now(), Status: receipt.Processed}
			if _, err := b.MarkFinished(t.Context(), f); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			a.insert(t, fmt.Sprint("evt_", i))
		})
	}
	wg.Wait()
	if n := a.count(t, `select count(*) from receipts where status = 'processed' and duplicates = 1`); n != 40 {
		t.Errorf("processed with one duplicate: got %d, want 40", n)
	}
}

func TestCompensated_CountsTheLastHours(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.insert(t, "evt_1")
	for run, closed := range map[string]string{
		"('a', 'compensated'": "now() - interval '30 minutes'", "('b', 'compensated'": "now() - interval '2 hours'", "('c', 'processed'": "now()", "('d', 'compensated'": "now()",
	} {
		if _, err := s.pool.Exec(t.Context(), `insert into runs (workflow_id, outcome, run_id, receipt_id, kind, closed_at)
			values `+run+`, 'r', '`+id+`', 'original', `+closed+`)`); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Compensated(t.Context(), time.Hour); err != nil || n != 2 {
		t.Errorf("%d runs were compensated within the hour (%v), want 2", n, err)
	}
}

// If a run ended before its start was recorded, it has recorded everything itself.
func TestMarkStarted_EndedMeanwhile_Stands(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.insert(t, "evt_1")
	start := run.Started{ReceiptID: id, WorkflowID: "w", RunID: "r", StartedAt: time.Now()}
	if err := schematest.Behind(t, s.pool, func() error { return s.MarkStarted(t.Context(), start) },
		`update receipts set status = 'processed', workflow_id = 'w' where id = $1`, id); err != nil {
		t.Fatal(err)
	}
	if r := s.get(t, id); r.Status != receipt.Processed {
		t.Errorf("the receipt is %s, want processed", r.Status)
	}
}

// Two runs of a receipt end concurrently. The run with the later last workflow task determines the status, in any
// order within the flush.
func TestMarkFinished_TwoRunsInOneFlush_LaterTaskStands(t *testing.T) {
	t.Parallel()
	s := setup(t)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	finish := func(id, runID string, task time.Time, to receipt.Status) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.MarkFinished(ctx, run.Finished{Ref: s.get(t, id).Ref(), WorkflowID: "w", RunID: runID, StartedAt: began,
				Outcome: string(to), Status: to, AsOf: task})
			return err
		}
	}
	for _, later := range []string{"a", "b"} {
		earlier := map[string]string{"a": "b", "b": "a"}[later]
		before := s.insert(t, "before "+later)
		id := s.insert(t, "evt_"+later)
		errs := schematest.InOneFlush(t, s.pool, func() error { return finish(before, later+" before", began, receipt.Processed)(t.Context()) },
			`select from receipts where id = $1 for update`, []any{before},
			finish(id, later+"-"+later, began.Add(time.Second), receipt.Compensated),
			finish(id, later+"-"+earlier, began, receipt.Processed))
		if errs[0] != nil || errs[1] != nil {
			t.Errorf("got %v", errs)
		}
		if r := s.get(t, id); r.Status != receipt.Compensated {
			t.Errorf("run %s is the later one: the receipt is %s, want compensated", later, r.Status)
		}
		if n := s.count(t, `select count(*) from runs where receipt_id = $1 and closed_at is not null`, id); n != 2 {
			t.Errorf("%d runs are closed, want 2", n)
		}
	}
}

// Two runs of a receipt start concurrently, and both are recorded.
func TestMarkStarted_TwoRunsInOneFlush_BothRecorded(t *testing.T) {
	t.Parallel()
	s := setup(t)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	start := func(id, runID string, kind run.Kind) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.MarkStarted(ctx, run.Started{ReceiptID: id, WorkflowID: "w", RunID: runID, StartedAt: began, Kind: kind})
		}
	}
	before := s.insert(t, "before")
	id := s.insert(t, "evt_1")
	errs := schematest.InOneFlush(t, s.pool, func() error { return start(before, "before", run.Original)(t.Context()) },
		`select from receipts where id = $1 for update`, []any{before},
		start(id, "first", run.Original), start(id, "second", run.Reset))
	if errs[0] != nil || errs[1] != nil {
		t.Errorf("got %v", errs)
	}
	if n := s.count(t, `select count(*) from runs where receipt_id = $1`, id); n != 2 {
		t.Errorf("%d runs are recorded, want 2", n)
	}
	if r := s.get(t, id); r.Status != receipt.Processing {
		t.Errorf("the receipt is %s, want processing", r.Status)
	}
}
