package account_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/account"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

func TestStatements(t *testing.T) {
	schematest.CheckStatements(t, schematest.New(t), schematest.OnPurpose{Made: account.Made, Walks: []string{"list", "uncompared", "traced"}, Open: []string{"tasks", "open tasks", "count tasks", "uncompared"}})
}

// at is a fixed time.
var at = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// setup creates an account with Apply: a subscription in live mode, and a subscription of the account with the same
// ID in test mode.
func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db := schematest.New(t)
	for mode, id := range map[string]string{"live": "sub_1", "test": "sub_9"} {
		subject := fact.Subject{Provider: "stripe", Mode: mode, Customer: "cus_" + mode, EventID: "evt_" + mode, EventType: "customer.subscription.created",
			ReceiptID: "00000000-0000-0000-0000-000000000001", OccurredAt: at}
		facts := []fact.Fact{{Subject: subject, Kind: fact.SubscriptionSeen, Object: id, Rank: fact.RankCreated, Origin: fact.FromEvent, Data: fact.Data{
			Subscription: &fact.Subscription{Status: "active", Account: "acme", Items: []fact.Item{{Price: "price_1", Quantity: 3}}},
		}}}
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			_, err := billing.Apply(t.Context(), tx, facts, fact.Policy{Prices: map[string]fact.Price{"price_1": {Plan: "pro"}}, Order: []string{"pro"}, Features: map[string][]string{"pro": {"sso"}}}, "apply-facts:x", at)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range account.MostInvoices + 1 {
		state, err := json.Marshal(fold.Invoice{Ref: fold.Ref{ID: "in_" + string(rune('a'+i))}, Number: fmt.Sprint("PAWL-", i), Status: "paid", Due: 1000, Paid: 1000, Currency: "usd", PaidAt: at})
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, `insert into invoices (mode, id, account, customer, status, amount, currency, period_start, occurred_at, state)
			values ('live', $1, 'acme', 'cus_live', 'paid', 1000, 'usd', now(), $2, $3)`, "in_"+string(rune('a'+i)), at.AddDate(0, i, 0), state)
	}
	exec(t, db, `insert into finance_entries (effect_key, mode, account, object, invoice, kind, amount, currency, cash, reference)
		values ('finance-export:stripe:live:in_a', 'live', 'acme', 'in_a', 'in_a', 'payment', 1000, 'usd', 1000, 'F-1'),
			('finance-export:stripe:live:re_1', 'live', 'acme', 're_1', 'in_a', 'refund', 400, 'usd', -400, 'F-2'),
			('finance-export:stripe:live:in_b', 'live', 'acme', 'in_b', 'in_b', 'payment', 700, 'eur', 700, 'F-3')`)
	exec(t, db, `insert into objects (kind, mode, id, account, invoice, state) values ('refund', 'live', 're_1', 'acme', 'in_a', '{"Status": "succeeded", "Amount": 400, "Currency": "usd"}')`)
	exec(t, db, `insert into objects (kind, mode, id, account, state, updated_at) values
		('dispute', 'live', 'dp_1', 'acme', '{"Status": "lost", "Amount": 1000, "Currency": "usd"}', now() - interval '1 hour'),
		('dispute', 'test', 'dp_2', 'acme', '{"Status": "lost", "Amount": 1000, "Currency": "usd"}', now())`)
	exec(t, db, `insert into workspaces (mode, account, version, state, plan, quantity, features, effect_key) values ('live', 'acme', 1, 'active', 'pro', 3, '{sso}', 'w')`)
	exec(t, db, `insert into due (mode, owner, account, object, why, step, at, next_at, provider, event_id, receipt_id, occurred_at) values
		('live', 'sub_1', 'acme', 'sub_1', 'end', 0, '2026-12-24', '2026-12-24', 'stripe', 'evt_1', gen_random_uuid(), now()),
		('live', 'sub_1', 'acme', 'in_a', 'dunning', 2, '2026-12-03', '2026-12-03', 'stripe', 'evt_1', gen_random_uuid(), now())`)
	exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		values ('00000000-0000-0000-0000-000000000002', 's', 'stripe', 'live', 'evt_2', 'id', 'invoice.paid', now(), '', 'processed')`)
	exec(t, db, `insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		values ('onboarding-task:sub_1', 'onboarding-task', 'done', '00000000-0000-0000-0000-000000000002', 'evt_2', 'r', now())`)
	exec(t, db, `insert into tasks (mode, kind, object, account, state, title, effect_key) values
		('live', 'onboarding', 'sub_1', 'acme', 'open', 'welcome acme', 'onboarding-task:sub_1'), ('live', 'review', 'stripe:live:in_b', '', 'done', 'look', 'x'),
		('live', 'review', 'stripe:live:in_a', '', 'open', 'look at in_a', 'y'), ('live', 'review', 'stripe:live:acct_9:sub_1', '', 'open', 'look at sub_1', 'y'),
		('test', 'review', 'stripe:test:in_a', '', 'open', 'look', 'y'), ('live', 'review', 'stripe:live:in_other', '', 'open', 'look', 'y')`)
	exec(t, db, `insert into objects (mode, kind, id, account, state) values ('live', 'payment', 'pi_1', 'acme', '{"Charge":"ch_1"}')`)
	exec(t, db, `insert into addresses (customer, mode, provider, email, email_hash, said) values
		('cus_live', 'live', 'stripe', 'ADA@example.com', $1, '')`, billing.HashEmail("ADA@example.com"))
	return db
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestFind_EveryNameOfAnAccount(t *testing.T) {
	t.Parallel()
	db := setup(t)
	live, test := account.Name{Mode: "live", ID: "acme"}, account.Name{Mode: "test", ID: "acme"}
	for _, tt := range []struct {
		id, mode string
		want     []account.Name
	}{
		{"acme", "", []account.Name{live, test}},
		{"acme", "test", []account.Name{test}},
		{"cus_live", "", []account.Name{live}},
		{"sub_9", "", []account.Name{test}},
		{"sub_9", "live", nil},
		{"in_a", "", []account.Name{live}},
		{"", "", nil},
		{"nobody", "", nil},
		{"PAWL-1", "", []account.Name{live}},
		{"PAWL-1", "test", nil},
		{"pi_1", "", []account.Name{live}},
		{"ch_1", "", []account.Name{live}},
		{"ch_1", "test", nil},
		{" Ada@Example.com", "", []account.Name{live}},
		{"eve@example.com", "", nil},
		{"pawl-1", "", []account.Name{live}},
		{"ACME", "", nil}, // another account
	} {
		got, err := account.Find(t.Context(), db, tt.id, tt.mode)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("Find(%q, %q) = %v, %v; want %v", tt.id, tt.mode, got, err, tt.want)
		}
	}
}

// IDs that differ only in case are different accounts: only a search offers the other one.
func TestAlike_OtherCaseOnly(t *testing.T) {
	t.Parallel()
	db := setup(t)
	got, err := account.Alike(t.Context(), db, "ACME")
	if want := []account.Name{{Mode: "live", ID: "acme"}, {Mode: "test", ID: "acme"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := account.Alike(t.Context(), db, "acme"); err != nil || len(got) > 0 {
		t.Errorf("the account itself: %v, %v", got, err)
	}
}

func TestOfAmount_AsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `update invoices set amount = 104990 where id = 'in_b'`)
	exec(t, db, `update invoices set amount = 1049, currency = 'jpy' where id = 'in_c'`)
	exec(t, db, `update invoices set amount = 49000, currency = 'kwd' where id = 'in_d'`)
	for words, want := range map[string][]string{
		"1049.90": {"in_b"}, "1,049.90": {"in_b"}, "$1,049.90": {"in_b"}, "1049.9 usd": {"in_b"}, "USD 1049.90": {"in_b"}, "1049.90 EUR": nil,
		"1049": {"in_c"}, "¥1049": {"in_c"}, "1049.00": {"in_c"}, "1049.01": nil, "49": {"in_d"}, "1.049,90": {"in_b"}, "1049,90 $": {"in_b"}, "€1049.90": nil, "US$ 1049.90": {"in_b"}, "0": nil, "0.00": nil, "49.000 KWD": {"in_d"},
		"104990": nil, "in_b": nil, "": nil, "10,49.90": nil, "9223372036854775807": nil, "-49": nil,
	} {
		got, err := account.OfAmount(t.Context(), db, words)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("OfAmount(%q) = %v, %v; want %v", words, got, err, want)
		}
	}
}

// Each published change of access contains its cause: an event, a scheduled action, a person, or facts that were
// parsed again.
func TestShow_HistoryOfAccess(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		values ('00000000-0000-0000-0000-000000000001', 's', 'stripe', 'live', 'evt_live', 'id', 'customer.subscription.created', now(), '', 'processed')`)
	for _, c := range [][]string{{"apply-due:x", "evt_live", "suspended", ""}, {"hold-account:operator-1", "operator-1", "suspended", ""},
		{"release-account:operator-2", "operator-2", "active", "pro"}, {"rules", "evt_live", "active", "max"}} {
		exec(t, db, `insert into outbox (event_id, mode, account, type, receipt_id, effect_key, data) values (gen_random_uuid(), 'live', 'acme', 'access.changed',
			'00000000-0000-0000-0000-000000000001', $1, jsonb_build_object('source_event', $2::text, 'state', $3::text, 'plan', $4::text, 'quantity', 3, 'version', 2, 'features', array['sso']))`,
			c[0], c[1], c[2], c[3])
	}
	a, err := account.Show(t.Context(), db, account.Name{Mode: "live", ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range a.History {
		from := "?"
		if c.Before != nil {
			from = c.Before.State + " " + c.Before.Plan
		}
		got = append(got, fmt.Sprintf("%s > %s %s by %s: %s", from, c.After.State, c.After.Plan, c.Event, c.Reason))
	}
	want := []string{
		"active pro > active max by evt_live: the account was recomputed: rules", "suspended  > active pro by : a person released the account",
		"suspended  > suspended  by : a person put the account on hold", "active pro > suspended  by evt_live: a scheduled action ran, after customer.subscription.created",
		"? > active pro by evt_live: customer.subscription.created",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if other, err := account.Show(t.Context(), db, account.Name{Mode: "test", ID: "acme"}); err != nil || len(other.History) != 1 {
		t.Errorf("in test mode: %+v, %v", other.History, err)
	}
}

func TestShow_WholeAccount(t *testing.T) {
	t.Parallel()
	a, err := account.Show(t.Context(), setup(t), account.Name{Mode: "live", ID: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Access.State != "active" || a.Access.Plan != "pro" || a.Access.Quantity != 3 || a.Access.Version != 1 || !slices.Equal(a.Access.Features, []string{"sso"}) {
		t.Errorf("access = %+v", a.Access)
	}
	if len(a.Grants) != 1 || a.Grants[0].Object != "sub_1" || a.Grants[0].Event != "evt_live" || a.Grants[0].Ends != nil {
		t.Errorf("grants = %+v", a.Grants)
	}
	if len(a.Subscriptions) != 1 || a.Subscriptions[0].ID != "sub_1" || a.Subscriptions[0].Status != "active" || a.Subscriptions[0].EndedAt != nil {
		t.Errorf("subscriptions = %+v", a.Subscriptions)
	}
	if len(a.Invoices) != account.MostInvoices || !a.MoreInvoices || a.Invoices[0].ID != "in_"+string(rune('a'+account.MostInvoices)) || a.Invoices[0].Paid != 1000 {
		t.Errorf("%d invoices, more %v, first %+v: want the newest %d", len(a.Invoices), a.MoreInvoices, a.Invoices[0], account.MostInvoices)
	}
	if len(a.Entries) != 3 || a.Entries[0].Reference != "F-1" || a.Entries[2].Cash != -400 || !slices.Equal(a.Cash, []account.Cash{{700, "eur"}, {600, "usd"}}) || a.Workspace == nil || a.Workspace.Plan != "pro" {
		t.Errorf("entries = %+v with the sums %+v, workspace = %+v", a.Entries, a.Cash, a.Workspace)
	}
	if len(a.Adjustments) != 2 || a.Adjustments[0] != (account.Adjustment{Kind: "refund", ID: "re_1", Status: "succeeded", Invoice: "in_a", Amount: 400, Currency: "usd"}) || a.Adjustments[1].ID != "dp_1" {
		t.Errorf("adjustments = %+v", a.Adjustments)
	}
	if len(a.Due) != 2 || a.Due[0].Kind != fold.DueDunning || a.Due[0].Step != 2 || a.Due[1].Kind != fold.DueEnd || a.Due[1].Event != "evt_1" {
		t.Errorf("due = %+v, want the next first", a.Due)
	}
	var tasks []string
	for _, task := range a.Tasks {
		tasks = append(tasks, task.Kind+" "+task.Object+" of "+task.Account+" "+task.Event)
	}
	if want := []string{"onboarding sub_1 of acme evt_2", "review stripe:live:acct_9:sub_1 of acme ", "review stripe:live:in_a of acme "}; !slices.Equal(tasks, want) {
		t.Errorf("tasks = %q, want the open ones, including the reviews of the account's objects, %q", tasks, want)
	}
}

func TestShow_NotThere(t *testing.T) {
	t.Parallel()
	_, err := account.Show(t.Context(), schematest.New(t), account.Name{Mode: "live", ID: "nobody"})
	if !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("Show() = %v, want no rows", err)
	}
}

func TestDone_OpenTask_OnceOnly(t *testing.T) {
	t.Parallel()
	db := setup(t)
	open, err := account.TasksAbout(t.Context(), db, "sub_1")
	if err != nil || len(open) != 1 {
		t.Fatalf("TasksAbout() = %v, %v", open, err)
	}
	for i, want := range []bool{true, false} {
		if closed, err := account.Done(t.Context(), db, open[0]); err != nil || closed != want {
			t.Errorf("call %d: Done() = %v, %v; want %v", i, closed, err, want)
		}
	}
	left, err := account.OpenTasks(t.Context(), db, account.TaskFilter{Limit: 10})
	if err != nil || len(left) != 4 || slices.ContainsFunc(left, func(task account.Task) bool { return task.Kind != "review" }) {
		t.Errorf("OpenTasks() = %v, %v; want the four reviews", left, err)
	}
}

func TestTasks_CountedByKind_DueFirst(t *testing.T) {
	t.Parallel()
	db := setup(t)
	exec(t, db, `insert into tasks (mode, kind, object, state, title, effect_key, created_at, due_by) values
		('live', 'dispute', 'dp_1', 'open', 'answer', 'z', '2026-01-01', '2026-01-20'), ('live', 'dispute', 'dp_2', 'open', 'answer', 'z', '2026-01-02', '2026-01-10'),
		('live', 'dispute', 'dp_3', 'done', 'answer', 'z', '2025-01-01', '2025-01-10'),
		('live', 'unknown_price', 'a:b:price_1', 'open', 'say', 'z', '2026-01-03', null), ('live', 'unknown_price', 'c:price_1', 'open', 'say', 'z', '2026-01-03', null),
		('live', 'unknown_price', 'c:price_2', 'open', 'say', 'z', '2026-01-04', null)`)
	counts, err := account.CountTasks(t.Context(), db, true)
	var got []string
	for _, c := range counts {
		got = append(got, strings.TrimSpace(fmt.Sprint(c.Kind, " ", c.Mode, " ", c.Tasks, " ", c.About)))
	}
	if want := []string{"dispute live 2", "unknown_price live 2 price_1", "unknown_price live 1 price_2", "onboarding live 1", "review live 3", "review test 1"}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("counted %q, %v; want %q", got, err, want)
	}
	if d := counts[0]; !d.Oldest.Equal(at) || !d.DueBy.Equal(at.AddDate(0, 0, 9)) || counts[3].DueBy != nil {
		t.Errorf("counted %+v, %+v; want the oldest of 1 January, the next due on the 10th, and a welcome that is never due", d, counts[3])
	}
	tasks, err := account.OpenTasks(t.Context(), db, account.TaskFilter{Mode: "live", Limit: 2})
	if err != nil || len(tasks) != 2 || tasks[0].Object != "dp_2" || tasks[1].Object != "dp_1" {
		t.Errorf("first are %+v, %v; want the dispute that is due next, then the other", tasks, err)
	}
	if tasks, err = account.OpenTasks(t.Context(), db, account.TaskFilter{Kind: "onboarding", Limit: 9}); err != nil || len(tasks) != 1 {
		t.Errorf("onboarding: %+v, %v", tasks, err)
	}
	if tasks, err = account.OpenTasks(t.Context(), db, account.TaskFilter{About: "price_1", Limit: 9}); err != nil || len(tasks) != 2 ||
		tasks[0].Object != "a:b:price_1" || tasks[1].Object != "c:price_1" {
		t.Errorf("about price_1: %+v, %v", tasks, err)
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	past, ahead := now.Add(-time.Hour), now.Add(time.Hour)
	for want, s := range map[string]account.Subscription{
		"is active":    {Status: "active", EndsAt: &ahead},
		"is held back": {Status: "active", Held: true},
		"is active, and keeps its earlier plan: the change was refused": {Status: "active", Refused: true},
		"is active, and its renewal is overdue since 2026-02-28":        {Status: "active", RenewsBy: &past},
		"grants nothing: its order was refused or rejected":             {Status: "active", Withheld: true},
		"was refunded in full": {Status: "active", PaidBack: true},
		"is past due":          {Status: "past_due", PastDueSince: &past, EndsAt: &ahead},
		"is past due, and its grace period is over": {Status: "past_due", PastDueSince: &past, EndsAt: &now},
		"has reached its planned end":               {Status: "active", EndsAt: &past},
		"is canceled":                               {Status: "canceled", EndsAt: &past, EndedAt: &past},
		"has no event of its own yet":               {},
	} {
		if got := s.Standing(now); got != want {
			t.Errorf("%+v %s, want %s", s, got, want)
		}
	}
}

// A task to map a price has the amount that the account has paid last for each order with the price.
func TestTasks_UnmappedPrice_LastPayments(t *testing.T) {
	t.Parallel()
	db := schematest.New(t)
	for _, sql := range []string{
		`insert into subscriptions (mode, id, account, status, state) values ('live', 'sub_1', 'acme', 'active', '{"Asks":["price_gold"]}'), ('live', 'sub_2', 'acme', 'active', '{}')`,
		`insert into invoices (mode, id, account, subscription, status, amount, currency, period_start, occurred_at, state) values
			('live', 'in_1', 'acme', 'sub_1', 'paid', 4900, 'usd', '2026-11-01', now(), '{}'), ('live', 'in_2', 'acme', 'sub_1', 'paid', 29900, 'usd', '2026-12-01', now(), '{}'),
			('live', 'in_3', 'acme', 'sub_2', 'paid', 100, 'usd', '2026-12-01', now(), '{}')`,
		`insert into objects (mode, kind, id, account, state) values ('live', 'checkout', 'cs_1', 'acme', '{"Amount":1500,"Currency":"usd","Asks":["price_gold"]}')`,
		`insert into tasks (mode, kind, object, account, state, title, effect_key, amount, currency) values
			('live', 'unknown_price', 'acme:price_gold', 'acme', 'open', 'map', '', 0, ''), ('live', 'dispute', 'dp_1', 'acme', 'open', 'answer', '', 700, 'eur')`,
	} {
		exec(t, db, sql)
	}
	tasks, err := account.OpenTasks(t.Context(), db, account.TaskFilter{Limit: 9})
	if err != nil || len(tasks) != 2 {
		t.Fatalf("%+v, %v", tasks, err)
	}
	for _, task := range tasks {
		want := map[string]string{"unknown_price": "31400 usd", "dispute": "700 eur"}[task.Kind]
		if got := fmt.Sprint(task.Amount, " ", task.Currency); got != want {
			t.Errorf("%s has %s, want %s", task.Kind, got, want)
		}
	}
	counts, err := account.CountTasks(t.Context(), db, true)
	if err != nil || len(counts) != 2 {
		t.Fatalf("%+v, %v", counts, err)
	}
	for _, c := range counts {
		want := map[string]map[string]int64{"unknown_price": {"usd": 31400}, "dispute": {"eur": 700}}[c.Kind]
		if !maps.Equal(c.Money, want) {
			t.Errorf("%s counts %v, want %v", c.Kind, c.Money, want)
		}
	}
}
