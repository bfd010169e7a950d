package rebuild_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A partial fact never replaces a complete fact, and a fact of an older parser never replaces a fact of a newer
// parser.
func TestCompareReadings(t *testing.T) {
	t.Parallel()
	lines := []fact.Line{{Price: "price_pro", Amount: 100}}
	invoice := func(reader int, in fact.Invoice) fact.Fact {
		f := fact.Fact{Kind: fact.InvoiceSeen, Object: "in_1", Reader: reader}
		f.EventID, f.Invoice = "evt_1", &in
		return f
	}
	session := func(in fact.Checkout) fact.Fact {
		return fact.Fact{Kind: fact.CheckoutSeen, Object: "cs_1", Data: fact.Data{Checkout: &in}}
	}
	full := invoice(1, fact.Invoice{Status: "paid", Paid: 100, Lines: lines})
	none := full
	none.Data = fact.Data{}
	for name, c := range map[string]struct {
		was, now []fact.Fact
		version  int
		want     []string
	}{
		"same":             {[]fact.Fact{full}, []fact.Fact{full}, 2, nil},
		"part of the same": {[]fact.Fact{full}, []fact.Fact{invoice(2, fact.Invoice{Status: "paid", Paid: 100, Partial: true})}, 2, nil},
		"part of another":  {[]fact.Fact{full}, []fact.Fact{invoice(2, fact.Invoice{Status: "paid", Paid: 90, Partial: true})}, 2, []string{"in_1 [Invoice.Paid] 1 lines"}},
		"more lines":       {[]fact.Fact{invoice(1, fact.Invoice{Status: "paid", Paid: 100, Partial: true})}, []fact.Fact{full}, 2, []string{"in_1 [Invoice.Lines Invoice.Partial] 1 lines"}},
		"lines of a session stay": {[]fact.Fact{session(fact.Checkout{Status: "open", Lines: lines})},
			[]fact.Fact{session(fact.Checkout{Status: "open"})}, 2, nil},
		"newer reader":    {[]fact.Fact{invoice(3, fact.Invoice{Paid: 1})}, []fact.Fact{full}, 2, nil},
		"no more":         {[]fact.Fact{full}, nil, 2, []string{"in_1 []"}},
		"no more, still":  {[]fact.Fact{none}, nil, 2, nil},
		"again":           {[]fact.Fact{none}, []fact.Fact{full}, 2, []string{"in_1 [] 1 lines"}},
		"new":             {nil, []fact.Fact{full}, 2, []string{"in_1 [] 1 lines"}},
		"older than this": {[]fact.Fact{full}, nil, 0, nil},
	} {
		var got []string
		for _, f := range rebuild.CompareFacts(c.was, c.now, c.version) {
			if f.After.Reader != c.version || f.After.Origin != fact.FromReread {
				t.Errorf("%s: is of version %d, origin %s", name, f.After.Reader, f.After.Origin)
			}
			says := fmt.Sprint(f.After.Object, " ", f.Fields())
			if f.After.Invoice != nil {
				says += fmt.Sprint(" ", len(f.After.Invoice.Lines), " lines")
			}
			got = append(got, says)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// appendReading appends facts that were parsed again, and returns the affected accounts.
func appendReading(t *testing.T, pool *pgxpool.Pool, id string, facts ...rebuild.FactChange) []billing.Scope {
	t.Helper()
	count, err := rebuild.Reparses(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	var about []billing.Scope
	r := rebuild.Reparse{ID: id, Parser: 2, Facts: facts, Before: count}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		about, err = r.AppendIn(t.Context(), tx, "ada", "a fault")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.ID += "-late"
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := r.AppendIn(t.Context(), tx, "bob", "compared before")
		return err
	}); !errors.Is(err, rebuild.ErrOutdated) {
		t.Errorf("a reading that was compared before another one: %v", err)
	}
	return about
}

// rereadAs returns a fact in the form in which another parser reads it.
func rereadAs(was fact.Fact, with func(*fact.Fact)) rebuild.FactChange {
	is := was
	is.Origin, is.Reader = fact.FromReread, 2
	with(&is)
	return rebuild.FactChange{Before: was, After: is}
}

// Events are applied while newly parsed facts are appended and their accounts are recomputed, several times and
// concurrently. Afterwards, the rows equal the result of the facts, and no account has lost access.
func TestReading_BesideLiveEvents_RowsAsTheFactsSay(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	const customers = 8
	var first, later []fact.Fact
	for n := range customers {
		sub := of(fmt.Sprint("sub_", n), fmt.Sprint("acme", n), fmt.Sprint("cus_", n))
		first = append(first, created(0, "active", "starter", sub))
		for second := range 5 {
			later = append(later, updated(50+second, "active", "starter", sub))
		}
		other := of(fmt.Sprint("sub_new_", n), fmt.Sprint("acme", n), fmt.Sprint("cus_", n))
		later = append(later, created(60, "active", "enterprise", other))
	}
	first, later = events(first, false), events(later, false)
	for i := range later {
		later[i].EventID = fmt.Sprint("evt_later_", i)
	}
	for i := range later { // each with its own receipt
		later[i].ReceiptID = fmt.Sprintf("00000000-0000-7000-9000-%012d", i)
	}
	receiptsOf(t, pool, append(first, later...)...)
	deliver(t, pool, first, now)
	var facts []rebuild.FactChange
	for i, f := range first {
		account := fmt.Sprint("moved", i)
		facts = append(facts, rereadAs(f, func(f *fact.Fact) {
			s := *f.Subscription
			s.Account = account
			f.Subscription = &s
		}))
	}
	var side sync.WaitGroup
	side.Go(func() {
		for _, f := range later {
			if err := applyPatiently(t.Context(), pool, f); err != nil {
				t.Errorf("apply %s: %v", f.EventID, err)
			}
		}
	})
	about := appendReading(t, pool, "reread-1", facts...)
	if len(about) < customers {
		t.Errorf("the reading is about %v", about)
	}
	for range 2 {
		for _, of := range about {
			side.Go(func() {
				for { // as a job does, retry if the wait for a lock is too long
					_, err := rebuild.Account(t.Context(), pool, of, recompute(billing.CauseParser, "reread-1", policy, now))
					if busy := (&pgconn.PgError{}); !errors.As(err, &busy) || busy.Code != "55P03" {
						if err != nil {
							t.Errorf("fold %v: %v", of, err)
						}
						return
					}
				}
			})
		}
	}
	side.Wait()
	if left := check(t, pool, billing.Scope{}, now); len(left) > 0 {
		t.Errorf("the rows are not what the facts come to: %q", left)
	}
	const wrongSQL = `select count(*) from event_subjects s full join facts f on f.receipt_id = s.receipt_id and f.object = s.object left join subscriptions o on o.id = f.object
		where f.reading = '' and s.account is distinct from o.account`
	if n := count(t, pool, wrongSQL); n > 0 {
		t.Errorf("%d subjects of events are not the accounts of their subscriptions: %q", n, subjects(t, pool))
	}
	if n := count(t, pool, `select count(*) from grants where plan = 'enterprise'`); n != customers {
		t.Errorf("%d of %d new subscriptions grant", n, customers)
	}
}

// If a payload, parsed again, does not contain an object, the object and its grant are removed. If a later parse
// finds the object again, both are restored.
func TestReparse_ObjectNotMentioned_GoneUntilFoundAgain(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	facts := events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro")}, false)
	receiptsOf(t, pool, facts...)
	deliver(t, pool, facts, now)
	told := subjects(t, pool)
	if len(told) != len(facts) {
		t.Fatalf("subjects %q of %d events", told, len(facts))
	}
	acme := billing.Scope{Mode: "live", Account: "acme"}
	fold := func(want string) {
		t.Helper()
		if _, err := rebuild.Account(t.Context(), pool, acme, recompute(billing.CauseParser, "reread-1", policy, now)); err != nil {
			t.Fatal(err)
		}
		if left := check(t, pool, billing.Scope{}, now); len(left) > 0 {
			t.Errorf("the rows are not what the facts come to: %q", left)
		}
		var got string
		if err := pool.QueryRow(t.Context(), `select concat_ws(' ', target_state, (select count(*) from subscriptions),
			(select count(*) from invoices), (select count(*) from grants)) from accounts where id = 'acme'`).Scan(&got); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	var gone, found []rebuild.FactChange
	for _, f := range facts {
		none := rereadAs(f, func(f *fact.Fact) { f.Data = fact.Data{} })
		gone = append(gone, none)
		found = append(found, rereadAs(none.After, func(again *fact.Fact) { again.Data = f.Data }))
	}
	appendReading(t, pool, "reread-1", gone...)
	if left := subjects(t, pool); len(left) > 0 {
		t.Errorf("the events still have the subjects %q", left)
	}
	fold("suspended 0 0 0")
	appendReading(t, pool, "reread-2", found...)
	if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live"}, recompute(billing.CauseParser, "reread-1", policy, now)); err != nil {
		t.Fatal(err)
	}
	fold("active 1 1 1")
	if again := subjects(t, pool); !slices.Equal(again, told) {
		t.Errorf("the events have the subjects %q, want %q as before", again, told)
	}
}
