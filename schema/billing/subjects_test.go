package billing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

// wantSubjects computes the subjects from the facts of one event each, and from the current accounts of the objects.
func wantSubjects(t *testing.T, db ledger.Tx, facts []fact.Fact) (want []string) {
	t.Helper()
	rows, err := db.Query(t.Context(), `select id, account from invoices union select id, account from subscriptions union select id, account from objects`)
	if err != nil {
		t.Fatal(err)
	}
	accounts := map[string]string{}
	var object, account string
	if _, err := pgx.ForEachRow(rows, []any{&object, &account}, func() error { accounts[object] = account; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		for n, f := range append([]fact.Fact{f}, fact.LinksOf(f)...) {
			account := accounts[f.Object]
			if account == "" && f.Link != nil {
				account = f.Link.Account
			}
			if account == "" {
				account = f.Customer
			}
			main := n == 0 && (f.Origin == fact.FromEvent || f.Origin == fact.FromReread)
			want = append(want, fmt.Sprint(f.ReceiptID, " ", f.Object, " main=", main, " ", account, " ", f.Customer, " ", amountOf(f)))
		}
	}
	slices.Sort(want)
	return slices.Compact(want)
}

func amountOf(f fact.Fact) string {
	var amount int64
	switch {
	case f.Invoice != nil && f.Invoice.Paid != 0:
		amount = f.Invoice.Paid
	case f.Invoice != nil:
		amount = f.Invoice.Due
	case f.Payment != nil:
		amount = f.Payment.Amount
	case f.Checkout != nil:
		amount = f.Checkout.Amount
	case f.Refund != nil:
		amount = f.Refund.Amount
	case f.Dispute != nil:
		amount = f.Dispute.Amount
	case f.Credit != nil:
		amount = f.Credit.Amount
	default:
		return "-"
	}
	return fmt.Sprint(amount, " ", f.Currency())
}

// rewritten returns the rows that would change if all subjects were written again.
func rewritten(t *testing.T, pool *pgxpool.Pool) (differ []string) {
	t.Helper()
	before := subjects(t, pool)
	writeSubjects(t, pool)
	for _, row := range subjects(t, pool) {
		if !slices.Contains(before, row) {
			differ = append(differ, row)
		}
	}
	return differ
}

func writeSubjects(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	b := &pgx.Batch{}
	billing.WriteSubjects(b, texts(t, pool, `select id::text from receipts`))
	if err := pool.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
}

func ofObject(t *testing.T, db schema.Querier, columns, object string) []string {
	t.Helper()
	return texts(t, db, `select concat_ws(' ', `+columns+`) from event_subjects where object = '`+object+`' order by receipt_id`)
}

// The events before the move also belong to the new account. An event about the customer keeps the account that it
// names, because a customer is not an object.
func TestSubjects_CustomerLinkedToAnotherAccount_EarlierEventsFollow(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	nameless := with(func(s *fact.Subscription) { s.Account = "" })
	unnamed := func(f *fact.Fact) { f.Invoice.Account = "" }
	facts := events([]fact.Fact{created(0, "active", "pro", nameless), paid(1, 1, "pro", unnamed), paid(2, 2, "pro", unnamed, oneOff(10*day)), charge(3, 0), linked("cus_1", 4, "acme")}, false)
	receiptsOf(t, pool, facts...)
	deliver(t, pool, facts[:4], at(100))
	for _, object := range []string{"sub_1", "in_1", "in_2", "ch_1"} {
		if got := ofObject(t, pool, "account", object); !slices.Equal(got, []string{"cus_1"}) {
			t.Errorf("%s before the link: %q, want the account cus_1", object, got)
		}
	}
	deliver(t, pool, facts[4:], at(100))
	for _, object := range []string{"sub_1", "in_1", "in_2", "ch_1", "cus_1"} {
		if got := ofObject(t, pool, "account", object); !slices.Equal(got, []string{"acme"}) {
			t.Errorf("%s after the link: %q, want the account acme", object, got)
		}
	}
	if differ := rewritten(t, pool); len(differ) > 0 {
		t.Errorf("a second write changes %q", differ)
	}
}

// A draft invoice has no number. Its events and the events of its payment are found by the number that the invoice
// gets later.
func TestSubjects_InvoiceGetsItsNumberLater_EarlierEventsHaveIt(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	numbered := func(f *fact.Fact) { f.Invoice.Number = "PAWL-1" }
	facts := events([]fact.Fact{invoice(1, 1, "draft", "pro"), charge(2, 0), paid(1, 3, "pro", numbered)}, false)
	receiptsOf(t, pool, facts...)
	deliver(t, pool, facts[:2], at(100))
	if got := ofObject(t, pool, "object, number", "in_1"); !slices.Equal(got, []string{"in_1 "}) {
		t.Errorf("the draft: %q, want no number", got)
	}
	deliver(t, pool, facts[2:], at(100))
	if got := texts(t, pool, `select object from event_subjects where number = 'PAWL-1' order by receipt_id`); !slices.Equal(got, []string{"in_1", "ch_1", "in_1"}) {
		t.Errorf("of PAWL-1: %q, want the draft, the payment and the paid invoice", got)
	}
}

// An event about several objects has one main subject: the first object with an amount. A fact that was fetched for
// the event cannot be the main subject, because the event itself does not contain it.
func TestSubjects_EventWithSeveralObjects_OneIsMain(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	link := linked("cus_1", 1, "other")
	link.Origin = fact.FromEvent
	facts := []fact.Fact{link, paid(1, 1, "pro"), charge(1, 0), created(1, "active", "pro", origin(fact.FromFetch))}
	for i := range facts {
		facts[i].EventID, facts[i].ReceiptID = "evt_1", "00000000-0000-7000-8000-000000000001"
	}
	fetched := events([]fact.Fact{updated(2, "active", "pro", origin(fact.FromFetch))}, false)[0]
	fetched.EventID, fetched.ReceiptID = "evt_2", "00000000-0000-7000-8000-000000000002"
	receiptsOf(t, pool, facts[0], fetched)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, of := range [][]fact.Fact{facts, {fetched}, facts} { // the last call repeats the first
			if _, err := billing.Apply(t.Context(), tx, of, policy, "apply", at(100)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ch_1 f acme 100", "cus_1 f other", "in_1 t acme 1000", "sub_1 f acme", "sub_1 f acme"}
	if got := texts(t, pool, `select concat_ws(' ', object, main, account, amount) from event_subjects order by object`); !slices.Equal(got, want) {
		t.Errorf("subjects %q\nwant %q", got, want)
	}
}

// An import has no event, so its facts have no subjects.
func TestSubjects_FactsWithoutReceipt_None(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	deliver(t, pool, events([]fact.Fact{created(0, "active", "pro", origin(fact.FromImport))}, false), at(100))
	if got := subjects(t, pool); len(got) > 0 {
		t.Errorf("subjects %q of a fact without a receipt", got)
	}
}

// A rebuild restores the subjects of an account, whatever was changed by hand.
func TestSubjects_ChangedOrDeleted_RebuildRestores(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	facts := events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), charge(2, 0), refunded("re_1", 50, "succeeded", 10), sale(90, "complete", "paid", by("cs_1", "acme"))}, false)
	receiptsOf(t, pool, facts...)
	deliver(t, pool, facts, at(100))
	want := subjects(t, pool)
	if len(want) < len(facts) {
		t.Fatalf("subjects %q of %d events", want, len(facts))
	}
	for _, sql := range []string{
		`delete from event_subjects`, `update event_subjects set account = 'umbrella', amount = 1, main = not main`,
		`insert into event_subjects (receipt_id, object, main) select receipt_id, object || '_ghost', true from event_subjects`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: "acme"}, billing.Recompute{Cause: billing.CauseRows, Policy: policy, At: at(100)}); err != nil {
			t.Fatal(err)
		}
		if got := subjects(t, pool); !slices.Equal(got, want) {
			t.Errorf("%s: after the rebuild\n got %q\nwant %q", sql, got, want)
		}
	}
}
