package account_test

import (
	"slices"
	"testing"

	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestListScheduled_FiltersPagesAndObstacles(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	schematest.Receipts(t, db, "evt_1", "evt_2", "evt_3")
	exec(t, db, `update receipts set status = case event_id when 'evt_1' then 'dead' else 'processed' end, source = case event_id when 'evt_3' then 'shop' else source end`)
	exec(t, db, `insert into pauses (kind, name, who, why, until) values ('source', 'shop', 'ada', 'migration', null), ('source', 'stripe', 'ada', 'over', now()), ('sink', 'stripe', 'ada', 'no source', null)`)
	exec(t, db, `insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state) values
		('live', 'in_1', 'acme', 'open', 0, 'usd', now(), now(), '{"Number": "A-1", "Remaining": 4900, "Currency": "usd"}'),
		('live', 'in_2', 'beta', 'paid', 900, 'eur', now(), now(), '{"Number": "B-2", "Remaining": 0, "Currency": "eur"}')`)
	exec(t, db, `insert into objects (mode, kind, id, account, invoice, state) values ('live', 'payment', 'pi_2', 'beta', 'in_2', '{"Amount": 900, "Currency": "eur"}')`)
	for _, due := range []string{
		`'live', 'sub_1', 'acme', 'in_1', 'dunning', 2, '2026-10-02', 'evt_1'`, `'live', 'sub_1', 'acme', 'sub_1', 'end', 0, '2026-10-03', 'evt_1'`,
		`'live', 'sub_1', 'acme', 'sub_1', 'renewal', 0, '2026-10-03', 'evt_1'`, `'live', 'pi_2', 'beta', 'pi_2', 'book', 1, '2026-10-03', 'evt_2'`,
		`'live', 'sub_3', 'carl', 'in_1', 'keep', 0, '2026-10-05', 'evt_3'`, `'live', 'pi_2 correction', 'carl', 'pi_2', 'book', 0, '2026-10-06', 'evt_2'`, `'test', 'sub_1', 'acme', 'sub_1', 'end', 0, '2026-10-01', 'evt_2'`,
	} {
		exec(t, db, `insert into due (mode, owner, account, object, why, step, at, event_id, provider, receipt_id, occurred_at, next_at)
			select v.mode, v.owner, v.account, v.object, v.why, v.step, v.at::timestamptz, v.event, 'stripe', r.id, now(), now()
			  from (values (`+due+`)) v (mode, owner, account, object, why, step, at, event) join receipts r on r.event_id = v.event`)
	}
	list := func(f account.ScheduledFilter) (names []string) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 50
		}
		found, err := account.ListScheduled(t.Context(), db, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			names = append(names, s.Object+" "+string(s.Kind))
		}
		return names
	}
	all := []string{"in_1 dunning", "pi_2 book", "sub_1 end", "sub_1 renewal", "in_1 keep", "pi_2 book"} // three have the same time
	acme := []string{all[0], all[2], all[3]}
	for _, tt := range []struct {
		f    account.ScheduledFilter
		want []string
	}{
		{account.ScheduledFilter{Mode: "live"}, all},
		{account.ScheduledFilter{Mode: "test"}, []string{"sub_1 end"}},
		{account.ScheduledFilter{Mode: "live", Account: "acme"}, acme},
		{account.ScheduledFilter{Mode: "live", Account: "unknown"}, nil},
		{account.ScheduledFilter{Mode: "live", Since: day(3), Until: day(5)}, all[1:4]},
		{account.ScheduledFilter{Mode: "live", Account: "acme", Since: day(3)}, acme[1:]},
		{account.ScheduledFilter{Mode: "live", Account: "acme", Until: day(3)}, acme[:1]},
		{account.ScheduledFilter{Mode: "live", Limit: 2}, all[:2]},
	} {
		if got := list(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("ListScheduled(%+v) = %q, want %q", tt.f, got, tt.want)
		}
	}
	for id, want := range map[string][]string{"": all, "acme": acme} {
		var paged []string
		for f := (account.ScheduledFilter{Mode: "live", Account: id, Limit: 1}); ; {
			found, err := account.ListScheduled(t.Context(), db, f)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				break
			}
			paged, f.After = append(paged, list(f)...), found[0].Due
		}
		if !slices.Equal(paged, want) {
			t.Errorf("one by one: %q, want %q", paged, want)
		}
	}
	found, err := account.ListScheduled(t.Context(), db, account.ScheduledFilter{Mode: "live", Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	if s := found[0]; s.Number != "A-1" || s.Amount == nil || *s.Amount != 4900 || s.Currency != "usd" || s.Step != 2 || !s.At.Equal(day(2)) ||
		s.Event != "evt_1" || s.Account != "acme" || !s.Parked() || s.PausedSource != "" {
		t.Errorf("reminder %+v", s)
	}
	if s := found[1]; s.Number != "B-2" || s.Amount == nil || *s.Amount != 900 || s.Currency != "eur" || s.Parked() || s.PausedSource != "" {
		t.Errorf("booking %+v", s)
	}
	if s := found[2]; s.Number != "" || s.Amount != nil || !s.Parked() {
		t.Errorf("end %+v", s)
	}
	// The amount of a correction differs from the amount of its object, and other actions have no amount.
	if s := found[5]; s.Number != "" || s.Amount != nil {
		t.Errorf("correction %+v", s)
	}
	if s := found[4]; s.Number != "" || s.Amount != nil || s.Parked() || s.PausedSource != "shop" || s.EventStatus != "processed" {
		t.Errorf("release %+v", s)
	}
	exec(t, db, `delete from receipts`) // the receipt of an imported fact does not exist
	if got := list(account.ScheduledFilter{Mode: "live"}); !slices.Equal(got, all) {
		t.Errorf("without receipts: %q", got)
	}
}
