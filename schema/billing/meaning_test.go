package billing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
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

// A price is known by its ID, else its lookup key, else its product. Metadata names a plan only where no price is known,
// and only one that there is.
func TestFoldSubscription_MeaningOfPrices(t *testing.T) {
	t.Parallel()
	p := policy
	p.Prices = map[string]fact.Price{"price_pro": {Plan: "pro"}, "starter_monthly": {Plan: "starter"}, "prod_e": {Plan: "enterprise"}, "price_sso": {AddOn: []string{"sso"}}}
	for _, c := range []struct {
		named, want string
		items       []fact.Item
	}{
		{"", "pro 1", []fact.Item{{Price: "price_pro", LookupKey: "starter_monthly", Product: "prod_e", Quantity: 1}}},
		{"", "starter 2", []fact.Item{{Price: "price_x", LookupKey: "starter_monthly", Product: "prod_e", Quantity: 2}}},
		{"", "enterprise 1", []fact.Item{{Price: "price_x", LookupKey: "x", Product: "prod_e", Quantity: 1}}},
		{"", "no-plan 0 unknown-price=price_x", []fact.Item{{Price: "price_x", Quantity: 1}}},
		{"starter", "starter 3", []fact.Item{{Price: "price_x", Quantity: 3}}},
		{"golf", "no-plan 0 unknown-price=price_x", []fact.Item{{Price: "price_x", Quantity: 3}}},
		{"starter", "pro 1", []fact.Item{{Price: "price_pro", Quantity: 1}}},
		{"starter", "starter 1", []fact.Item{{Price: "price_sso", Quantity: 1}, {Price: "price_x", Quantity: 1}, {Price: "price_seat", Quantity: 7}}},
	} {
		f := created(0, "active", "", with(func(s *fact.Subscription) { s.Plan, s.Items = c.named, c.items }))
		got := describeSubscription(fold.SubscriptionOf("sub_1", []fact.Fact{f}, nil, p))
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
	// The plan of what is withheld is another one by now, its prices and quantities are the same.
	if got, want := rows(), []string{"acme pro active", "initech starter active", "umbrella starter active"}; !slices.Equal(got, want) {
		t.Errorf("after the repair: %q, want %q", got, want)
	}
}

// mapped is the policy with a price more, or with another meaning of one.
func mapped(price string, means fact.Price) fact.Policy {
	p := policy
	p.Prices = maps.Clone(policy.Prices)
	p.Prices[price] = means
	return p.Sealed()
}

// propose proposes a meaning, as a process does, and returns the hash of the one in force.
func propose(t *testing.T, pool *pgxpool.Pool, p fact.Policy) string {
	t.Helper()
	_, inForce, err := billing.Propose(t.Context(), pool, p, "a worker")
	if err != nil {
		t.Fatal(err)
	}
	return inForce
}

func switchTo(t *testing.T, pool *pgxpool.Pool, p fact.Policy) {
	t.Helper()
	from, err := billing.HashInForce(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return billing.Switch(t.Context(), tx, from, p, "ada", "a test")
	}); err != nil {
		t.Fatal(err)
	}
}

// deliverWith applies facts as a process does whose file has this policy.
func deliverWith(t *testing.T, pool *pgxpool.Pool, p fact.Policy, now time.Time, facts ...fact.Fact) {
	t.Helper()
	for _, f := range facts {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := billing.Apply(t.Context(), tx, append(fact.LinksOf(f), f), p, "apply", now)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// The meaning of a policy is what it says: neither the order of sets nor an empty list beside none makes another one. It
// is the same policy when it is read again.
func TestPolicy_Hash_SameForSameMeaning(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	same := policy
	same.Features = maps.Clone(policy.Features)
	same.Features["pro"] = []string{"projects", "api", "api"}
	same.EffectsFrom = at(1)
	if same.Hash() != policy.Hash() {
		t.Error("another order of features is another meaning")
	}
	for name, other := range map[string]fact.Policy{
		"price": mapped("price_new", fact.Price{Plan: "pro"}), "time": mapped(once("pro", day), fact.Price{Plan: "pro", For: 2 * day}),
		"grace": {Grace: time.Hour}, "none": {},
	} {
		if other.Hash() == policy.Hash() {
			t.Errorf("%s: the hash is the same", name)
		}
	}
	propose(t, pool, policy)
	read, err := billing.Named(t.Context(), pool, policy.Hash())
	if err != nil || read.Hash() != policy.Hash() || read.Accounts[fact.Connected{Mode: "live", ID: "acct_9"}] != "umbrella" {
		t.Errorf("read again: %+v, %v", read, err)
	}
	if _, err := billing.Named(t.Context(), pool, "0"); !errors.Is(err, billing.ErrNoMeaning) {
		t.Errorf("of no hash: %v", err)
	}
}

// Two workers of a rolling deployment fold by the one meaning that is in force, whatever their files say, until it is
// switched for both.
func TestApply_FileSaysSomethingElse_FoldsByMeaningInForce(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	old, newer := policy.Sealed(), mapped("price_pro", fact.Price{Plan: "enterprise"})
	if got := propose(t, pool, old); got != old.Hash() {
		t.Fatalf("the first process finds %s in force, want its own", got)
	}
	if got := propose(t, pool, newer); got != old.Hash() {
		t.Fatalf("the second process finds %s in force, want that of the first", got)
	}
	plans := func(want ...string) {
		t.Helper()
		rows, _ := pool.Query(t.Context(), `select plan from subscriptions order by id`)
		if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(got, want) {
			t.Errorf("plans %q, %v, want %q", got, err, want)
		}
	}
	now := at(100)
	facts := events([]fact.Fact{
		created(0, "active", "pro"), created(0, "active", "pro", of("sub_2", "umbrella", "cus_2")), updated(50, "active", "pro"),
	}, false)
	deliverWith(t, pool, old, now, facts[0])
	deliverWith(t, pool, newer, now, facts[1])
	plans("pro", "pro")
	switchTo(t, pool, newer)
	deliverWith(t, pool, old, now, facts[2])
	plans("enterprise", "pro")
	list, err := billing.Meanings(t.Context(), pool)
	if err != nil || len(list) != 2 || !list[0].InForce || list[0].Hash != newer.Hash() || list[0].Who != "ada" || list[1].Who != "a worker" {
		t.Errorf("meanings %+v, %v", list, err)
	}
}

// A switch waits for the fold that is under way: it is among those touched before it.
func TestSwitch_FoldUnderWay_Waits(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	newer := mapped("price_pro", fact.Price{Plan: "enterprise"})
	propose(t, pool, policy)
	propose(t, pool, newer)
	begun := time.Now().Add(-time.Minute)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := billing.Apply(t.Context(), tx, events([]fact.Fact{created(0, "active", "pro")}, false), policy, "apply", at(1)); err != nil {
		t.Fatal(err)
	}
	var touched []billing.Scope
	switched := make(chan error, 1)
	go func() {
		switched <- pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			if err = billing.Switch(t.Context(), tx, policy.Hash(), newer, "ada", "a test"); err == nil {
				touched, err = billing.TouchedSince(t.Context(), tx, begun)
			}
			return err
		})
	}()
	schematest.AwaitLock(t, pool, switched)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-switched; err != nil || !slices.Equal(touched, []billing.Scope{{Mode: "live", Account: "acme"}}) {
		t.Errorf("touched before the switch: %+v, %v", touched, err)
	}
}

// randomMeaning maps each price to some plan, to an add-on or to nothing, and lets the rest be one way or the other.
func randomMeaning(random *rand.Rand) fact.Policy {
	p := policy
	p.Prices = map[string]fact.Price{}
	for _, price := range []string{"starter", "pro", "enterprise", "new"} {
		switch plan := pick(random, "starter", "pro", "enterprise", "pro", "sso", "", "theirs"); plan {
		case "":
		case "theirs":
			p.Prices["price_"+price] = fact.Price{NotOurs: true}
		case "sso":
			p.Prices["price_"+price] = fact.Price{AddOn: []string{"sso"}}
		default:
			p.Prices["price_"+price] = fact.Price{Plan: plan}
		}
	}
	p.Grace = pick(random, day, 21*day)
	p.EndAtPeriodEnd, p.GrantOnPayment = random.IntN(2) == 0, random.IntN(2) == 0
	return p.Sealed()
}

// hits are the accounts that a switch from a meaning to another hits: those of a fold of everything, and as well those
// of what the two say otherwise.
func hits(t *testing.T, pool *pgxpool.Pool, from, p fact.Policy, now time.Time) []rebuild.Impact {
	t.Helper()
	return rebuild.Impacts(forecast(t, pool, from, p, now).Differences)
}

// forecast is what hits goes by.
func forecast(t *testing.T, pool *pgxpool.Pool, from, p fact.Policy, now time.Time) rebuild.Forecast {
	t.Helper()
	connect := func() *pgx.Conn {
		conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	all, err := rebuild.Check(t.Context(), connect(), billing.Scope{}, p, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	concerned, err := rebuild.CheckRules(t.Context(), connect(), from, p, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(all, concerned.Differences) {
		t.Errorf("of everything %+v\nof what the switch says %+v", all, concerned.Differences)
	}
	return concerned
}

// pricesAskedSQL lists the open questions about prices.
const pricesAskedSQL = `select object from tasks where kind = 'unknown_price' and state = 'open'`

// without counts what is in list and not in others.
func without(list, others []string) (n int) {
	for _, s := range list {
		if !slices.Contains(others, s) {
			n++
		}
	}
	return n
}

// Whatever happened, and whatever two meanings are: facts that were folded by the first, and of which the accounts that
// a switch hits are folded anew, come to the rows that they have by the second from the start.
func TestRefold_AnyTwoMeanings_AsByTheSecondFromTheStart(t *testing.T) {
	t.Parallel()
	all := seeds(t)
	all["found"] = 1795667678941267734 // what was another product, and is an account's that has nothing else
	for name, seed := range all {
		for n := range uint64(4) {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				h := newHistory(seed+n, 25)
				first, second := randomMeaning(h.random), randomMeaning(h.random)
				if n%2 == 0 { // in prices alone
					prices := second.Prices
					second = first
					second.Prices = prices
					second = second.Sealed()
				}
				healed, twin := schematest.New(t), schematest.New(t)
				now := at(h.second)
				propose(t, healed, first)
				propose(t, twin, second)
				propose(t, healed, second)
				facts := h.deliver(h.random)
				deliverWith(t, healed, first, now, facts...)
				deliverWith(t, twin, second, now, facts...)
				comes, asked := forecast(t, healed, first, second, now), texts(t, healed, pricesAskedSQL)
				hit := rebuild.Impacts(comes.Differences)
				switchTo(t, healed, second)
				for _, account := range hit {
					if _, err := rebuild.Account(t.Context(), healed, account.Scope, recompute(billing.CauseRules, "meaning-1", first, now)); err != nil {
						t.Fatal(err)
					}
				}
				asks := texts(t, healed, pricesAskedSQL)
				opens, closes := without(asks, asked), without(asked, asks)
				for _, c := range comes.Tasks {
					opens, closes = opens-c.Opens, closes-c.Closes
				}
				if opens != 0 || closes != 0 {
					t.Errorf("seed %d: %d more tasks were opened than foreseen, and %d more closed: %q became %q, %+v",
						seed+n, opens, closes, asked, asks, comes.Tasks)
				}
				if left := hits(t, healed, second, second, now); len(left) > 0 {
					t.Errorf("seed %d: still hit after %d accounts were folded anew: %+v", seed+n, len(hit), left)
				}
				for _, account := range []string{"acme", "umbrella", "hooli", "cus_1", "cus_2"} {
					of := billing.Scope{Mode: "live", Account: account}
					got, err := rebuild.Rows(t.Context(), healed, of)
					if err != nil {
						t.Fatal(err)
					}
					want, err := rebuild.Rows(t.Context(), twin, of)
					if err != nil {
						t.Fatal(err)
					}
					if differ, err := rebuild.Compare(got, want); err != nil || len(differ) > 0 {
						t.Errorf("seed %d: account %s differs from its twin: %v %v", seed+n, account, differ, err)
					}
				}
			})
		}
	}
}

// A switch is shown by what it means for each account, and the news say that no event was the cause. The clock is to
// bring the workspace there.
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
	if got, want := forecast(t, pool, policy, newer, now).Tasks, []rebuild.TaskChange{
		{Kind: "unknown_price", Reason: "price_new", Closes: 2, Money: map[string]int64{"usd": 1000}},
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("tasks %+v, want %+v", got, want)
	}
	var got []string
	for _, h := range hits(t, pool, policy, newer, now) {
		got = append(got, h.Account+": "+string(h.Change)+": "+h.Says)
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
		if _, err := rebuild.Account(t.Context(), pool, billing.Scope{Mode: "live", Account: account}, recompute(billing.CauseRules, "meaning-1", policy, now)); err != nil {
			t.Fatal(err)
		}
	}
	for sql, want := range map[string]int{
		`select count(*) from outbox where type = 'access.changed' and data ->> 'cause' = 'meaning'`:              3,
		`select count(*) from outbox where type not in ('access.changed', 'subscription.changed', 'task.closed')`: 0,
		`select count(*) from due where why = 'refold'`:                                                           3,
		`select count(*) from tasks where kind = 'unknown_price' and state = 'cancelled'`:                         2,
		`select count(*) from tasks where state = 'open'`:                                                         0,
	} {
		if n := count(t, pool, sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}

// A meaning that only adds overturns nothing where nothing had told what a price means. It does where metadata or a
// product had told it, and where an account loses what it had.
func TestHit_Overturns_WhatHadMeaning(t *testing.T) {
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
		conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		found, err := rebuild.Check(t.Context(), conn, billing.Scope{}, newer, now, nil)
		if err = errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		hits := rebuild.Impacts(found)
		if got := slices.ContainsFunc(hits, rebuild.Impact.Destructive); len(hits) == 0 || got != c.want {
			t.Errorf("%s: overturns %v, want %v: %+v", name, got, c.want, hits)
		}
	}
	// An account that is mapped anew may take objects from nobody.
	moved := rebuild.Impact{Differences: []rebuild.Difference{{Table: "subscriptions", Stored: map[string]any{"account": "acme"}, Computed: map[string]any{"account": "initech"}}}}
	given := rebuild.Impact{Differences: []rebuild.Difference{{Table: "subscriptions", Stored: map[string]any{"account": ""}, Computed: map[string]any{"account": "initech"}}}}
	if !moved.Destructive() || given.Destructive() {
		t.Errorf("a row that moves overturns %v, one that had no account %v", moved.Destructive(), given.Destructive())
	}
}
