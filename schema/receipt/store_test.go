package receipt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

func TestMain(m *testing.M) {
	if victim() {
		return
	}
	schematest.Main(m)
}

func setup(t testing.TB) (*receipt.Store, *pgxpool.Pool) {
	t.Helper()
	pool := schematest.New(t)
	s := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	t.Cleanup(s.Close)
	return s, pool
}

func event(id string) receipt.New {
	return receipt.New{Mode: "test", EventID: id, Identity: receipt.ByID, Type: "invoice.paid", Object: "in_1",
		Status: receipt.Received, Body: []byte(`{"id":"` + id + `"}`)}
}

func delivery(events ...receipt.New) receipt.Delivery {
	for i := range events {
		events[i].Correlation = "c-1"
	}
	return receipt.Delivery{Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Secret: "first",
		Header: http.Header{"Content-Type": {"application/json"}}, Events: events}
}

// show returns the deliveries and runs of a receipt, as the timeline contains them.
func show(t *testing.T, pool *pgxpool.Pool, id string) *timeline.Event {
	t.Helper()
	event, err := timeline.Show(t.Context(), pool, id)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func mustInsert(t testing.TB, s *receipt.Store, d receipt.Delivery) []receipt.Outcome {
	t.Helper()
	out, err := s.Insert(t.Context(), d)
	if err != nil {
		t.Fatalf("insert: %v", err)
	}
	for i, o := range out {
		if o.Uncounted != nil {
			t.Fatalf("event %d uncounted: %v", i, o.Uncounted)
		}
	}
	return out
}

func count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func mustGet(t testing.TB, s *receipt.Store, id string) receipt.Receipt {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStatements(t *testing.T) {
	t.Parallel()
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Walks: []string{"clock"}, Open: []string{"backlog", "open counts", "due", "source pauses", "source waiters", "repeated"}, Made: receipt.Made})
}

func TestInsert_KeepsWhatCameIn(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	for name, body := range map[string][]byte{
		"json":          []byte(`{"id":"a","n":1e3,"n":12345678901234567890}` + "\r\n"),
		"empty":         {},
		"nul":           {0, 1, 0},
		"invalid utf-8": {0xff, 0xfe, 0xc0, 0x80},
		"line seps":     []byte("\u2028 \u2029 \ufeff"),
	} {
		e := event(name)
		e.Body = body
		e.OccurredAt = time.Unix(1_700_000_000, 0)
		out := mustInsert(t, s, delivery(e))[0]
		if out.Duplicate || out.Status != receipt.Received {
			t.Errorf("%s: got %+v, want new and received", name, out)
		}
		got, err := s.Body(t.Context(), out.ReceiptID)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes, body) {
			t.Errorf("%s: body %q, want %q", name, got.Bytes, body)
		}
		if header, err := got.Header(); err != nil || header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v, %v", name, header, err)
		}
		r := mustGet(t, s, out.ReceiptID)
		if r.EventID != name || r.Source != "stripe" || r.SecretLabel != "first" || r.CorrelationID != "c-1" ||
			r.ObjectID != "in_1" || r.OccurredAt == nil || !r.OccurredAt.Equal(e.OccurredAt) || r.Duplicates != 0 {
			t.Errorf("%s: receipt %+v", name, r)
		}
	}
	if n := count(t, pool, `select count(*) from deliveries where outcome = 'new'`); n != 5 {
		t.Errorf("deliveries: got %d, want 5", n)
	}
}

// The identity of an event consists of provider, account, mode and event ID.
func TestInsert_SameID_OtherTenantOrMode_AnotherReceipt(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	base := event("evt_1")
	connect, live := base, base
	connect.Account = "acct_9"
	live.Mode = "live"
	other := delivery(base)
	other.Provider = "github"
	mustInsert(t, s, delivery(base, connect, live))
	mustInsert(t, s, other)
	if n := count(t, pool, `select count(*) from receipts`); n != 4 {
		t.Errorf("receipts: got %d, want 4", n)
	}
}

// The first body is stored, and the list of deliveries shows that another body arrived.
func TestInsert_SameID_OtherBody_FirstWins(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	first, second := event("evt_1"), event("evt_1")
	second.Body = []byte(`{"id":"evt_1","pending_webhooks":0}`)
	id := mustInsert(t, s, delivery(first))[0].ReceiptID
	out := mustInsert(t, s, delivery(second))[0]
	if !out.Duplicate || out.ReceiptID != id {
		t.Errorf("got %+v, want a duplicate of %s", out, id)
	}
	body, err := s.Body(t.Context(), id)
	if err != nil || !bytes.Equal(body.Bytes, first.Body) {
		t.Errorf("body %q, %v; want the first one", body.Bytes, err)
	}
	seen := show(t, pool, id).Deliveries
	if len(seen) != 2 || seen[0].Outcome != "new" || seen[1].Outcome != "duplicate" || seen[0].BodyHash == seen[1].BodyHash {
		t.Errorf("deliveries %+v; want new and a duplicate with another hash", seen)
	}
}

// 200 deliveries of one event arrive at two stores. The result is one receipt and 199 duplicates.
func TestInsert_Concurrent_OneReceipt(t *testing.T) {
	t.Parallel()
	a, pool := setup(t)
	b := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	defer b.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]int{}
	fresh := 0
	for i := range 200 {
		s := []*receipt.Store{a, b}[i%2]
		wg.Go(func() {
			out, err := s.Insert(t.Context(), delivery(event("evt_1")))
			if err != nil || out[0].Uncounted != nil {
				t.Errorf("delivery %d: %v %+v", i, err, out)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[out[0].ReceiptID]++
			if !out[0].Duplicate {
				fresh++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || fresh != 1 {
		t.Errorf("receipt IDs %v, new %d; want one and 1", ids, fresh)
	}
	if n := count(t, pool, `select duplicates from receipts`); n != 199 {
		t.Errorf("duplicates: got %d, want 199", n)
	}
	if n := count(t, pool, `select count(*) from deliveries where outcome = 'duplicate'`); n != 199 {
		t.Errorf("duplicate deliveries: got %d, want 199", n)
	}
}

// A locked receipt delays only the counting of its own duplicates, and no other delivery.
func TestInsert_DuplicateOfLockedReceipt_NeighboursGoOn(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(t.Context()) }()
	if _, err := lock.Exec(t.Context(), `select from receipts for update`); err != nil {
		t.Fatal(err)
	}
	held := make(chan []receipt.Outcome, 1)
	go func() {
		out, err := s.Insert(t.Context(), delivery(event("evt_1"), event("evt_2")))
		if err != nil {
			t.Errorf("insert: %v", err)
		}
		held <- out
	}()
	// wait until the other event is committed, while the duplicate is waiting
	for count(t, pool, `select count(*) from receipts where event_id = 'evt_2'`) == 0 {
	}
	mustInsert(t, s, delivery(event("evt_3")))
	if err := lock.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := <-held
	if len(out) != 2 || out[0].ReceiptID != id || !out[0].Duplicate || out[0].Uncounted != nil || out[1].Duplicate {
		t.Errorf("got %+v; want a duplicate of %s and a new event", out, id)
	}
	if n := count(t, pool, `select duplicates from receipts where event_id = 'evt_1'`); n != 1 {
		t.Errorf("duplicates: got %d, want 1", n)
	}
}

// If a provider divides a batch differently on its retry, pawl still detects each event as a duplicate.
func TestInsert_Batch_DedupesPerEvent(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	mustInsert(t, s, delivery(event("a"), event("b"), event("a")))
	out := mustInsert(t, s, delivery(event("b"), event("c"), event("d")))
	if !out[0].Duplicate || out[1].Duplicate || out[2].Duplicate {
		t.Errorf("got %+v, want only the first to be a duplicate", out)
	}
	if n := count(t, pool, `select count(*) from receipts`); n != 4 {
		t.Errorf("receipts: got %d, want 4", n)
	}
	if n := count(t, pool, `select sum(duplicates) from receipts where event_id in ('a', 'b')`); n != 2 {
		t.Errorf("duplicates: got %d, want 2", n)
	}
}

// A row that Postgres rejects fails its whole delivery, but no other delivery.
func TestInsert_BadRow_FailsAlone(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	bad := event("bad")
	bad.Type = "nul \x00"
	var wg sync.WaitGroup
	errs := make([]error, 60)
	for i := range errs {
		wg.Go(func() {
			d := delivery(event(fmt.Sprint("evt_", i)))
			if i == 30 {
				d = delivery(event("good neighbour in the bad delivery"), bad)
			}
			_, errs[i] = s.Insert(t.Context(), d)
		})
	}
	wg.Wait()
	for i, err := range errs {
		var pg *pgconn.PgError
		if (err != nil) != (i == 30) || err != nil && !errors.As(err, &pg) {
			t.Errorf("delivery %d: %v", i, err)
		}
	}
	if n := count(t, pool, `select count(*) from receipts`); n != 59 {
		t.Errorf("receipts: got %d, want 59", n)
	}
}

// The same bytes under another, unsigned ID are stored and not run.
func TestInsert_UnsignedID_SameBytes_Parked(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	first := mustInsert(t, s, delivery(unsigned("guid-1", "same bytes")))[0]
	again := mustInsert(t, s, delivery(unsigned("guid-1", "same bytes")))[0]
	if first.Status != receipt.Received || !again.Duplicate {
		t.Errorf("redelivery under its own ID: got %+v, want a duplicate", again)
	}
	replayed := mustInsert(t, s, delivery(unsigned("guid-2", "same bytes")))[0]
	if replayed.Status != receipt.NeedsReview || replayed.Reason != "suspected_replay: same bytes as guid-1" {
		t.Errorf("got %+v, want it parked as a suspected replay of guid-1", replayed)
	}
	seen := show(t, pool, replayed.ReceiptID).Deliveries
	if len(seen) != 1 || seen[0].Outcome != "replay" {
		t.Errorf("deliveries %+v; want one replay", seen)
	}

	// Of any number of concurrent deliveries, only one runs.
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			e := unsigned(fmt.Sprint("storm-", i), "other bytes")
			if _, err := s.Insert(t.Context(), delivery(e)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := count(t, pool, `select count(*) from receipts where event_id like 'storm-%' and status = 'received'`); n != 1 {
		t.Errorf("receipts that will run: got %d, want 1", n)
	}
}

// An insert that waits for a lock fails at the timeout of the store, and not when the lock is released.
func TestInsert_Lock_FailsInTime(t *testing.T) {
	t.Parallel()
	patient, pool := setup(t)
	s := receipt.NewStore(pool, receipt.Options{Timeout: 200 * time.Millisecond})
	defer s.Close()
	mustInsert(t, patient, delivery(event("before")))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `lock table receipts in access exclusive mode`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := s.Insert(t.Context(), delivery(event(fmt.Sprint("during-", i)))); err == nil {
				t.Error("an insert into a locked table succeeded")
			}
		})
	}
	wg.Wait() // the lock is still held: without a timeout this never returns
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, patient, delivery(event("after")))
}

func TestReady(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("a healthy database: %v", err)
	}
	config := pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	readOnly, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	ro := receipt.NewStore(readOnly, receipt.Options{})
	defer ro.Close()
	if err := ro.Ready(t.Context()); err == nil {
		t.Error("a read-only database was called ready")
	}
	role := "reader_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	for _, sql := range []string{`create role ` + role, `grant select on all tables in schema public to ` + role} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), `drop owned by `+role+`; drop role `+role) })
	config = pool.Config()
	config.ConnConfig.RuntimeParams["role"] = role
	reading, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	reader := receipt.NewStore(reading, receipt.Options{})
	defer reader.Close()
	if err := reader.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "may not insert") {
		t.Errorf("a role that only reads: %v, want that it may not insert", err)
	}
	if _, err := pool.Exec(t.Context(), `alter table receipts rename to elsewhere`); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); err == nil {
		t.Error("a database without receipts was called ready")
	}
}

// Go and SQL agree: SQL refuses every transition that Next refuses.
func TestTransition_FollowsNext(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	for _, from := range receipt.Statuses {
		for _, to := range receipt.Statuses {
			if _, err := pool.Exec(t.Context(), `update receipts set status = $1`, string(from)); err != nil {
				t.Fatal(err)
			}
			err := s.Transition(t.Context(), id, to, "why", "error")
			want := receipt.Next(from, to)
			if (err == nil) != (want == nil) {
				t.Errorf("%s -> %s: got %v, want %v", from, to, err, want)
			}
			if got := mustGet(t, s, id); want == nil && (got.Status != to || got.Reason != "why" || got.LastError != "error") || want != nil && got.Status != from {
				t.Errorf("%s -> %s: ended as %s (%s)", from, to, got.Status, got.Reason)
			}
		}
	}
	if err := s.Transition(t.Context(), uuid.NewString(), receipt.Dead, "", ""); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestOpen_CountsAndAges(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	ctx := t.Context()
	id := mustInsert(t, s, delivery(event("evt_1")))[0].ReceiptID
	mustInsert(t, s, delivery(event("evt_2")))
	mustInsert(t, s, delivery(event("evt_3")))
	if err := s.Transition(ctx, id, receipt.Processing, "", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `update receipts set received_at = now() - case event_id when 'evt_1' then interval '1 hour' when 'evt_2' then interval '1 minute' else interval '0' end`); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `update receipts set mode = 'live', type = case event_id when 'evt_2' then 'invoice.paid' else 'invoicexpaid' end`); err != nil {
		t.Fatal(err)
	}
	open, err := s.Waiting(ctx, []string{"charge.%", `invoice.paid`, `invoice\_x%`})
	if err != nil || len(open) != 3 {
		t.Errorf("open are %v, %v", open, err)
	}
	for _, o := range open {
		want := map[receipt.Open]float64{{Status: receipt.Processing, Mode: "live"}: 3600, {Status: receipt.Received, Mode: "live"}: 0,
			{Status: receipt.Received, Mode: "live", Financial: true}: 60}[o.Open]
		if o.Count != 1 || o.Seconds < want || o.Seconds > want+60 {
			t.Errorf("open is %+v, want one with an age of %v s", o, want)
		}
	}
}

func TestCounts_Add(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	day := time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)
	for range 2 {
		if err := s.CountSources(t.Context(), []receipt.SourceCount{
			{Source: "b", What: receipt.Refused, Name: "x", Day: day, Count: 1, Last: day}, {Source: "a", What: receipt.Refused, Name: "x", Day: day, Count: 5, Last: day},
			{Source: "a", What: receipt.Admitted, Name: "l", Day: day, Count: 2, Last: day}, {Source: "a", What: receipt.Admitted, Name: "l", Day: day.AddDate(0, 0, 1), Count: 3, Last: day.AddDate(0, 0, 1)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, pool, `select count from source_counts where source = 'a' and what = 'refused' and name = 'x' and day = '2026-11-20'`); n != 10 {
		t.Errorf("rejections: got %d, want 10", n)
	}
	want := receipt.SecretUse{Source: "a", Label: "l", Uses: 10, LastUsed: day.AddDate(0, 0, 1)}
	if uses, err := s.SecretUses(t.Context()); err != nil || len(uses) != 1 || uses[0].Uses != want.Uses || !uses[0].LastUsed.Equal(want.LastUsed) {
		t.Errorf("uses: got %+v, %v, want %+v", uses, err, want)
	}
}

// Old counts are deleted. The last day on which a secret was used and the last weeks of a silent source are kept.
func TestTrimCounts_KeepsWhatIsRead(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	for _, sql := range []string{
		`insert into source_counts select 'a', 'admitted', 'used', '2026-06-01'::date - n, 1, '2026-06-01'::timestamptz - n * interval '1 day' from generate_series(0, 200) n`,
		`insert into source_counts values ('a', 'admitted', 'left', '2020-01-01', 7, '2020-01-01')`,
		`insert into source_hours select 'a', '2026-06-01'::timestamptz - n * interval '1 hour', 1 from generate_series(0, 2000) n`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := receipt.TrimCounts(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	uses, err := s.SecretUses(t.Context())
	if err != nil || len(uses) != 2 || uses[0].Uses != 7 || uses[1].Uses != 91 {
		t.Errorf("uses: got %+v, %v, want 7 of left and 91 of used", uses, err)
	}
	if n := count(t, pool, `select count(*) from source_hours`); n != 35*24+1 {
		t.Errorf("%d hours are kept, want 35 days", n)
	}
}
