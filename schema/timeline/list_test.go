package timeline_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/schema/timeline"
)

// planned contains the fields of a plan's node that the test reads.
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

// fill inserts many receipts with subjects. The oldest receipts are the unusual ones.
func fill(tb testing.TB, db *pgxpool.Pool, many int) {
	tb.Helper()
	conn, err := db.Acquire(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		_ = conn.Conn().Close(tb.Context()) // with its setting
		conn.Release()
	}()
	if _, err := conn.Exec(tb.Context(), `set statement_timeout = '5min'`); err != nil {
		tb.Fatal(err)
	}
	for _, sql := range []string{`
		insert into receipts (id, source, provider, mode, event_id, identity, type, object_id, received_at, body_hash, status, reason)
		select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, case when n between 1 and 20 then 'old' else 'stripe' end, 'stripe', 'live', 'evt_' || n, 'id',
		       case when n between 21 and 40 then 'rare' else 'type' || n % 40 end, 'in_' || n, now(), '\x01',
		       case when n between 41 and 60 then 'compensated' when n between 61 and 80 then 'ignored' when n between 81 and 100 then 'dead' else 'processed' end,
		       case when n between 61 and 80 then 'type_ignored' when n between 81 and 100 then 'effect_failed: x' else '' end
		  from generate_series($1::int, $2::int) n`, `
		insert into event_subjects (receipt_id, object, main, customer, account, number, amount, currency)
		select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'in_' || n, true, 'cus_' || n / 10, case when n % 2 = 0 then 'large' else 'acct_' || n / 10 end,
		       'NO-' || n, 4900, 'usd'
		  from generate_series($1::int, $2::int) n`} {
		for at := 1; at <= many; at += 100_000 {
			if _, err := conn.Exec(tb.Context(), sql, at, min(at+99_999, many)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	// Outage 1 affects the receipts that are unusual, and outage 2 all others.
	if _, err := conn.Exec(tb.Context(), `insert into outage_events (outage, receipt_id, mode)
		select case when object_id in (select 'in_' || n from generate_series(1, 100) n) then 1 else 2 end, id, mode from receipts`); err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Exec(tb.Context(), `analyze receipts, event_subjects, outage_events`); err != nil {
		tb.Fatal(err)
	}
}

// lists contains queries of operators, and the number of [fill]'s receipts that each query returns.
var lists = map[string]struct {
	filter timeline.Filter
	want   int
}{

	"everything":          {timeline.Filter{}, 50},
	"processed":           {timeline.Filter{Status: "processed"}, 50},
	"dead":                {timeline.Filter{Status: "dead"}, 20},
	"received":            {timeline.Filter{Status: "received"}, 0},
	"compensated":         {timeline.Filter{Status: "compensated"}, 20},
	"ignored":             {timeline.Filter{Status: "ignored"}, 20},
	"a reason":            {timeline.Filter{ReasonCode: "type_ignored"}, 20},
	"no such reason":      {timeline.Filter{ReasonCode: "none"}, 0},
	"a rare type":         {timeline.Filter{Type: "rare"}, 20},
	"a common type":       {timeline.Filter{Type: "type7"}, 50},
	"no such type":        {timeline.Filter{Type: "none"}, 0},
	"an old source":       {timeline.Filter{Source: "old"}, 20},
	"source and type":     {timeline.Filter{Source: "stripe", Type: "rare", Status: "processed"}, 20},
	"an object":           {timeline.Filter{About: []string{"in_30"}}, 1},
	"a customer":          {timeline.Filter{About: []string{"cus_3"}}, 10},
	"an invoice number":   {timeline.Filter{About: []string{"NO-30"}}, 1},
	"an account":          {timeline.Filter{Accounts: []string{"acct_3"}}, 5},
	"a large account":     {timeline.Filter{Accounts: []string{"large"}}, 50},
	"two accounts":        {timeline.Filter{Accounts: []string{"acct_3", "acct_4"}}, 10},
	"parked of a large":   {timeline.Filter{Accounts: []string{"acct_8"}, Status: "dead", Objects: []string{"in_83"}}, 5},
	"of its customer":     {timeline.Filter{Accounts: []string{"large"}, About: []string{"cus_3"}}, 5},
	"of another account":  {timeline.Filter{Accounts: []string{"acct_4"}, About: []string{"in_31", "cus_3"}}, 0},
	"an outage":           {timeline.Filter{Outage: 1}, 50},
	"a long outage":       {timeline.Filter{Outage: 2}, 50},
	"no such outage":      {timeline.Filter{Outage: 3}, 0},
	"dead of an outage":   {timeline.Filter{Outage: 1, Status: "dead"}, 20},
	"test of an outage":   {timeline.Filter{Outage: 1, Mode: "test"}, 0},
	"account, outage":     {timeline.Filter{Outage: 1, Accounts: []string{"acct_3"}}, 5},
	"customer, outage":    {timeline.Filter{Outage: 1, About: []string{"cus_3", "NO-77"}}, 11},
	"both, outage":        {timeline.Filter{Outage: 1, About: []string{"cus_3"}, Accounts: []string{"acct_4"}}, 0},
	"parked, outage":      {timeline.Filter{Outage: 1, Accounts: []string{"none"}, Objects: []string{"in_83", "in_3"}}, 1},
	"a page of an outage": {timeline.Filter{Outage: 1, OlderThan: "00000000-0000-7000-8000-00000000000b"}, 10},
	"a page":              {timeline.Filter{Type: "type7", OlderThan: "00000000-0000-7000-8000-000000000fff"}, 50},
	"a time":              {timeline.Filter{Since: time.Now().Add(-time.Hour), Type: "rare"}, 0},
	"a window":            {timeline.Filter{Until: time.Now().Add(-100 * 24 * time.Hour), Type: "rare"}, 0},
	"a reason of a type":  {timeline.Filter{ReasonCode: "effect_failed", Type: "type1"}, 1},
}

// The matching rows are rare and older than nearly all other rows, and no list reads the rows in between.
func TestList_RareAmongMany_ReadsLittle(t *testing.T) {
	t.Parallel()
	const many = 60_000
	db := schematest.New(t)
	fill(t, db, many)
	for name, c := range lists {
		got, err := timeline.List(t.Context(), db, c.filter)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d and %v, want %d", name, len(got), err, c.want)
		}
		if sum, err := timeline.SumUp(t.Context(), db, c.filter, 49); err != nil || sum.Events != c.want {
			t.Errorf("%s: %d and %v are counted, want %d", name, sum.Events, err, c.want)
		}
		sql, args := timeline.ListStatement(c.filter)
		var text []byte
		if err := db.QueryRow(t.Context(), `explain (analyze, format json) `+sql, args...).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var explained []struct{ Plan planned }
		if err := json.Unmarshal(text, &explained); err != nil {
			t.Fatal(err)
		}
		// A list reads some rows per displayed row for its account, and per source, type and status as many rows as
		// it displays.
		if n := explained[0].Plan.read(); n > 12_000 {
			t.Errorf("%s: %d rows of %d were read", name, n, many)
		}
	}
	// A page begins after the last row of the previous page.
	first, err := timeline.List(t.Context(), db, timeline.Filter{Source: "stripe", Limit: 30})
	if err != nil {
		t.Fatal(err)
	}
	second, err := timeline.List(t.Context(), db, timeline.Filter{Source: "stripe", Limit: 30, OlderThan: first[29].ID})
	if err != nil || len(second) != 30 || uuid.MustParse(second[0].ID).String() >= first[29].ID {
		t.Errorf("second page begins with %v (%v), the first ends with %s", second, err, first[29].ID)
	}
}

// The benchmark measures a list, and the list of open events, among PAWL_RECEIPTS receipts.
func BenchmarkList(b *testing.B) {
	many := 100_000
	if n, err := strconv.Atoi(os.Getenv("PAWL_RECEIPTS")); err == nil {
		many = n
	}
	db := schematest.New(b)
	fill(b, db, many)
	for name, c := range lists {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got, err := timeline.List(b.Context(), db, c.filter); err != nil || len(got) != c.want {
					b.Fatalf("%d and %v, want %d", len(got), err, c.want)
				}
			}
		})
	}
	b.Run("backlog", func(b *testing.B) {
		for b.Loop() {
			if _, err := timeline.ReadBacklog(b.Context(), db); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("an event by its object", func(b *testing.B) {
		for b.Loop() {
			if _, err := timeline.Find(b.Context(), db, "in_30"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
