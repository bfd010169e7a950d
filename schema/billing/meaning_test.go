package billing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A price is known by its ID, else its lookup key, else its product. Metadata names a plan only where no price is known,
// and only one that there is.
func TestFoldSubscription_MeaningOfPrices(t *testing.T) {
	t.Parallel()
	p := policy
	p.Prices = map[string]billing.Price{"price_pro": {Plan: "pro"}, "starter_monthly": {Plan: "starter"}, "prod_e": {Plan: "enterprise"}, "price_sso": {AddOn: []string{"sso"}}}
	for _, c := range []struct {
		named, want string
		items       []billing.Item
	}{
		{"", "pro 1", []billing.Item{{Price: "price_pro", LookupKey: "starter_monthly", Product: "prod_e", Quantity: 1}}},
		{"", "starter 2", []billing.Item{{Price: "price_x", LookupKey: "starter_monthly", Product: "prod_e", Quantity: 2}}},
		{"", "enterprise 1", []billing.Item{{Price: "price_x", LookupKey: "x", Product: "prod_e", Quantity: 1}}},
		{"", "no-plan 0 unknown-price=price_x", []billing.Item{{Price: "price_x", Quantity: 1}}},
		{"starter", "starter 3", []billing.Item{{Price: "price_x", Quantity: 3}}},
		{"golf", "no-plan 0 unknown-price=price_x", []billing.Item{{Price: "price_x", Quantity: 3}}},
		{"starter", "pro 1", []billing.Item{{Price: "price_pro", Quantity: 1}}},
		{"starter", "starter 1", []billing.Item{{Price: "price_sso", Quantity: 1}, {Price: "price_x", Quantity: 1}, {Price: "price_seat", Quantity: 7}}},
	} {
		f := created(0, "active", "", with(func(s *billing.SubscriptionFact) { s.Plan, s.Items = c.named, c.items }))
		got := describeSubscription(billing.FoldSubscription("sub_1", []billing.Fact{f}, nil, p))
		if want := "sub_1:  active " + c.want; strings.ReplaceAll(got, "sub_1: ", "sub_1:  ") != want {
			t.Errorf("%+v: got %q, want %q", c, got, want)
		}
	}
}

// What a price was taken to mean stands in no fact. Once it is mapped to another plan, a check says what that changes, and
// a repair brings the rows and the target there.
func TestRepair_PricesMappedAnew_AsTheNewMapSays(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	before, after := policy, policy
	after.Prices = prices("starter", "pro", "enterprise")
	after.Prices["price_new"], after.Prices["price_pro"] = billing.Price{Plan: "pro"}, billing.Price{Plan: "enterprise"}
	after.Accounts = map[billing.Connected]string{{Mode: "live", ID: "acct_9"}: "initech"}
	apply := func(p billing.Policy, facts ...billing.Fact) {
		t.Helper()
		for _, f := range facts {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := billing.Apply(t.Context(), tx, []billing.Fact{f}, p, "apply", now)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	facts := events([]billing.Fact{
		created(0, "active", "new"), paid(1, 1, "new"), created(0, "active", "pro", of("sub_2", "umbrella", "cus_2")),
		created(0, "active", "starter", of("sub_3", "", "cus_3"), connected), decided(billing.Withheld, "sub_2", 10, "pro", 1),
		sale(20, "complete", "paid", of("cs_1", "", "cus_2"), func(f *billing.Fact) {
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
	after.Prices["once_new"] = billing.Price{Plan: "starter", For: 60 * day}
	if found := checkWith(t, pool, billing.Scope{}, after, now); len(found) == 0 {
		t.Error("a check with the new map finds no difference")
	}
	for _, account := range []string{"acme", "umbrella"} {
		if _, err := billing.Repair(t.Context(), pool, billing.Scope{Mode: "live", Account: account}, after, now); err != nil {
			t.Fatal(err)
		}
	}
	if left := checkWith(t, pool, billing.Scope{}, after, now); len(left) > 0 {
		t.Errorf("after the repair: %q", left)
	}
	// The plan of what is withheld is another one by now, its prices and quantities are the same.
	if got, want := rows(), []string{"acme pro active", "initech starter active", "umbrella starter active"}; !slices.Equal(got, want) {
		t.Errorf("after the repair: %q, want %q", got, want)
	}
}
