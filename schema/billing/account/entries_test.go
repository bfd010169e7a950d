package account_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/schematest"
)

// booked creates entries of two days, two currencies and both modes.
func booked(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := schematest.New(t)
	exec(t, db, `insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state)
		values ('live', 'in_1', 'acme', 'paid', 4900, 'usd', now(), now(), '{"Number": "A-1"}')`)
	exec(t, db, `insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, settlement, settlement_unknown, method, occurred_at, created_at) values
		('e1', 'live', 'acme', 'in_1', '', 'payment', 4900, 'usd', 4900, '{"amount": 4900, "fee": 172, "net": 4728, "currency": "usd"}', '', 'charge', '2026-10-01 09:00Z', '2026-10-02'),
		('e2', 'live', 'beta', 'in_2', 'in_2', 'payment', 1000, 'eur', 1000, '{"amount": 1100, "fee": 62, "net": 1038, "currency": "usd"}', '', 'charge', '2026-10-01 23:59:59Z', '2026-10-02'),
		('e3', 'live', 'acme', 're_1', 'in_1', 'refund', 900, 'usd', -900, null, 'not_reported', '', '2026-10-02 00:00Z', '2026-10-02'),
		('e4', 'live', 'acme', 'cn_1', 'in_1', 'credit', 500, 'usd', 0, null, '', 'balance', '2026-10-02 10:00Z', '2026-10-02'),
		('e5', 'live', 'acme', 'in_1', 'in_1', 'correction', -100, 'usd', -100, null, '', '', '2026-11-20 10:00Z', '2026-11-20'),
		('t1', 'test', 'acme', 'in_9', 'in_9', 'payment', 77700, 'usd', 77700, null, '', 'charge', '2026-10-01 12:00Z', '2026-10-02')`)
	exec(t, db, `insert into operator_actions (request_id, at, actor, action, target, reason, before, prev_hash, hash) values
		('1', '2026-11-19', 'bob', 'correct', 'in_1', 'the test invoice', '{"mode": "test"}', '1', '1'), ('2', '2026-11-18', 'ada', 'correct', 'in_1', 'wrong price', '{"mode": "live"}', '2', '2'),
		('3', '2026-11-21', 'eve', 'correct', 'in_1', 'later', '{"mode": "live"}', '3', '3')`)
	exec(t, db, `insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until) values ('e1', 'finance-export', 'done', gen_random_uuid(), 'evt_1', 'r', now())`)
	return db
}

func day(d int) time.Time { return time.Date(2026, 10, d, 0, 0, 0, 0, time.UTC) }

func TestEntries_FiltersAndPages(t *testing.T) {
	t.Parallel()
	db := booked(t)
	keys := func(f account.EntryFilter) (keys []string) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 50
		}
		found, err := account.Entries(t.Context(), db, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			keys = append(keys, e.Key)
		}
		return keys
	}
	for _, tt := range []struct {
		f    account.EntryFilter
		want []string
	}{
		{account.EntryFilter{Mode: "live"}, []string{"e5", "e4", "e3", "e2", "e1"}},
		{account.EntryFilter{Mode: "test"}, []string{"t1"}},
		{account.EntryFilter{Mode: "live", Kind: "payment"}, []string{"e2", "e1"}},
		{account.EntryFilter{Mode: "live", Account: "acme"}, []string{"e5", "e4", "e3", "e1"}},
		{account.EntryFilter{Mode: "live", Account: "acme", Kind: "refund"}, []string{"e3"}},
		{account.EntryFilter{Mode: "live", Since: day(1), Until: day(2)}, []string{"e2", "e1"}},
		{account.EntryFilter{Mode: "live", Limit: 2}, []string{"e5", "e4"}},
		{account.EntryFilter{Mode: "live", Limit: 2, After: account.ListedEntry{Key: "e4", OccurredAt: day(2).Add(10 * time.Hour)}}, []string{"e3", "e2"}},
		{account.EntryFilter{Mode: "live", Account: "acme", After: account.ListedEntry{Key: "e3", OccurredAt: day(2)}}, []string{"e1"}},
	} {
		if got := keys(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("Entries(%+v) = %v, want %v", tt.f, got, tt.want)
		}
	}
	found, err := account.Entries(t.Context(), db, account.EntryFilter{Mode: "live", Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	if e := found[0]; e.Actor != "ada" || e.Reason != "wrong price" || e.Signed() != -100 {
		t.Errorf("correction %+v", e)
	}
	if e := found[2]; e.Signed() != -900 || e.Settlement != nil || e.SettlementUnknown != "not_reported" || e.Number != "A-1" || e.Actor != "" {
		t.Errorf("refund %+v", e)
	}
	if e := found[4]; e.Number != "A-1" || e.Event != "evt_1" || e.Settlement == nil || *e.Settlement != (account.Settlement{Amount: 4900, Fee: 172, Net: 4728, Currency: "usd"}) ||
		!e.OccurredAt.Equal(day(1).Add(9*time.Hour)) || e.Method != "charge" {
		t.Errorf("payment %+v", e)
	}
}

// The sums never add two currencies, and count a settlement in the currency of the balance.
func TestEntrySums_ByDayAndCurrency(t *testing.T) {
	t.Parallel()
	db := booked(t)
	sums := func(f account.EntryFilter) (lines []string) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 50
		}
		found, err := account.EntrySums(t.Context(), db, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			lines = append(lines, fmt.Sprint(s.Day.Format(time.DateOnly), " ", s.Currency, " ", s.Entries, " ", s.Received, " ", s.PaidOut, " ", s.Cash, " ", s.Fee, " ", s.Net, " ", s.WithoutSettlement))
		}
		return lines
	}
	correction, second := "2026-11-20 usd 1 0 -100 -100 0 0 1", "2026-10-02 usd 2 0 -900 -900 0 0 1"
	eur, usd := "2026-10-01 eur 1 1000 0 1000 0 0 0", "2026-10-01 usd 1 4900 0 4900 234 5766 0"
	for _, tt := range []struct {
		f    account.EntryFilter
		want []string
	}{
		{account.EntryFilter{Mode: "live"}, []string{correction, second, eur, usd}},
		{account.EntryFilter{Mode: "live", Limit: 2}, []string{correction, second}},
		{account.EntryFilter{Mode: "live", After: account.ListedEntry{OccurredAt: day(2), Currency: "usd"}}, []string{eur, usd}},
		{account.EntryFilter{Mode: "live", After: account.ListedEntry{OccurredAt: day(1), Currency: "eur"}}, []string{usd}},
		{account.EntryFilter{Mode: "live", Account: "beta"}, []string{eur, "2026-10-01 usd 0 0 0 0 62 1038 0"}},
		{account.EntryFilter{Mode: "live", Kind: "refund"}, []string{"2026-10-02 usd 1 0 -900 -900 0 0 1"}},
		{account.EntryFilter{Mode: "live", Since: day(1), Until: day(2)}, []string{eur, usd}},
		{account.EntryFilter{Mode: "live", Since: day(1).Add(12 * time.Hour), Until: day(2)}, []string{eur, "2026-10-01 usd 0 0 0 0 62 1038 0"}},
		{account.EntryFilter{Mode: "test"}, []string{"2026-10-01 usd 1 77700 0 77700 0 0 1"}},
		{account.EntryFilter{Mode: "live", Since: day(5), Until: day(9)}, nil},
	} {
		if got := sums(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("EntrySums(%+v) = %q, want %q", tt.f, got, tt.want)
		}
	}
}
