package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

var errUndo = errors.New("nothing of this is kept")

// applied applies facts, each as a separate event, in the given order, and returns the rows and the scheduled
// actions. It rolls back.
func applied(t *testing.T, pool *pgxpool.Pool, facts []fact.Fact, p fact.Policy, now time.Time) (lines, due []string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n, f := range facts {
			event := append(fact.LinksOf(f), f)
			if _, err := billing.Apply(t.Context(), tx, event, p, fmt.Sprintf("apply:%d", n), now); err != nil {
				return fmt.Errorf("after %s: %w", told(facts[:n+1]), err)
			}
		}
		lines, due = rows(t, tx), dueRows(t, tx)
		checkNews(t, tx)
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	return lines, due
}

// dueRows returns the scheduled actions as sorted lines "why object step at".
func dueRows(t *testing.T, tx ledger.Tx) []string {
	t.Helper()
	return dueFor(t, tx, `where why not in ('renewal', 'add_on')`) // these kinds have their own tests
}

func dueFor(t *testing.T, tx ledger.Tx, where string) []string {
	t.Helper()
	found, err := tx.Query(t.Context(), `select why || ' ' || object || coalesce(' ' || nullif(step, 0), ''), at from due `+where+` order by why, object, step`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		var what string
		var due time.Time
		err := row.Scan(&what, &due)
		return fmt.Sprintf("%s at %s", what, due.Sub(begin)), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// checkNews checks the order of the published events. The versions of an account's target increase, an event that
// happens once is published once per object, and no event about a subscription follows its end.
func checkNews(t *testing.T, tx ledger.Tx) {
	t.Helper()
	found, err := tx.Query(t.Context(), `select type, account, coalesce(data->>'version', ''), coalesce(data->>'invoice', ''), coalesce(data->>'subscription', ''), coalesce(data->>'attempt', '') from outbox order by id`)
	if err != nil {
		t.Fatal(err)
	}
	type told struct{ Type, Account, Version, Invoice, Subscription, Attempt string }
	list, err := pgx.CollectRows(found, pgx.RowToStructByPos[told])
	if err != nil {
		t.Fatal(err)
	}
	version, once := map[string]int{}, map[string]bool{}
	for _, n := range list {
		var of string
		switch n.Type {
		case "access.changed":
			v, err := strconv.Atoi(n.Version)
			if err != nil || v <= version[n.Account] {
				t.Errorf("published version %s of %s after %d: %+v", n.Version, n.Account, version[n.Account], list)
			}
			version[n.Account] = v
			continue
		case "billing.subscription.changed":
			if once["subscription.ended "+n.Subscription+" "] {
				t.Errorf("published a change of %s after its end: %+v", n.Subscription, list)
			}
			continue
		case "task.opened", "task.closed": // a task can open again with its cause
			continue
		case "subscription.ended":
			of = n.Subscription
		default:
			of = n.Invoice
		}
		if key := n.Type + " " + of + " " + n.Attempt; once[key] {
			t.Errorf("published twice: %s: %+v", key, list)
		} else {
			once[key] = true
		}
	}
}

// ofFacts removes the scheduled actions about the workspace, because they depend on whether the workspace ever
// existed.
func ofFacts(due []string) []string {
	return slices.DeleteFunc(slices.Clone(due), func(line string) bool {
		return slices.Contains([]string{"keep", "hold", "refold"}, strings.Fields(line)[0])
	})
}

// rows returns the rows in the format of [world.lines]. It omits accounts without objects, because they depend on the
// order of the facts.
func rows(t *testing.T, tx ledger.Tx) []string {
	t.Helper()
	var lines []string
	for _, sql := range []string{
		`select concat_ws(' ', id || ':', account, coalesce(nullif(status, ''), 'unknown'), coalesce(nullif(plan, ''), 'no-plan'), quantity) from subscriptions`,
		`select concat_ws(' ', id || ':', account, status, amount) from invoices`,
		`select concat_ws(' ', id || ':', coalesce(nullif(target_state, ''), 'suspended'), nullif(target_plan, ''), case when target_plan <> '' then target_quantity end, nullif(array_to_string(target_features, ','), ''))
		   from accounts a where target_plan <> '' or exists (select from subscriptions s where s.account = a.id) or exists (select from invoices i where i.account = a.id and i.subscription = '' and i.status = 'paid')`,
		`select concat_ws(' ', 'features of', account, string_agg(feature, ',' order by feature)) from entitlements where enabled group by account`,
	} {
		found, err := tx.Query(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, texts...)
	}
	slices.Sort(lines)
	return lines
}

// wantRows returns the expected rows of a world.
func wantRows(lines []string, invoices map[string]fold.Invoice) []string {
	var want []string
	for _, line := range lines {
		id, rest, _ := strings.Cut(line, ": ")
		words := strings.Fields(rest)
		switch {
		case strings.HasPrefix(id, "sub_"):
			want = append(want, id+": "+strings.Join(words[:4], " "))
		case strings.HasPrefix(id, "in_"):
			i := invoices[id]
			want = append(want, fmt.Sprintf("%s: %s %s %d", id, i.Account, i.Status, i.Paid))
		default:
			want = append(want, line)
			if len(words) == 4 {
				want = append(want, "features of "+id+" "+words[3])
			}
		}
	}
	slices.Sort(want)
	return want
}

func TestApply_Cases_EveryOrder_SameRows(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for _, c := range cases { // not parallel, because the cases have the same customer
		t.Run(c.name, func(t *testing.T) {
			p, now := c.terms()
			facts := events(c.facts, true)
			want := wantRows(c.want, foldAll(facts, p, now).invoices)
			due := c.due
			ordersOfRows(facts, func(delivered []fact.Fact) {
				got, gotDue := applied(t, pool, delivered, p, now)
				if !slices.Equal(got, want) {
					t.Fatalf("after %s\n got %q\nwant %q", told(delivered), got, want)
				}
				if gotDue = ofFacts(gotDue); due == nil {
					due = gotDue
				}
				if !slices.Equal(gotDue, due) {
					t.Fatalf("after %s the scheduled actions are\n got %q\nwant %q", told(delivered), gotDue, due)
				}
			})
		})
	}
}

// A hold on an account revokes all access, and releasing it restores the current access. Both publish events. During
// the hold, scheduled actions grant nothing, and no task to release the workspace opens.
func TestApply_HoldOnAccount(t *testing.T) {
	passing(t, func(c *clock) {
		c.told(0, created(0, "active", "pro"))
		c.want("held", c.told(10, onAccount(fact.Held, "acme", 10)), "acme: suspended")
		c.want("due at once, for the workspace", dueRows(c.T, c.tx), "hold acme at 10s")
		c.want("another plan meanwhile", c.told(20, updated(20, "active", "enterprise")), "acme: suspended")
		c.want("the clock comes", c.comes(0), "hold acme by evt_2", "acme: suspended")
		c.want("due", dueRows(c.T, c.tx))
		c.want("features", texts(c.T, c.tx, `select feature from entitlements where enabled`))
		c.want("an older release comes late", c.told(30, onAccount(fact.Released, "acme", 5)), "acme: suspended")
		c.want("released", c.told(40, onAccount(fact.Released, "acme", 40)), "acme: active enterprise 1 api,audit-log,projects,sso")
		c.want("news", c.announced(), "billing.subscription.changed", "access.changed", "access.changed", "billing.subscription.changed", "access.changed")
	})
}

// Two people decide about one account concurrently. The later decision applies, whatever the order of the
// transactions is.
func TestApply_HoldsOnAccount_AtOnce_LastHolds(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	facts := []fact.Fact{created(0, "active", "pro")}
	for n := range 12 {
		facts = append(facts, onAccount([]fact.Kind{fact.Held, fact.Released}[n%2], "acme", 10+n))
	}
	facts = events(facts, false)
	deliver(t, pool, facts[:1], at(1000))
	var deciding sync.WaitGroup
	for _, f := range facts[1:] {
		deciding.Go(func() {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, "apply:"+f.EventID, at(1000))
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	deciding.Wait()
	if n := count(t, pool, `select count(*) from accounts where id = 'acme' and not held and target_plan = 'pro'`); n != 1 {
		t.Error("the account is held, though it was released last")
	}
	if lines := check(t, pool, billing.Scope{Mode: "live", Account: "acme"}, at(1000)); len(lines) > 0 {
		t.Errorf("a rebuild differs: %q", lines)
	}
}

// asksNow omits cancelled tasks about prices, because they depend on the order of the facts.
const asksNow = `not (kind = 'unknown_price' and state = 'cancelled')`

// withItem returns a subscription of the starter plan with one additional item.
func withItem(price string, metered bool) fact.Fact {
	return updated(50, "active", "starter", with(func(s *fact.Subscription) {
		s.Items = append(s.Items, fact.Item{Price: price, Quantity: 1, Metered: metered})
	}))
}

// An unmapped price opens one task per account. The task is open until the price is mapped or the price's
// subscriptions have ended. An invoice that cannot be finalized opens a task, until the invoice is finalized or its
// draft is corrected or deleted. An event that arrives late results in the same task.
func TestApply_WhatAPersonMustMend_Task(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	known, unknown, mapped := created(0, "active", "starter"), updated(50, "active", ""), updated(60, "active", "pro")
	draft := func(second int, why string) fact.Fact {
		return invoice(1, second, "draft", "starter", func(f *fact.Fact) { f.Invoice.Stuck = why })
	}
	made, stuck := draft(100, ""), draft(110, "customer_tax_location_invalid")
	sold := func(second int, status, payment string, changes ...change) fact.Fact {
		return sale(second, status, payment, append(changes, func(f *fact.Fact) {
			f.Checkout.Lines, f.Checkout.Price = nil, "price_gold"
		})...)
	}
	guest := func(f *fact.Fact) { f.Checkout.Account = "" }
	with := func(promised string, prices ...string) change {
		return func(f *fact.Fact) {
			f.Checkout.Price, f.Checkout.Lines = promised, nil
			for _, price := range append([]string{promised}, prices...) {
				f.Checkout.Lines = append(f.Checkout.Lines, fact.Line{Price: price, Quantity: 1, Amount: 500})
			}
		}
	}
	for name, c := range map[string]struct {
		facts []fact.Fact
		want  []string
	}{
		"known":           {[]fact.Fact{known, mapped}, []string{}},
		"unknown":         {[]fact.Fact{known, unknown}, []string{"unknown_price acme:price_ acme open"}},
		"mapped since":    {[]fact.Fact{known, unknown, mapped}, []string{}},
		"ended":           {[]fact.Fact{known, unknown, deleted(70, "")}, []string{}},
		"of two":          {[]fact.Fact{unknown, updated(50, "active", "", of("sub_2", "acme", "")), deleted(70, "")}, []string{"unknown_price acme:price_ acme open"}},
		"an add-on":       {[]fact.Fact{known, withItem("price_x", false)}, []string{"unknown_price acme:price_x acme open"}},
		"a metered one":   {[]fact.Fact{known, withItem("price_x", true)}, []string{}},
		"moved":           {[]fact.Fact{known, unknown, updated(55, "active", "", of("sub_1", "umbrella", ""))}, []string{"unknown_price umbrella:price_ umbrella open"}},
		"paid, and alone": {[]fact.Fact{paid(1, 1, "")}, []string{"unknown_price acme:price_ acme open"}},

		"sold once":           {[]fact.Fact{sold(0, "complete", "paid")}, []string{"unknown_price acme:price_gold acme open"}},
		"sold to a guest":     {[]fact.Fact{sold(0, "complete", "paid", guest)}, []string{"unknown_price cus_1:price_gold cus_1 open"}},
		"to nobody known":     {[]fact.Fact{sold(0, "complete", "paid", guest, nobody)}, []string{}},
		"not paid yet":        {[]fact.Fact{sold(0, "complete", "unpaid")}, []string{}},
		"sold, and refunded":  {[]fact.Fact{sold(0, "complete", "paid"), refund("re_1", 10, "succeeded", 1000)}, []string{}},
		"sold, known price":   {[]fact.Fact{sale(0, "complete", "paid")}, []string{}},
		"sold with a shirt":   {[]fact.Fact{sale(0, "complete", "paid", with("price_starter", "price_shirt"))}, []string{}},
		"sold, and fetched":   {[]fact.Fact{sale(0, "complete", "paid", with("price_gold", "price_shirt"))}, []string{"unknown_price acme:price_gold acme open"}},
		"sold, also a member": {[]fact.Fact{known, sold(10, "complete", "paid")}, []string{"unknown_price acme:price_gold acme open"}},

		"a draft":              {[]fact.Fact{known, made}, []string{}},
		"stuck":                {[]fact.Fact{known, made, stuck}, []string{"finalization_failed in_1 open"}},
		"stuck again":          {[]fact.Fact{made, stuck, draft(120, ""), draft(130, "other")}, []string{"finalization_failed in_1 open"}},
		"mended":               {[]fact.Fact{known, stuck, draft(120, "")}, []string{"finalization_failed in_1 cancelled"}},
		"finalized":            {[]fact.Fact{known, stuck, invoice(1, 120, "open", "starter")}, []string{"finalization_failed in_1 cancelled"}},
		"paid":                 {[]fact.Fact{made, stuck, paid(1, 120, "starter")}, []string{"finalization_failed in_1 cancelled"}},
		"gone":                 {[]fact.Fact{known, stuck, invoice(1, 120, "deleted", "starter")}, []string{"finalization_failed in_1 cancelled"}},
		"stuck, the end after": {[]fact.Fact{known, stuck, deleted(120, "starter")}, []string{"finalization_failed in_1 open"}},
	} {
		orders(events(c.facts, true), func(delivered []fact.Fact) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				for n, f := range delivered {
					if _, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, fmt.Sprint("apply:", n), at(1000)); err != nil {
						return err
					}
				}
				if got := texts(t, tx, `select concat_ws(' ', kind, object, nullif(account, ''), state) from tasks where `+asksNow); !slices.Equal(got, c.want) {
					t.Errorf("%s, after %s: tasks %q, want %q", name, told(delivered), got, c.want)
				}
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Fatal(err)
			}
		})
	}
}

// Many workers process two customers of one account and a subscription that moves between two accounts. No deadlock
// occurs, and the state is the same as in any other order.
func TestApply_ManyWorkers_NoDeadlock_SameRows(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pool := schematest.New(t)
	random := rand.New(rand.NewPCG(1, 1))
	var facts []fact.Fact
	for n := range 120 {
		account, sub, cus := pick(random, "acme", "umbrella"), fmt.Sprint("sub_", n%4), fmt.Sprint("cus_", n%2)
		facts = append(facts, updated(n, "active", pick(random, policy.Order...), of(sub, account, cus)))
	}
	facts = events(facts, false)
	delivered := slices.Clone(facts)
	random.Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })

	queue := make(chan fact.Fact)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for f := range queue {
				if err := applyPatiently(ctx, pool, f); err != nil {
					t.Errorf("apply %s: %v", f.EventID, err)
				}
			}
		})
	}
	for _, f := range delivered {
		queue <- f
	}
	close(queue)
	workers.Wait()
	w := foldAll(facts, policy, at(1000))
	var got []string
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		got = rows(t, tx)
		return nil
	})
	if want := wantRows(w.lines(), w.invoices); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	// These statements may read many rows: a change of the billing rules reads all accounts, and a metric counts the
	// subscriptions of other products.
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Walks: []string{"touched"}, Open: []string{"remind", "not ours"}})
}

// The cost of computing an object depends on the object and not on the age of the account.
func TestApply_OldAccount_ReadsNoMoreRows(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	read := func(ended int) (most int) {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			var facts []fact.Fact
			for n := range ended {
				sub := of(fmt.Sprint("sub_old_", n), "acme", "")
				facts = append(facts, created(n, "active", "pro", sub), deleted(n+1, "pro", sub))
			}
			facts = append(facts, created(1000, "active", "pro"), updated(1001, "active", "enterprise"))
			for _, f := range events(facts, false) {
				change, err := billing.Apply(t.Context(), tx, []fact.Fact{f}, policy, "apply", at(2000))
				if err != nil {
					return err
				}
				most = change.Rows
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
		return most
	}
	young, old := read(0), read(20)
	t.Logf("rows read: %d", young)
	if young != old || young > 10 {
		t.Errorf("a change of an account reads %d rows, of one with 20 ended subscriptions %d", young, old)
	}
}

// counting counts the statements that are sent to the database.
type counting struct {
	ledger.Tx
	trips, statements int
}

func (c *counting) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c.trips++
	c.statements += b.Len()
	return c.Tx.SendBatch(ctx, b)
}

// The number of statements dominates the cost of Apply. Raise a number only with a reason in the commit message, and
// lower it when you can.
func TestApply_PaidInvoices_Statements(t *testing.T) {
	t.Parallel()
	err := pgx.BeginFunc(t.Context(), schematest.New(t), func(tx pgx.Tx) error {
		facts := events([]fact.Fact{paid(1, 1, "pro"), paid(2, 30*86400, "pro")}, false)
		for i, tt := range []struct {
			name string
			want int
		}{
			// The statements: the rules and their lock, the other locks, the fact, the inputs of the computation
			// (facts and rows); the account and its grants; then the rows of subscription, invoice, event subjects,
			// grant, scheduled actions, target and features, the accounts with similar IDs, and the published events.
			{"the first invoice of a customer", 17},
			// There are no target and no features, but the scheduled actions of the subscription are read.
			{"the next period", 16},
		} {
			c := counting{Tx: tx}
			if _, err := billing.Apply(t.Context(), &c, facts[i:i+1], policy, "apply", facts[i].OccurredAt); err != nil {
				return err
			}
			if c.statements != tt.want || c.trips != 3 {
				t.Errorf("%s takes %d statements in %d round trips, want %d in 3", tt.name, c.statements, c.trips, tt.want)
			}
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
}
