package rebuild_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// booksOf stores an entry of an object, as if finance had accepted it.
func booksOf(t *testing.T, pool *pgxpool.Pool, key, kind, object, account string, amount int64) {
	t.Helper()
	for _, sql := range []string{
		`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
			values ('00000000-0000-0000-0000-000000000001', 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed') on conflict do nothing`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
			values ('` + key + `', 'finance-export', 'done', '00000000-0000-0000-0000-000000000001', 'evt_1', 'r', now())`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	entry := billing.RecordEntry(fold.Entry{EffectKey: key, Mode: "live", Account: account, Object: object, Invoice: "in_1", Kind: kind, Amount: amount, Currency: "usd"})
	if _, err := pool.Exec(t.Context(), entry.SQL, entry.Args...); err != nil {
		t.Fatal(err)
	}
}

const (
	askedSQL     = `select concat_ws(' ', object, state, effect_key, substring(title from 'booked.*(?=: pawl)')) from tasks where kind = 'entry_differs' order by object`
	correctedSQL = `select concat_ws(' ', effect_key, corrects, account, amount, currency) from finance_corrections order by decided_at, effect_key`
)

// If parsing a payload again results in another amount, one task opens. The decision books the difference with a key
// that contains the ID of the parse. If the payload is parsed again before the decision and the difference
// disappears, the task closes. If a later parse finds a new difference, a task opens again, and the difference
// includes the correction.
func TestCorrection_AmountReadAnew_AskedOnceAndAnswered(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	facts := events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro")}, false)
	deliver(t, pool, facts, now)
	booksOf(t, pool, "finance-export:stripe:live:in_1", "payment", "in_1", "acme", 1000)
	acme := billing.Scope{Mode: "live", Account: "acme"}
	wants := func(when, sql string, want ...string) {
		t.Helper()
		if got := texts(t, pool, sql); !slices.Equal(got, append([]string{}, want...)) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	read := func(id string, amount int64) {
		t.Helper()
		appendReading(t, pool, id, rereadAs(facts[1], func(f *fact.Fact) {
			i := *f.Invoice
			i.Paid, i.Due = amount, amount
			f.Invoice = &i
		}))
		for range 2 { // a job may recompute an account twice
			if _, err := rebuild.Account(t.Context(), pool, acme, recompute(billing.CauseParser, id, policy, now)); err != nil {
				t.Fatal(err)
			}
		}
		if left := check(t, pool, billing.Scope{}, now); len(left) > 0 {
			t.Errorf("the rows are not what the facts come to: %q", left)
		}
	}
	answer := func(with string) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if with == "correct" {
				_, err := billing.Correct(t.Context(), tx, "live", "in_1", time.Now().UTC())
				return err
			}
			_, err := tx.Exec(t.Context(), `update tasks set state = 'done' where kind = 'entry_differs'`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const of = "finance-correction:stripe:live:in_1:"
	read("r1", 1300)
	wants("read", askedSQL, "in_1 open "+of+"r1 booked with 10.00 USD under acme, but the facts give 13.00 USD under acme")
	read("r2", 1000)
	wants("undone before the answer", askedSQL, "in_1 cancelled "+of+"r1 booked with 10.00 USD under acme, but the facts give 13.00 USD under acme")
	if _, err := billing.Corrections(t.Context(), pool, "live", "in_1"); !errors.Is(err, billing.ErrNoQuestion) {
		t.Errorf("of a question that is over: %v", err)
	}
	read("r3", 1300)
	answer("let it stand")
	read("r4", 1000)
	read("r5", 1300)
	wants("let stand", askedSQL, "in_1 done "+of+"r3 booked with 10.00 USD under acme, but the facts give 13.00 USD under acme")
	read("r6", 1500)
	wants("another difference", askedSQL, "in_1 open "+of+"r6 booked with 10.00 USD under acme, but the facts give 15.00 USD under acme")
	answer("correct")
	wants("corrected", correctedSQL, of+"r6 finance-export:stripe:live:in_1 acme 500 usd")
	read("r7", 1000)
	wants("undone after the answer", askedSQL, "in_1 open "+of+"r7 booked with 15.00 USD under acme, but the facts give 10.00 USD under acme")
	answer("correct")
	wants("corrected back", correctedSQL, of+"r6 finance-export:stripe:live:in_1 acme 500 usd", of+"r7 finance-export:stripe:live:in_1 acme -500 usd")
	if n := count(t, pool, `select count(*) from due where why = 'book' and object = 'in_1' and account = 'acme'`); n != 2 {
		t.Errorf("%d are due to be booked, want 2", n)
	}
	if _, err := rebuild.Account(t.Context(), pool, acme, recompute(billing.CauseRules, "rules-1", policy, now)); err != nil {
		t.Fatal(err)
	}
	wants("folded anew without a change", askedSQL, "in_1 done "+of+"r7 booked with 15.00 USD under acme, but the facts give 10.00 USD under acme")
}

// Another parser or other rules move objects to another account: an invoice with its subscription, and a refund with
// its invoice. One task per entry opens. The decision reverses the entry at the first account and books it at the
// second account.
func TestCorrection_AccountReadAnew_TakenAndGiven(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	moving := created(0, "active", "pro")
	facts := events([]fact.Fact{moving, paid(1, 1, "pro"), charge(1, 0), refunded("re_1", 10, "succeeded", 400)}, false)
	deliver(t, pool, facts, now)
	booksOf(t, pool, "finance-export:stripe:live:in_1", "payment", "in_1", "acme", 1000)
	booksOf(t, pool, "refund-entry:stripe:live:re_1", "refund", "re_1", "acme", 400)
	var moves []rebuild.FactChange
	for _, f := range facts[:2] {
		moves = append(moves, rereadAs(f, func(f *fact.Fact) {
			if f.Subscription != nil {
				s := *f.Subscription
				s.Account, f.Subscription = "umbrella", &s
			} else {
				i := *f.Invoice
				i.Account, f.Invoice = "umbrella", &i
			}
		}))
	}
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	comes, err := rebuild.Check(t.Context(), conn, rebuild.Request{Rules: policy, Reparse: &rebuild.Reparse{ID: "r1", Parser: 2, Facts: moves}, At: now}, nil)
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	entries := map[string][]rebuild.Entry{}
	for _, i := range comes.Impacts {
		entries[i.Account] = i.Entries
	}
	if want := map[string][]rebuild.Entry{"umbrella": {}, "acme": {
		{Object: "in_1", Money: map[string]int64{"usd": 1000}}, {Object: "re_1", Money: map[string]int64{"usd": 400}},
	}}; !reflect.DeepEqual(entries, want) {
		t.Errorf("entries %+v, want %+v", entries, want)
	}
	for _, account := range append(appendReading(t, pool, "r1", moves...), billing.Scope{Mode: "live", Account: "umbrella"}) {
		if _, err := rebuild.Account(t.Context(), pool, account, recompute(billing.CauseParser, "r1", policy, now)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := texts(t, pool, askedSQL), []string{
		"in_1 open finance-correction:stripe:live:in_1:r1 booked with 10.00 USD under acme, but the facts give 10.00 USD under umbrella",
		"re_1 open finance-correction:stripe:live:re_1:r1 booked with -4.00 USD under acme, but the facts give -4.00 USD under umbrella",
	}; !slices.Equal(got, want) {
		t.Fatalf("asked %q, want %q", got, want)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := billing.Correct(t.Context(), tx, "live", "in_1", time.Now().UTC())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const of = "finance-correction:stripe:live:in_1:r1"
	if got, want := texts(t, pool, correctedSQL), []string{of + " finance-export:stripe:live:in_1 umbrella 1000 usd", of + ":acme:usd finance-export:stripe:live:in_1 acme -1000 usd"}; !slices.Equal(got, want) {
		t.Errorf("corrected %q, want %q", got, want)
	}
}

// A compensated entry opens no task. An object without a booked entry opens no task either.
func TestCorrection_TakenBackOrNeverBooked_NobodyAsked(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	facts := events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), paid(2, 20, "pro")}, false)
	deliver(t, pool, facts, now)
	booksOf(t, pool, "finance-export:stripe:live:in_1", "payment", "in_1", "acme", 1000)
	booksOf(t, pool, "reverse-finance-entry:stripe:live:in_1", "reversal", "in_1", "acme", 1000)
	var gone []rebuild.FactChange
	for _, f := range facts[1:] {
		gone = append(gone, rereadAs(f, func(f *fact.Fact) { f.Data = fact.Data{} }))
	}
	appendReading(t, pool, "r1", gone...)
	if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: "acme"}, recompute(billing.CauseParser, "r1", policy, now)); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, pool, askedSQL); len(got) > 0 {
		t.Errorf("asked %q", got)
	}
	if n := count(t, pool, `select count(*) from invoices`); n != 0 {
		t.Errorf("%d invoices are left", n)
	}
}

// An invoice that was paid in parts keeps its parts: if a later parse finds another sum, this adds no part.
func TestCorrection_PaidInParts_NoPartMore(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	more := paid(1, 5, "pro")
	more.Invoice.Paid = 1500
	facts := events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), more}, false)
	deliver(t, pool, facts, now)
	sums := func(want string) {
		t.Helper()
		if got := texts(t, pool, `select concat_ws(' ', state ->> 'PaidSums', state ->> 'Paid') from invoices`); !slices.Equal(got, []string{want}) {
			t.Errorf("sums %q, want %q", got, want)
		}
	}
	sums("[1000, 1500] 1500")
	appendReading(t, pool, "r1", rereadAs(facts[2], func(f *fact.Fact) {
		i := *f.Invoice
		i.Paid, f.Invoice = 1700, &i
	}))
	acme := billing.Scope{Mode: "live", Account: "acme"}
	if _, err := rebuild.Account(t.Context(), pool, acme, recompute(billing.CauseParser, "r1", policy, now)); err != nil {
		t.Fatal(err)
	}
	sums("[1000, 1500] 1700")
	last := paid(1, 9, "pro")
	last.EventID, last.ReceiptID, last.Invoice.Paid = "evt_last", facts[0].ReceiptID, 1900
	deliver(t, pool, []fact.Fact{last}, now)
	sums("[1000, 1500, 1700] 1900") // 200 more were paid since then
}

// If only the tax was booked wrongly, a task opens and the tax can be corrected, as for an amount.
func TestCorrection_TaxReadAnew_AskedOnceAndAnswered(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	facts := events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro")}, false)
	deliver(t, pool, facts, now)
	booksOf(t, pool, "finance-export:stripe:live:in_1", "payment", "in_1", "acme", 1000)
	taxed := func(id string, tax int64) {
		t.Helper()
		appendReading(t, pool, id, rereadAs(facts[1], func(f *fact.Fact) {
			i := *f.Invoice
			i.Tax, f.Invoice = tax, &i
		}))
		if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: "acme"}, recompute(billing.CauseParser, id, policy, now)); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(when, sql string, want ...string) {
		t.Helper()
		if got := texts(t, pool, sql); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	const of = "finance-correction:stripe:live:in_1:"
	taxed("r1", 160)
	wants("read", askedSQL, "in_1 open "+of+"r1 booked with 10.00 USD, 0.00 USD of it tax, under acme, but the facts give 10.00 USD, 1.60 USD of it tax, under acme")
	taxed("r2", 190)
	wants("another tax", askedSQL, "in_1 open "+of+"r2 booked with 10.00 USD, 0.00 USD of it tax, under acme, but the facts give 10.00 USD, 1.90 USD of it tax, under acme")
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := billing.Correct(t.Context(), tx, "live", "in_1", time.Now().UTC())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wants("corrected", `select concat_ws(' ', effect_key, corrects, account, amount, tax, currency) from finance_corrections`,
		of+"r2 finance-export:stripe:live:in_1 acme 0 190 usd")
	taxed("r3", 190)
	wants("the same again", askedSQL, "in_1 done "+of+"r2 booked with 10.00 USD, 0.00 USD of it tax, under acme, but the facts give 10.00 USD, 1.90 USD of it tax, under acme")
}
