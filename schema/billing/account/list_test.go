package account_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/billing/account"
)

func TestList_FiltersAndPages(t *testing.T) {
	t.Parallel()
	db := setup(t)
	for _, sql := range []string{
		`insert into accounts (mode, id, provider, target_version, target_state, target_plan, held) values
			('live', 'beta', 'stripe', 3, 'active', 'pro', false), ('live', 'gone', 'stripe', 2, 'suspended', '', false), ('live', 'new', 'stripe', 0, '', '', false),
			('live', 'kept', 'stripe', 2, 'suspended', '', true)`,
		`insert into grants (mode, object, account, plan, until, ends) values ('live', 'sub_b', 'beta', 'pro', '2126-01-01', null), ('live', 'cs_b', 'beta', 'starter', null, '2126-02-01'),
			('live', 'cs_old', 'beta', 'pro', null, '2020-01-01'), ('live', 'sub_k', 'kept', 'pro', '2126-01-01', null)`,
		`insert into subscriptions (mode, id, account, status, ended, state) values ('live', 'sub_b', 'beta', 'past_due', false, '{}'), ('live', 'sub_b2', 'beta', 'active', false, '{}'),
			('live', 'sub_g', 'gone', 'canceled', true, '{}')`,
	} {
		exec(t, db, sql)
	}
	names := func(f account.Filter) (names []string) {
		t.Helper()
		if f.Limit == 0 {
			f.Limit = 50
		}
		found, err := account.List(t.Context(), db, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range found {
			names = append(names, l.Mode+"/"+l.ID)
		}
		return names
	}
	for _, tt := range []struct {
		f    account.Filter
		want []string
	}{
		{account.Filter{}, []string{"live/acme", "live/beta", "live/gone", "live/kept", "live/new", "test/acme"}},
		{account.Filter{Mode: "test"}, []string{"test/acme"}},
		{account.Filter{Access: "suspended"}, []string{"live/gone", "live/kept"}},
		{account.Filter{Access: "none"}, []string{"live/new"}},
		{account.Filter{Plan: "pro", Status: "past_due"}, []string{"live/beta"}},
		{account.Filter{Status: "canceled"}, nil}, // the subscription has ended
		{account.Filter{Before: time.Date(2126, 3, 1, 0, 0, 0, 0, time.UTC)}, []string{"live/beta"}},
		{account.Filter{Before: time.Date(2126, 1, 15, 0, 0, 0, 0, time.UTC)}, nil}, // a later grant is still valid
		{account.Filter{Limit: 2}, []string{"live/acme", "live/beta"}},
		{account.Filter{Limit: 2, After: account.Name{Mode: "live", ID: "kept"}}, []string{"live/new", "test/acme"}},
	} {
		if got := names(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("List(%+v) = %v, want %v", tt.f, got, tt.want)
		}
	}
	found, err := account.List(t.Context(), db, account.Filter{Mode: "live", Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if a := found[0]; a.Version != 1 || a.Workspace != 1 || a.Until != nil || a.Customer != "cus_live" || !slices.Equal(a.Features, []string{"sso"}) || a.Quantity != 3 {
		t.Errorf("acme = %+v", a)
	}
	if b := found[1]; b.Version != 3 || b.Workspace != 0 || b.Until == nil || b.Until.Month() != time.February || !slices.Equal(b.Statuses, []string{"active", "past_due"}) {
		t.Errorf("beta = %+v", b)
	}
}
