package billing_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/billing/rebuild"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A price is looked up by its ID, then by its lookup key, then by its product. Metadata names a plan only if no price
// is mapped, and only if the plan exists.
func TestFoldSubscription_MappedPrices(t *testing.T) {
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

// The order of sets, and an empty list instead of a missing one, do not change the hash of a policy. A policy that is
// stored and read again has the same hash.
func TestPolicy_Hash_SameForSameRules(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	same := policy
	same.Features = maps.Clone(policy.Features)
	same.Features["pro"] = []string{"projects", "api", "api"}
	same.EffectsFrom = at(1)
	if same.Hash() != policy.Hash() {
		t.Error("another order of features has another hash")
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
	read, err := billing.RulesByHash(t.Context(), pool, policy.Hash())
	if err != nil || read.Hash() != policy.Hash() || read.Accounts[fact.Connected{Mode: "live", ID: "acct_9"}] != "umbrella" {
		t.Errorf("read again: %+v, %v", read, err)
	}
	if _, err := billing.RulesByHash(t.Context(), pool, "0"); !errors.Is(err, billing.ErrNoRules) {
		t.Errorf("of no hash: %v", err)
	}
}

// During a rolling deployment, two workers use the active rules, whatever their configuration files contain, until
// new rules are applied for both.
func TestApply_FileHasOtherRules_FoldsByActiveRules(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	old, newer := policy.Sealed(), mapped("price_pro", fact.Price{Plan: "enterprise"})
	if got := propose(t, pool, old); got != old.Hash() {
		t.Fatalf("the first process finds %s active, want its own", got)
	}
	if got := propose(t, pool, newer); got != old.Hash() {
		t.Fatalf("the second process finds %s active, want the rules of the first", got)
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
	list, err := billing.RulesVersions(t.Context(), pool)
	if err != nil || len(list) != 2 || !list[0].Active || list[0].Hash != newer.Hash() || list[0].Actor != "ada" || list[1].Actor != "a worker" {
		t.Errorf("versions %+v, %v", list, err)
	}
}

// A change of the rules waits until a computation in progress has ended, and treats its account as computed before
// the change.
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
			if err = billing.ActivateRules(t.Context(), tx, policy.Hash(), newer, "ada", "a test"); err == nil {
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

// randomRules maps each price to a plan, to an add-on or to nothing, and sets the other options at random.
func randomRules(random *rand.Rand) fact.Policy {
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

// For any history and any two sets of rules: objects are computed with the first rules, and the accounts that the
// change affects are computed again with the second rules. The rows are the same as with the second rules from the
// start.
func TestRefold_AnyTwoRules_AsByTheSecondFromTheStart(t *testing.T) {
	t.Parallel()
	all := seeds(t)
	// with this seed, an object of another product becomes the only object of an account
	all["found"] = 1795667678941267734
	for name, seed := range all {
		for n := range uint64(4) {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				h := newHistory(seed+n, 25)
				first, second := randomRules(h.random), randomRules(h.random)
				if n%2 == 0 { // the rules differ only in prices
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
				receiptsOf(t, healed, facts...)
				receiptsOf(t, twin, facts...)
				deliverWith(t, healed, first, now, facts...)
				deliverWith(t, twin, second, now, facts...)
				hit := forecast(t, healed, first, second, now).Impacts
				switchTo(t, healed, second)
				for _, account := range hit {
					if _, err := rebuild.Account(t.Context(), healed, account.Scope, recompute(billing.CauseRules, "rules-1", first, now)); err != nil {
						t.Fatal(err)
					}
				}
				if left := forecast(t, healed, second, second, now).Impacts; len(left) > 0 {
					t.Errorf("seed %d: still hit after %d accounts were folded anew: %+v", seed+n, len(hit), left)
				}
				if got, want := subjects(t, healed), subjects(t, twin); !slices.Equal(got, want) {
					t.Errorf("seed %d: the subjects of the events are %q, of its twin %q", seed+n, got, want)
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
