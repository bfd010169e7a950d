package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

type bundle struct {
	*testing.T
	pool  *pgxpool.Pool
	store *audit.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	return bundle{t, pool, audit.New(pool, quiet)}
}

var quiet = slog.New(slog.DiscardHandler)

func (b bundle) append(n int) {
	b.Helper()
	err := b.store.Append(b.Context(), audit.Action{
		RequestID: fmt.Sprintf("request-%d", n), Actor: "ada", Issuer: "local", Subject: "ada", Action: "retry", Target: fmt.Sprintf("evt_%d", n), Reason: "looked at \"it\"\n|",
		Before: map[string]any{"status": "dead", "attempts": n, "ratio": 0.5, "effects": []string{"z", "a"}}, After: map[string]any{"status": "processing"},
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b bundle) verify(rows int) (head string) {
	b.Helper()
	head, n, err := b.store.Verify(b.Context(), "")
	if err != nil || n != rows {
		b.Fatalf("verify: %d rows, %v; want %d", n, err, rows)
	}
	return head
}

func TestVerify_WholeChain(t *testing.T) {
	b := setup(t)
	heads := map[string]bool{b.verify(0): true}
	for n := range 5 {
		b.append(n)
		heads[b.verify(n+1)] = true
	}
	if len(heads) != 6 {
		t.Errorf("%d heads for 6 chains: a head must depend on the rows that it covers", len(heads))
	}
}

func TestVerify_Tampered_NamesTheFirstBadRow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ sql, row string }{
		"issuer edited":    {`update operator_actions set issuer = 'https://other.example' where id = 3`, "row 3"},
		"subject edited":   {`update operator_actions set subject = 'eve' where id = 3`, "row 3"},
		"arguments edited": {`update operator_actions set arguments = sha256('x') where id = 3`, "row 3"},
		"actor edited":     {`update operator_actions set actor = 'eve' where id = 3`, "row 3"},
		"reason edited":    {`update operator_actions set reason = reason || '.' where id = 2`, "row 2"},
		"time edited":      {`update operator_actions set at = at - interval '1 microsecond' where id = 4`, "row 4"},
		"before edited":    {`update operator_actions set before = jsonb_set(before, '{attempts}', '99') where id = 1`, "row 1"},
		"target moved":     {`update operator_actions set target = '', reason = target || reason where id = 3`, "row 3"},
		"middle deleted":   {`delete from operator_actions where id = 3`, "row 4"},
		"first deleted":    {`delete from operator_actions where id = 1`, "row 2"},
		"reordered":        {`update operator_actions set id = case id when 2 then 103 else 102 end where id in (2, 3); update operator_actions set id = id - 100 where id > 100`, "row 2"},
		"hash forged":      {`update operator_actions set actor = 'eve', hash = sha256('x') where id = 5`, "row 5"},
		"one slipped in": {`insert into operator_actions (id, request_id, actor, action, target, reason, prev_hash, hash)
			overriding system value values (6, 'x', 'eve', 'retry', 'evt', 'no reason', sha256('x'), sha256('y'))`, "row 6"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			for n := range 5 {
				b.append(n)
			}
			// A plain update of an identity column fails, so the attacker in this test removes the identity first.
			tamper := `alter table operator_actions alter column id drop identity; ` + strings.Replace(tt.sql, "overriding system value ", "", 1)
			if _, err := b.pool.Exec(t.Context(), tamper); err != nil {
				t.Fatal(err)
			}
			// The changed row may be at the border of two pages.
			for page := 1; page <= 6; page++ {
				b.store.InPagesOf(page)
				_, _, err := b.store.Verify(t.Context(), "")
				if !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), tt.row+" ") {
					t.Errorf("verify in pages of %d: %v, want the chain broken at %s", page, err, tt.row)
				}
			}
		})
	}
}

// The second of two concurrent writers uses up an ID, and so does a repeated request. The chain is intact although
// its IDs have gaps.
func TestVerify_GapsBetweenIDs_Whole(t *testing.T) {
	b := setup(t)
	for n := range 7 {
		b.append(n)
		b.append(n)
		if _, err := b.pool.Exec(t.Context(), `select nextval(pg_get_serial_sequence('operator_actions', 'id')) from generate_series(1, $1)`, n); err != nil {
			t.Fatal(err)
		}
	}
	var last int
	if err := b.pool.QueryRow(t.Context(), `select max(id) from operator_actions`).Scan(&last); err != nil || last < 20 {
		t.Fatalf("the last ID is %d, %v: the test has made no gaps", last, err)
	}
	for page := 1; page <= 8; page++ {
		b.store.InPagesOf(page)
		b.verify(7)
	}
}

// This trail has several pages of the real size.
func TestVerify_ManyPages(t *testing.T) {
	b := setup(t)
	const rows = 1201
	for n := range rows {
		b.append(n)
	}
	head := b.verify(rows)
	if _, err := b.pool.Exec(t.Context(), `delete from operator_actions where request_id = 'request-1000'`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.store.Verify(t.Context(), head); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("a row of the third page was deleted: %v, want the chain broken", err)
	}
}

// A server process also logs the heads after actions of other processes: a command logs its own heads only on its
// terminal.
func TestWatch_HeadsOfOthers_LoggedOnceEach(t *testing.T) {
	b := setup(t)
	b.append(1)
	heads := make(chan string, 10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go audit.New(b.pool, slog.New(logged(heads))).Watch(ctx, 10*time.Millisecond)
	for n := 1; n <= 3; n++ {
		select {
		case head := <-heads:
			if want := b.verify(n); head != want {
				t.Errorf("logged %s, want %s", head, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("head %d was not logged", n)
		}
		b.append(n + 1)
	}
}

// logged is a log handler that sends the heads to a channel.
type logged chan string

func (l logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logged) WithGroup(string) slog.Handler            { return l }

func (l logged) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "head" {
			l <- a.Value.String()
		}
		return true
	})
	return nil
}

// The log line of each action contains the head after the action. The trail must contain this head forever. If an
// attacker removes the end of the trail and appends new rows, every later log line reveals it.
func TestAppend_HeadIsLogged_FindsACutEnd(t *testing.T) {
	b := setup(t)
	var logged bytes.Buffer
	b.store = audit.New(b.pool, slog.New(slog.NewJSONHandler(&logged, nil)))
	for n := range 3 {
		b.append(n)
		b.append(n) // a repeated action is neither executed nor logged
	}
	type line struct{ Msg, Actor, Action, Target, Head, Request_ID string }
	var lines []line
	for text := range strings.Lines(logged.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
		if strings.Contains(text, "looked at") {
			t.Errorf("the log has the reason, which may name a person: %s", text)
		}
	}
	if len(lines) != 3 || lines[2].Msg != "audit" || lines[2].Actor != "ada" || lines[2].Action != "retry" || lines[2].Target != "evt_2" || lines[2].Request_ID != "request-2" {
		t.Fatalf("logged %+v", lines)
	}
	if head := b.verify(3); head != lines[2].Head {
		t.Errorf("logged the head %s, want %s", lines[2].Head, head)
	}
	for n, l := range lines {
		if _, _, err := b.store.Verify(t.Context(), l.Head); err != nil {
			t.Errorf("with the head of line %d: %v", n, err)
		}
	}
	if _, err := b.pool.Exec(t.Context(), `delete from operator_actions where request_id in ('request-1', 'request-2')`); err != nil {
		t.Fatal(err)
	}
	b.append(4)
	b.verify(2) // the chain is intact
	for n, cut := range map[int]bool{0: false, 1: true, 2: true} {
		b.store.InPagesOf(n + 1)
		if _, _, err := b.store.Verify(t.Context(), lines[n].Head); errors.Is(err, audit.ErrBroken) != cut {
			t.Errorf("with the head of line %d: %v, want it cut: %t", n, err, cut)
		}
	}
}

func TestList_FiltersAndPages(t *testing.T) {
	b := setup(t)
	began := time.Now()
	for n := range 5 {
		b.append(n)
	}
	for _, a := range []audit.Action{
		{RequestID: "a", Actor: "bob", Action: "run", Target: "evt_1", Reason: "wanted"},
		{RequestID: "b", Actor: "bob", Action: "retry", Target: "evt_9", Reason: "again"},
	} {
		if err := b.store.Append(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.pool.Exec(t.Context(), `update operator_actions set at = at - interval '1 day' where request_id = 'request-0'`); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		filter audit.Filter
		want   string
	}{
		{audit.Filter{Limit: 50}, "b a request-4 request-3 request-2 request-1 request-0"},
		{audit.Filter{Limit: 2}, "b a"},
		{audit.Filter{Target: "evt_1", Limit: 50}, "a request-1"},
		{audit.Filter{Actor: "bob", Limit: 50}, "b a"},
		{audit.Filter{Action: "retry", Actor: "bob", Limit: 50}, "b"},
		{audit.Filter{Since: began.Add(-time.Minute), Actor: "ada", Limit: 50}, "request-4 request-3 request-2 request-1"},
		{audit.Filter{Target: "evt_none", Limit: 50}, ""},
	} {
		rows, err := b.store.List(t.Context(), tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]string, len(rows))
		for i, r := range rows {
			ids[i] = r.RequestID
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.filter, got, tt.want)
		}
	}
	var paged []string
	for f := (audit.Filter{Limit: 3}); ; {
		rows, err := b.store.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			paged, f.OlderThan = append(paged, r.RequestID), r.ID
		}
		if len(rows) < f.Limit {
			break
		}
	}
	if got := strings.Join(paged, " "); got != "b a request-4 request-3 request-2 request-1 request-0" {
		t.Errorf("in pages: %q", got)
	}
}

// If the last row is removed, the chain stays valid. Only a head that was stored elsewhere reveals the removal.
func TestVerify_LastRowDeleted_HeadDiffers(t *testing.T) {
	b := setup(t)
	b.append(0)
	b.append(1)
	head := b.verify(2)
	if _, err := b.pool.Exec(t.Context(), `delete from operator_actions where id = 2`); err != nil {
		t.Fatal(err)
	}
	if got := b.verify(1); got == head {
		t.Error("the head is the same after a row was cut off")
	}
	if _, _, err := b.store.Verify(t.Context(), head); !errors.Is(err, audit.ErrBroken) {
		t.Errorf("with the head from before: %v, want the chain broken", err)
	}
}

// An older head remains part of the chain when the chain grows.
func TestVerify_KeptHead_Found(t *testing.T) {
	b := setup(t)
	b.append(0)
	kept := b.verify(1)
	b.append(1)
	if _, rows, err := b.store.Verify(t.Context(), strings.ToUpper(kept)); err != nil || rows != 2 {
		t.Errorf("%d rows, %v; want both", rows, err)
	}
}

func TestAppend_SameRequest_Once(t *testing.T) {
	b := setup(t)
	for range 3 {
		b.append(1)
	}
	b.verify(1)
}

func TestAppend_Concurrently_OneChain(t *testing.T) {
	b := setup(t)
	var group sync.WaitGroup
	for n := range 30 {
		group.Go(func() { b.append(n % 20) })
	}
	group.Wait()
	b.verify(20)
}

// counted counts the queries of a pool.
type counted struct{ queries atomic.Int32 }

func (c *counted) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}

func (c *counted) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A writer that is killed during an append blocks no other writer, because an append is one statement.
func TestAppend_OneStatement(t *testing.T) {
	t.Parallel()
	options, err := pgxpool.ParseConfig(schematest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	sent := &counted{}
	options.ConnConfig.Tracer = sent
	pool, err := pgxpool.NewWithConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := bundle{t, pool, audit.New(pool, quiet)}
	b.append(1)
	if n := sent.queries.Load(); n != 1 {
		t.Errorf("%d statements, want one", n)
	}
	b.verify(1)
}

func TestStatements(t *testing.T) {
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Walks: []string{"append", "head", "list"}, Open: []string{"people"}})
}
