package rebuild_test

import (
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

func TestCheck_RowsThatDrifted_NamedAndRepaired(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(100)
	deliver(t, pool, events([]fact.Fact{created(0, "active", "pro"), paid(1, 1, "pro"), updated(50, "active", "enterprise")}, false), now)
	for _, sql := range []string{
		`update subscriptions set plan = 'starter', state = jsonb_set(state, '{Plan}', '"starter"')`,
		`delete from grants`,
		`update accounts set target_state = 'suspended', target_plan = ''`,
		`insert into grants (mode, object, account, plan) values ('live', 'sub_ghost', 'ghost', 'pro')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got := check(t, pool, billing.Scope{}, now)
	want := []string{
		"accounts acme (live): target_features, target_plan, target_quantity, target_state",
		"grants sub_1 (live): is missing",
		"grants sub_ghost (live): has no facts",
		"subscriptions sub_1 (live): plan, state.Plan",
	}
	slices.Sort(got)
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i][:strings.Index(want[i], ":")]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}

	before := count(t, pool, `select count(*) from outbox where type = 'access.changed'`)
	acme := billing.Scope{Mode: "live", Account: "acme"}
	if of := check(t, pool, acme, now); len(of) != 3 {
		t.Errorf("of the account alone: %q", of)
	}
	if objects, err := rebuild.Account(t.Context(), pool, acme, billing.Recompute{Cause: billing.CauseRows, Policy: policy, At: now}); err != nil || objects == 0 {
		t.Errorf("Repair() = %d, %v", objects, err)
	}
	if of := check(t, pool, acme, now); len(of) != 0 {
		t.Errorf("of the account alone, after the repair: %q", of)
	}
	if left := check(t, pool, billing.Scope{}, now); !slices.Equal(left, []string{"grants sub_ghost (live): has no facts"}) {
		t.Errorf("after the repair: %q", left)
	}
	if n := count(t, pool, `select count(*) from outbox where type = 'access.changed'`); n <= before {
		t.Error("nobody is told that access has changed")
	}
	if n := count(t, pool, `select count(*) from facts`); n != 3 {
		t.Errorf("%d facts, want the 3 that were there", n)
	}
}

// A repair of an account restores all of its rows, whatever was changed by hand.
func TestRepair_RowsChangedOrDeleted_AsTheFactsSay(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	now := at(3 * aDay)
	deliver(t, pool, events([]fact.Fact{
		created(0, "active", "pro"), paid(1, 1, "pro"), charge(2, 0), refunded("re_1", 50, "succeeded", 10), disputed(60, fact.RankCreated, "needs_response"),
		credited(70, "issued"), warned(80, true), failed(2, 2*aDay, 1, "pro"), sale(90, "paid", "pi_9", by("cs_1", "acme")),
	}, false), now)
	acme := billing.Scope{Mode: "live", Account: "acme"}
	for _, table := range []string{"accounts", "subscriptions", "invoices", "payments", "refunds", "disputes", "fraud_warnings", "credit_notes", "checkouts", "grants", "due"} {
		if n := count(t, pool, `select count(*) from `+table); n == 0 {
			t.Fatalf("%s is empty", table)
		}
	}
	for _, sql := range []string{
		`update accounts set target_state = 'suspended', target_plan = '', target_features = '{}'`, `update accounts set customer = ''`,
		`update subscriptions set plan = 'starter'`, `delete from subscriptions`,
		`update invoices set status = 'open'`, `delete from invoices`,
		`update objects set invoice = ''`, `update objects set state = jsonb_set(state, '{Status}', '"failed"')`, `delete from objects`,
		`delete from objects where kind = 'payment'`, `delete from objects where kind = 'refund'`, `delete from objects where kind = 'dispute'`,
		`delete from objects where kind = 'fraud_warning'`, `delete from objects where kind = 'credit_note'`, `delete from objects where kind = 'checkout'`,
		`update grants set plan = 'starter'`, `delete from grants`, `insert into grants (mode, object, account, plan) values ('live', 'sub_ghost', 'acme', 'enterprise')`,
		`delete from due`, `update due set at = at + interval '1 day'`,
		`update accounts set target_features = '{ghost}'`,
		`update subscriptions set account = 'umbrella'`, `update invoices set account = 'umbrella'`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		found := check(t, pool, billing.Scope{}, now)
		if _, err := rebuild.Account(t.Context(), pool, acme, billing.Recompute{Cause: billing.CauseRows, Policy: policy, At: now}); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if left := check(t, pool, billing.Scope{}, now); len(left) > 0 {
			t.Errorf("%s: %q after the repair of %q", sql, left, found)
		}
	}
}

// While an action is due and its run has not started, the check reports no difference, and neither does it
// afterwards. The check finds a row without facts, even if its action is due, and a missing row.
func TestCheck_DueAndNotRunYet_NoDifference(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	end := years(aDay)
	ends := with(func(s *fact.Subscription) { s.CancelAt = at(end) })
	deliver(t, pool, events([]fact.Fact{
		created(0, "active", "pro", ends), failed(1, end-4*aDay, 1, "pro"), paid(2, 20, "starter", oneOff(90*day), of("in_2", "umbrella", "cus_2")),
	}, false), at(end-4*aDay))
	for _, now := range []int{end - 1, end, end + hour} {
		for _, of := range []billing.Scope{{}, {Mode: "live", Account: "acme"}} {
			if lines := check(t, pool, of, at(now)); len(lines) > 0 {
				t.Errorf("%d seconds after the end, of %+v: %q", now-end, of, lines)
			}
		}
	}
	clock := func(now int) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			subject := fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", ReceiptID: "00000000-0000-7000-8000-000000000001"}
			_, err := billing.ApplyDue(t.Context(), tx, subject, "acme", at(now), policy, "apply-due")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	clock(end)
	if lines := check(t, pool, billing.Scope{}, at(end+hour)); len(lines) > 0 {
		t.Errorf("after the clock's run: %q", lines)
	}
	for _, sql := range []string{
		`insert into due (mode, owner, account, object, why, step, at, provider, provider_account, event_id, receipt_id, occurred_at, next_at)
			values ('live', 'sub_ghost', 'umbrella', 'sub_ghost', 'dunning', 1, '2026-03-02Z', 'stripe', '', 'evt_1', gen_random_uuid(), '2026-03-02Z', '2026-03-02Z')`,
		`delete from due where why = 'dunning' and object = 'in_1'`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got := check(t, pool, billing.Scope{}, at(end+hour))
	if len(got) != 3 || !strings.HasSuffix(got[0], ": is missing") || !strings.HasSuffix(got[1], ": is missing") || !strings.HasSuffix(got[2], ": has no facts") {
		t.Errorf("got %q, want two steps of in_1 that are missing, and the one of nobody", got)
	}
}

// A scheduled run ends a plan while a check begins. The check uses the time of its snapshot, which contains the
// changes of the run.
func TestCheck_ClockRanBefore_NoDifference(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	began := time.Now()
	ends := began.Add(-time.Millisecond)
	deliver(t, pool, events([]fact.Fact{updated(1, "active", "pro", with(func(s *fact.Subscription) { s.CancelAt = ends }))}, false), ends.Add(-hour*time.Second))
	if lines := check(t, pool, billing.Scope{}, time.Time{}); len(lines) > 0 {
		t.Errorf("before the clock: %q", lines)
	}
	subject := fact.Subject{Provider: "stripe", Mode: "live", EventID: "evt_1", ReceiptID: "00000000-0000-7000-8000-000000000001"}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		change, err := billing.ApplyDue(t.Context(), tx, subject, "acme", time.Time{}, policy, "apply-due")
		if got := change.After.Access.Target.State; got != fold.WorkspaceSuspended {
			t.Errorf("the account is %s, want it suspended by the clock", got)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if lines := check(t, pool, billing.Scope{}, time.Time{}); len(lines) > 0 {
		t.Errorf("after the clock: %q", lines)
	}
	if lines := check(t, pool, billing.Scope{}, ends.Add(-time.Millisecond)); len(lines) == 0 {
		t.Error("a check by a clock that is behind finds nothing: it could not be told from the snapshot's")
	}
}

// A rebuild moves a payment without an invoice to the account of the customer's subscription, even if the first
// object that refers to the subscription is a refund of another payment.
func TestCheck_PaymentsBeforeTheirSubscription_NothingDiffers(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	alone := charge(5, 0)
	alone.Object, alone.Payment.Charge, alone.Payment.Invoice = "ch_9", "ch_9", ""
	deliver(t, pool, events([]fact.Fact{alone, charge(4, 30), refund("re_1", 3, "succeeded", 30), paid(1, 2, "pro"), created(1, "active", "pro")}, false), at(100))
	if got := check(t, pool, billing.Scope{}, at(100)); len(got) > 0 {
		t.Errorf("a rebuild differs: %q", got)
	}
}
