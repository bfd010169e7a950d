package outbox_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/outbox"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

type bundle struct {
	*testing.T
	pool  *pgxpool.Pool
	store *outbox.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	return bundle{t, pool, outbox.New(pool)}
}

// write writes one event per account in names to the outbox, in this order.
func (b bundle) write(accounts ...string) {
	b.Helper()
	for _, account := range accounts {
		if _, err := b.pool.Exec(b.Context(), `insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data)
			values ($1, 'live', $2, 'invoice.paid', $3, 'key', '{"a":1}')`, uuid.New(), account, uuid.New()); err != nil {
			b.Fatal(err)
		}
	}
}

func (b bundle) take(lease time.Duration) []outbox.Event {
	b.Helper()
	events, err := b.store.Take(b.Context(), 10, lease)
	if err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(events, func(x, y outbox.Event) int { return int(x.ID - y.ID) })
	return events
}

func (b bundle) settle(s outbox.Settled) {
	b.Helper()
	if err := b.store.Settle(b.Context(), []outbox.Settled{s}); err != nil {
		b.Fatal(err)
	}
}

func accounts(events []outbox.Event) (list []string) {
	for _, e := range events {
		list = append(list, e.Account)
	}
	return list
}

func TestTake_OldestOfEachAccountAndWhatFollows(t *testing.T) {
	b := setup(t)
	b.write("a", "a", "b", "a", "b")
	first := b.take(time.Minute)
	if got := accounts(first); !slices.Equal(got, []string{"a", "a", "b", "a", "b"}) || first[0].Attempts != 1 || first[1].Attempts != 0 || string(first[0].Data) != `{"a": 1}` {
		t.Fatalf("took %+v, want all, in their order", first)
	}
	if again := b.take(time.Minute); len(again) != 0 {
		t.Errorf("took %v while the first are leased: an account's order would be lost", accounts(again))
	}
	b.settle(outbox.Settled{ID: first[0].ID, Published: true})
	next := b.take(time.Minute)
	if got := accounts(next); !slices.Equal(got, []string{"a", "a"}) || next[0].ID != first[1].ID {
		t.Errorf("took %+v, want what followed in a", next)
	}
}

// Each of the events of one change is written twice, by the insert and the completion. Only the oldest event is also
// written when it is taken.
func TestWrite_SeveralOfAnAccount_OnlyTheOldestIsWrittenWhenTaken(t *testing.T) {
	b := setup(t)
	batch := &pgx.Batch{}
	outbox.Write(batch, "live", uuid.NewString(), "key", []outbox.News{
		{Account: "a", Type: "invoice.paid", Data: json.RawMessage(`{}`)}, {Account: "b", Type: "access.changed", Data: json.RawMessage(`{}`)},
		{Account: "a", Type: "access.changed", Data: json.RawMessage(`{}`)},
	})
	if err := b.pool.SendBatch(b.Context(), batch).Close(); err != nil {
		b.Fatal(err)
	}
	places := func() (list []string) {
		rows, _ := b.pool.Query(b.Context(), `select ctid::text from outbox order by id`)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			b.Fatal(err)
		}
		return list
	}
	before := places()
	taken := b.take(time.Minute)
	if got := accounts(taken); !slices.Equal(got, []string{"a", "b", "a"}) || taken[0].Type != "invoice.paid" {
		t.Fatalf("took %+v, want all, in their order", taken)
	}
	if after := places(); after[0] == before[0] || after[1] == before[1] || after[2] != before[2] {
		t.Errorf("rows were at %v and are at %v: want the oldest of each account written, and no other", before, after)
	}
	if again := b.take(time.Minute); len(again) != 0 {
		t.Errorf("took %v, which others are at", accounts(again))
	}
	b.settle(outbox.Settled{ID: taken[0].ID, Published: true})
	if next := b.take(time.Minute); len(next) != 1 || next[0].ID != taken[2].ID {
		t.Errorf("took %+v, want the event behind the published one", next)
	}
}

func TestTake_LeaseOver_HandedOutAgain(t *testing.T) {
	b := setup(t)
	b.write("a")
	first := b.take(0)
	again := b.take(time.Minute)
	if len(again) != 1 || again[0].EventID != first[0].EventID || again[0].Attempts != 2 {
		t.Errorf("took %+v, want the same event again", again)
	}
}

func TestSettle_Refused_RemembersWhoHasIt(t *testing.T) {
	b := setup(t)
	b.write("a", "a")
	e := b.take(time.Minute)[0]
	b.settle(outbox.Settled{ID: e.ID, DeliveredTo: []string{"crm"}, Error: "destination search: answered 503"})
	again := b.take(time.Minute)
	if len(again) != 2 || again[0].ID != e.ID || !slices.Equal(again[0].DeliveredTo, []string{"crm"}) {
		t.Fatalf("took %+v, want the refused one first, known to crm", again)
	}
	b.settle(outbox.Settled{ID: e.ID, DeliveredTo: []string{"crm"}, RetryIn: time.Hour})
	if later := b.take(time.Minute); len(later) != 0 {
		t.Errorf("took %+v, want the account to wait for its oldest", later)
	}
	if n, oldest, err := b.store.Pending(b.Context()); err != nil || n != 2 || oldest <= 0 {
		t.Errorf("pending: %d, oldest %s, %v", n, oldest, err)
	}
}

func TestSettle_PublishedStaysPublished(t *testing.T) {
	b := setup(t)
	b.write("a")
	e := b.take(time.Minute)[0]
	b.settle(outbox.Settled{ID: e.ID, DeliveredTo: []string{"crm"}, Published: true})
	b.settle(outbox.Settled{ID: e.ID, Error: "a slower publisher"})
	if n, _, err := b.store.Pending(b.Context()); err != nil || n != 0 {
		t.Errorf("pending: %d %v", n, err)
	}
}

func TestTake_Concurrently_EachEventOnce(t *testing.T) {
	b := setup(t)
	for range 10 {
		b.write("a", "b", "c", "d")
	}
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		seen  []outbox.Event
	)
	for range 6 {
		group.Go(func() {
			for {
				events, err := b.store.Take(b.Context(), 2, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				var settled []outbox.Settled
				mu.Lock()
				seen = append(seen, events...)
				done := len(seen) == 40
				mu.Unlock()
				for _, e := range events {
					settled = append(settled, outbox.Settled{ID: e.ID, Published: true})
				}
				if err := b.store.Settle(b.Context(), settled); err != nil {
					t.Error(err)
					return
				}
				if n, _, err := b.store.Pending(b.Context()); err != nil || n == 0 || done {
					return
				}
			}
		})
	}
	group.Wait()
	last := map[string]int64{}
	for _, e := range seen {
		if e.Attempts > 1 || e.ID <= last[e.Account] {
			t.Errorf("event %d of %s was taken %d times, after %d", e.ID, e.Account, e.Attempts, last[e.Account])
		}
		last[e.Account] = e.ID
	}
	if len(seen) != 40 {
		t.Errorf("%d events were taken, want 40", len(seen))
	}
}

// A destination that is down for a day leaves many waiting events, of one account or of many accounts. Take reads
// none of the waiting events, and finds the due events.
func TestTake_ManyWait_ReadsWhatIsDue(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]string{"of one account": "'a'", "of 50,000 accounts": "'a' || n"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			if _, err := b.pool.Exec(b.Context(), `set local statement_timeout = '1min'; insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data, next_at)
				select gen_random_uuid(), 'live', `+account+`, 'invoice.paid', gen_random_uuid(), 'key', '{}', now() + interval '4 minutes' from generate_series(1, 50000) n`); err != nil {
				t.Fatal(err)
			}
			b.write("a1", "b") // a1 waits for an older event
			statements := schematest.Statements(t, ".")
			for i, read := range []int{b.reads(statements["stand back"], 256), b.reads(statements["take"], 64, time.Minute.Seconds(), 16)} {
				if read == 0 || read > 30 {
					t.Errorf("statement %d read %d rows", i, read)
				}
			}
			b.write("c")
			begin := time.Now()
			if got := accounts(b.take(time.Minute)); !slices.Equal(got, []string{"c"}) {
				t.Errorf("took %v, want the due events that were not taken", got)
			}
			t.Logf("took %s", time.Since(begin))
		})
	}
}

// reads runs a statement and returns the number of rows that the executed plan processed.
func (b bundle) reads(sql string, args ...any) int {
	b.Helper()
	var plan string
	if err := b.pool.QueryRow(b.Context(), `explain (analyze, format json) `+sql, args...).Scan(&plan); err != nil {
		b.Fatal(err)
	}
	var explained []struct{ Plan planned }
	if err := json.Unmarshal([]byte(plan), &explained); err != nil {
		b.Fatal(err)
	}
	return explained[0].Plan.read()
}

// If many events of an account wait behind its oldest event, other accounts are not delayed. After the oldest event
// is published, Take returns the account's other events in order.
func TestTake_LongQueueOfOneAccount_OthersGoOn(t *testing.T) {
	b := setup(t)
	b.write("a")
	head := b.take(time.Hour)[0]
	for range 600 { // more events than two calls of Take process
		b.write("a")
	}
	b.write("b")
	if got := accounts(b.take(time.Minute)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("took %v, want the event of the other account", got)
	}
	b.settle(outbox.Settled{ID: head.ID, Published: true})
	for last, n := head.ID, 0; n < 5; n++ {
		next := b.take(time.Minute)
		if len(next) != 16 {
			t.Fatalf("took %d behind %d, want the next 16 of the account", len(next), last)
		}
		for _, e := range next {
			if e.ID != last+1 {
				t.Fatalf("took %d behind %d", e.ID, last)
			}
			last = e.ID
			b.settle(outbox.Settled{ID: last, Published: true})
		}
	}
}

// An event that waits for an older event becomes due as soon as the older event is published, however publishers and
// writers interleave. No event waits for the five minutes of its fallback.
func TestTake_WrittenMeanwhile_NobodyLeftStanding(t *testing.T) {
	b := setup(t)
	var writers, publishers sync.WaitGroup
	for _, account := range []string{"a", "b", "c"} {
		writers.Go(func() {
			for range 100 {
				b.write(account)
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	var mu sync.Mutex
	last := map[string]int64{}
	for range 3 {
		publishers.Go(func() {
			for over := false; ; {
				events, err := b.store.Take(b.Context(), 2, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				var settled []outbox.Settled
				for _, e := range events {
					mu.Lock()
					if e.ID <= last[e.Account] {
						t.Errorf("event %d of %s after %d", e.ID, e.Account, last[e.Account])
					}
					last[e.Account] = e.ID
					mu.Unlock()
					settled = append(settled, outbox.Settled{ID: e.ID, Published: true})
				}
				if err := b.store.Settle(b.Context(), settled); err != nil {
					t.Error(err)
					return
				}
				if over && len(events) == 0 {
					return
				}
				select {
				case <-written:
					over = len(events) == 0
				default:
				}
			}
		})
	}
	publishers.Wait()
	for range 3 { // the last publisher may have stopped while another publisher leased an event
		for _, e := range b.take(time.Minute) {
			b.settle(outbox.Settled{ID: e.ID, Published: true})
		}
	}
	if n, _, err := b.store.Pending(b.Context()); err != nil || n != 0 {
		rows, _ := b.pool.Query(b.Context(), `select account || ' ' || id || ' ' || (next_at - now())::text || ' ' || attempts from outbox where published_at is null order by account, id`)
		left, _ := pgx.CollectRows(rows, pgx.RowTo[string])
		t.Errorf("%d events are left, %v: %q", n, err, left)
	}
}

// planned contains the fields of an executed plan's node that the test reads.
type planned struct {
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []planned
}

// read returns the number of rows that the node and its children processed.
func (p planned) read() int {
	sum := int((p.Rows + p.Removed) * p.Loops)
	for _, below := range p.Plans {
		sum += below.read()
	}
	return sum
}

func TestStatements(t *testing.T) {
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Open: []string{"pending", "take", "stand back", "refused"}})
}
