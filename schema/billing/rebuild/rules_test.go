package rebuild_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// Facts do not contain the mapping of a price. After a price is mapped to another plan, a check reports the changes,
// and a repair updates the rows and the target.
func TestRepair_PricesMappedAnew_AsTheNewMapSays(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	before, after := policy, policy
	after.Prices = prices("starter", "pro", "enterprise")
	after.Prices["price_new"], after.Prices["price_pro"] = fact.Price{Plan: "pro"}, fact.Price{Plan: "enterprise"}
	after.Accounts = map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "initech"}
	apply := func(p fact.Policy, facts ...fact.Fact) {
		t.Helper()
		for _, f := range facts {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, p, "apply", now)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	facts := events([]fact.Fact{
		created(0, "active", "new"), paid(1, 1, "new"), created(0, "active", "pro", of("sub_2", "umbrella", "cus_2")),
		created(0, "active", "starter", of("sub_3", "", "cus_3"), connected), decided(fact.Withheld, "sub_2", 10, "pro", 1),
		sale(20, "complete", "paid", of("cs_1", "", "cus_2"), func(f *fact.Fact) {
			f.Checkout.Account, f.Checkout.Lines, f.Checkout.Price = "umbrella", nil, "once_new"
		}),
	}, false)
	apply(before, facts...)
	rows := func() []string {
		t.Helper()
		list, _ := pool.Query(t.Context(), `select id || ' ' || target_plan || ' ' || target_state from accounts where target_state <> '' order by id`)
		got, err := pgx.CollectRows(list, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := rows(); !slices.Equal(got, []string{"umbrella starter active"}) {
		t.Fatalf("before: %q", got)
	}
	after.Prices["once_new"] = fact.Price{Plan: "starter", For: 60 * day}
	if found := checkWith(t, pool, billing.Scope{}, after, now); len(found) == 0 {
		t.Error("a check with the new map finds no difference")
	}
	for _, account := range []string{"acme", "umbrella"} {
		if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: account}, billing.Recompute{Cause: billing.CauseRows, Policy: after, At: now}); err != nil {
			t.Fatal(err)
		}
	}
	if left := checkWith(t, pool, billing.Scope{}, after, now); len(left) > 0 {
		t.Errorf("after the repair: %q", left)
	}
	// The plan of the withheld order has changed, but its prices and quantities are the same.
	if got, want := rows(), []string{"acme pro active", "initech starter active", "umbrella starter active"}; !slices.Equal(got, want) {
		t.Errorf("after the repair: %q, want %q", got, want)
	}
}

// The preview of a rules change shows the effect on each account, and the published events report that no provider
// event was the cause. A scheduled action updates the workspace.
func TestRefold_PriceMappedLate_GainsAndIsToldQuietly(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(100)
	newer := mapped("price_new", fact.Price{Plan: "pro"})
	newer.Prices["price_starter"] = fact.Price{Plan: "enterprise"}
	newer = newer.Sealed()
	propose(t, pool, policy)
	propose(t, pool, newer)
	deliverWith(t, pool, policy, now, events([]fact.Fact{
		created(0, "active", "new"), paid(1, 1, "new"), created(2, "active", "starter", of("sub_2", "umbrella", "cus_2")),
		created(3, "active", "pro", of("sub_3", "hooli", "cus_3")), created(4, "active", "new", of("sub_4", "initech", "cus_4")),
	}, false)...)
	var got []string
	for _, h := range forecast(t, pool, policy, newer, now).Impacts {
		got = append(got, h.Account+": "+string(h.Change)+": "+h.Message())
	}
	if want := []string{"acme: gains access: gains pro", "initech: gains access: gains pro", "umbrella: another plan: starter becomes enterprise"}; !slices.Equal(got, want) {
		t.Errorf("hit: %q, want %q", got, want)
	}
	if n := count(t, pool, `select count(*) from tasks where kind = 'unknown_price' and state = 'open'`); n != 2 {
		t.Errorf("%d open tasks to map a price, want 2", n)
	}
	if _, err := pool.Exec(t.Context(), `delete from outbox`); err != nil {
		t.Fatal(err)
	}
	switchTo(t, pool, newer)
	for _, account := range []string{"acme", "initech", "umbrella"} {
		if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: account}, recompute(billing.CauseRules, "rules-1", policy, now)); err != nil {
			t.Fatal(err)
		}
	}
	for sql, want := range map[string]int{
		`select count(*) from outbox where type = 'access.changed' and data ->> 'reason' = 'rules'`:                       3,
		`select count(*) from outbox where type not in ('access.changed', 'billing.subscription.changed', 'task.closed')`: 0,
		`select count(*) from due where why = 'refold'`:                                                                   3,
		`select count(*) from tasks where kind = 'unknown_price' and state = 'cancelled'`:                                 2,
		`select count(*) from tasks where state = 'open'`:                                                                 0,
	} {
		if n := count(t, pool, sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}

// A change of the rules that only adds a mapping is not destructive for a price that was not mapped before. It is
// destructive if metadata or a product named the plan, or if an account loses access.
func TestHit_Overturns_WhatWasMapped(t *testing.T) {
	t.Parallel()
	items := func(named string, items ...fact.Item) change {
		return with(func(s *fact.Subscription) { s.Plan, s.Items = named, items })
	}
	old := mapped("prod_e", fact.Price{Plan: "enterprise"})
	before := fact.Price{Plan: "pro"}
	for name, c := range map[string]struct {
		facts []fact.Fact
		means fact.Price
		want  bool
	}{
		"unknown":                {facts: []fact.Fact{created(0, "active", "new")}, means: before},
		"unknown, seats":         {facts: []fact.Fact{created(0, "active", "", items("", fact.Item{Price: "price_new", Quantity: 5}))}, means: before},
		"before it a lower plan": {facts: []fact.Fact{created(0, "active", "starter"), updated(50, "active", "new")}, means: before},
		"before it a higher plan": {facts: []fact.Fact{created(0, "active", "enterprise"), updated(50, "active", "new")}, means: before,
			want: true},
		"named by metadata": {facts: []fact.Fact{created(0, "active", "", items("starter", fact.Item{Price: "price_new", Quantity: 1}))}, means: before,
			want: true},
		"known by its product": {facts: []fact.Fact{created(0, "active", "", items("", fact.Item{Price: "price_new", Product: "prod_e", Quantity: 1}))}, means: before,
			want: true},
		"beside another plan": {facts: []fact.Fact{created(0, "active", "", items("", fact.Item{Price: "price_pro", Quantity: 1}, fact.Item{Price: "price_new", Quantity: 1}))},
			means: fact.Price{Plan: "enterprise"}, want: true},
		"features beside a plan": {facts: []fact.Fact{created(0, "active", "", items("", fact.Item{Price: "price_pro", Quantity: 1}, fact.Item{Price: "price_new", Quantity: 1}))},
			means: fact.Price{AddOn: []string{"sso"}}},
	} {
		pool, now := schematest.New(t), at(100)
		newer := old
		newer.Prices = maps.Clone(old.Prices)
		newer.Prices["price_new"] = c.means
		newer = newer.Sealed()
		if !newer.Completes(old) || old.Completes(newer) {
			t.Fatalf("%s: a price more completes %v, a price less %v", name, newer.Completes(old), old.Completes(newer))
		}
		propose(t, pool, old)
		deliverWith(t, pool, old, now, events(c.facts, false)...)
		hits := forecast(t, pool, old, newer, now).Impacts
		if got := slices.ContainsFunc(hits, rebuild.Impact.Destructive); len(hits) == 0 || got != c.want {
			t.Errorf("%s: overturns %v, want %v: %+v", name, got, c.want, hits)
		}
	}
}
