package account_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/schematest"
)

// Eight of the ten accounts have objects to compare. Each day's share contains the accounts that were compared
// longest ago. No account is compared twice within the period, and a week of shares contains each account once.
func TestToCompare_AShareADay_EachOnceInAWeek(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range []string{
		`insert into accounts (mode, id, provider, folded_at) select 'live', 'a' || n, 'stripe', now() - n * interval '1 day' from generate_series(0, 9) n`,
		`insert into grants (mode, object, account, plan) select 'live', 'sub_' || n, 'a' || n, 'pro' from generate_series(0, 6) n`,
		`insert into invoices (mode, id, account, status, amount, currency, period_start, occurred_at, state) values
			('live', 'in_7', 'a7', 'open', 1, 'usd', now(), now(), '{}'), ('live', 'in_8', 'a8', 'paid', 1, 'usd', now(), now(), '{}')`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	compare := func(u account.Uncompared) []account.Name {
		t.Helper()
		u.Modes = []string{"live"}
		names, err := account.ToCompare(t.Context(), db, u)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if all := compare(account.Uncompared{}); len(all) != 8 {
		t.Errorf("there are %v, want 8", all)
	}
	if touched := compare(account.Uncompared{Touched: time.Now().Add(-50 * time.Hour)}); fmt.Sprint(touched) != "[{live a0} {live a1} {live a2}]" {
		t.Errorf("touched were %v", touched)
	}
	times := map[string]int{}
	for range 7 {
		for _, name := range compare(account.Uncompared{Before: time.Now().Add(-6 * 24 * time.Hour), Share: 7}) {
			times[name.ID]++
			if err := account.Compared(t.Context(), db, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(times) != 8 || fmt.Sprint(times) != "map[a0:1 a1:1 a2:1 a3:1 a4:1 a5:1 a6:1 a7:1]" {
		t.Errorf("a week compared %v", times)
	}
}
