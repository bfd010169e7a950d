package billing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

type bundle struct {
	*testing.T
	pool  *pgxpool.Pool
	store *billing.Store
}

func setup(t *testing.T) bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	return bundle{t, pool, billing.New(pool)}
}

var (
	march    = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	features = map[string][]string{
		"starter": {"projects"}, "pro": {"api", "projects"}, "enterprise": {"api", "audit-log", "projects", "sso"},
	}
)

// paid is the invoice of the nth month of one subscription.
func paid(month int, plan string) billing.InvoicePaid {
	at := march.AddDate(0, month, 0)
	return billing.InvoicePaid{
		Provider: "stripe", Mode: "live", Account: "acme", Customer: "cus_1", Invoice: fmt.Sprintf("in_%d", month), Subscription: "sub_1",
		Amount: 100 * int64(month+1), Currency: "usd", Plan: plan, PeriodStart: at, PeriodEnd: at.AddDate(0, 1, 0),
		OccurredAt: at, EventID: fmt.Sprintf("evt_%d", month), ReceiptID: uuid.NewString(),
	}
}

func (b bundle) activate(f billing.InvoicePaid, reopen bool) (done billing.Activation, err error) {
	err = pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
		var err error
		done, err = billing.ActivateSubscription(b.Context(), tx, f, features[f.Plan], reopen, "key:"+f.Invoice, json.RawMessage(`{}`))
		return err
	})
	return done, err
}

func (b bundle) mustActivate(f billing.InvoicePaid) billing.Activation {
	b.Helper()
	done, err := b.activate(f, false)
	if err != nil {
		b.Fatal(err)
	}
	return done
}

// restore undoes an activation as it was kept in the ledger.
func (b bundle) restore(f billing.InvoicePaid, done billing.Activation) (restored billing.Restoration) {
	b.Helper()
	kept, err := json.Marshal(done)
	if err != nil {
		b.Fatal(err)
	}
	var held billing.Activation
	if err := json.Unmarshal(kept, &held); err != nil {
		b.Fatal(err)
	}
	err = pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) (err error) {
		restored, err = billing.RestoreSubscription(b.Context(), tx, f, held, func(plan string) []string { return features[plan] }, "undo:"+f.Invoice, json.RawMessage(`{}`))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return restored
}

func (b bundle) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// lines returns what a query of one text column gives.
func (b bundle) lines(sql string) []string {
	b.Helper()
	rows, err := b.pool.Query(b.Context(), sql)
	if err != nil {
		b.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	return list
}

func (b bundle) enabled() string {
	b.Helper()
	return strings.Join(b.lines(`select feature from entitlements where enabled order by feature`), " ")
}

func (b bundle) subscription() billing.Subscription {
	b.Helper()
	held, found, err := b.store.Subscription(b.Context(), "live", "sub_1")
	if err != nil || !found {
		b.Fatalf("subscription: found %v, %v", found, err)
	}
	return held
}

// state is everything that must not depend on the order in which events came.
func (b bundle) state() string {
	b.Helper()
	return strings.Join(slices.Concat(
		b.lines(`select concat_ws(' ', id, account, status, plan, period_end, fence_at, fence_event) from subscriptions order by id`),
		b.lines(`select concat_ws(' ', id, status, plan, amount, paid_at, fence_event) from invoices order by id`),
		b.lines(`select feature || ' ' || enabled from entitlements where enabled order by feature`),
	), "\n")
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}

func TestActivate_AnyOrderOfInvoices_SameState(t *testing.T) {
	t.Parallel()
	for _, plans := range [][]string{{"starter", "pro", "enterprise", "pro"}, {"enterprise", "pro", "starter"}} {
		var want string
		for _, order := range permutations(len(plans)) {
			t.Run(fmt.Sprint(plans[0], order), func(t *testing.T) {
				b := bundle{T: t, pool: schematest.New(t)}
				for _, month := range order {
					b.mustActivate(paid(month, plans[month]))
				}
				got := b.state()
				if want == "" {
					want = got
				}
				if got != want {
					t.Errorf("state after order %v:\n%s\nwant what another order came to:\n%s", order, got, want)
				}
				if !strings.Contains(got, "active "+plans[len(plans)-1]) {
					t.Errorf("state after order %v:\n%s\nwant the newest invoice's plan", order, got)
				}
			})
		}
	}
}

func TestActivate_OlderInvoice_PaysButChangesNothingElse(t *testing.T) {
	b := setup(t)
	b.mustActivate(paid(1, "pro"))
	done := b.mustActivate(paid(0, "enterprise"))
	if !done.Superseded || done.Features != nil {
		t.Errorf("activation %+v, want it superseded", done)
	}
	if held := b.subscription(); held.Plan != "pro" || held.FenceEvent != "evt_1" {
		t.Errorf("subscription %+v, want the newer event's", held)
	}
	if got := b.enabled(); got != "api projects" {
		t.Errorf("features %q, want those of pro", got)
	}
	if got := b.lines(`select id from invoices where status = 'paid' order by id`); len(got) != 2 {
		t.Errorf("paid invoices %v, want both", got)
	}
	if by, err := b.store.SupersededBy(b.Context(), paid(0, "enterprise")); err != nil || by != "evt_1" {
		t.Errorf("the older invoice is superseded by %q, %v", by, err)
	}
	sibling := paid(1, "pro")
	sibling.OccurredAt = sibling.OccurredAt.Add(-time.Second)
	for _, f := range []billing.InvoicePaid{paid(1, "pro"), sibling} {
		if by, err := b.store.SupersededBy(b.Context(), f); err != nil || by != "" {
			t.Errorf("the newer invoice is superseded by %q, %v", by, err)
		}
	}
}

func TestActivate_Downgrade_WithdrawsWhatThePlanLacks(t *testing.T) {
	b := setup(t)
	other := paid(0, "starter")
	other.Subscription, other.Invoice = "sub_2", "in_other"
	b.mustActivate(other)
	b.mustActivate(paid(0, "enterprise"))
	// Another subscription of the account gives sso, whatever this one does.
	b.exec(`update entitlements set invoice = 'in_other' where feature = 'sso'`)
	done := b.mustActivate(paid(1, "starter"))
	if !slices.Equal(done.Withdrawn, []string{"api", "audit-log"}) {
		t.Errorf("withdrawn %v", done.Withdrawn)
	}
	if got := b.enabled(); got != "projects sso" {
		t.Errorf("features %q, want those of starter and of the other subscription", got)
	}
	b.restore(paid(1, "starter"), done)
	if got := b.enabled(); got != "api audit-log projects sso" {
		t.Errorf("features after the undo: %q", got)
	}
}

func TestRestore_UpgradeUndone_AsItWas(t *testing.T) {
	b := setup(t)
	b.mustActivate(paid(0, "starter"))
	before := b.subscription()
	done := b.mustActivate(paid(1, "enterprise"))
	b.restore(paid(1, "enterprise"), done)
	after := b.subscription()
	if after.Status != before.Status || after.Plan != before.Plan || !after.PeriodEnd.Equal(*before.PeriodEnd) {
		t.Errorf("subscription %+v, want %+v", after, before)
	}
	if !after.FenceAt.Equal(paid(1, "").OccurredAt) {
		t.Errorf("the fence went back to %s", after.FenceAt)
	}
	if got := b.enabled(); got != "projects" {
		t.Errorf("features %q, want only those from before", got)
	}
}

func TestRestore_FirstInvoiceUndone_NothingIsActive(t *testing.T) {
	b := setup(t)
	f := paid(0, "pro")
	b.restore(f, b.mustActivate(f))
	if held := b.subscription(); held.Status != "incomplete" || held.Plan != "" {
		t.Errorf("subscription %+v, want it incomplete", held)
	}
	if got := b.enabled(); got != "" {
		t.Errorf("features %q, want none", got)
	}
	if got := b.lines(`select status from invoices`); !slices.Equal(got, []string{"paid"}) {
		t.Errorf("invoice %v: that it was paid stays true", got)
	}
}

func TestRestore_NewerInvoiceSince_ItsStateStays(t *testing.T) {
	b := setup(t)
	old := paid(0, "pro")
	done := b.mustActivate(old)
	b.mustActivate(paid(1, "pro"))
	want := b.state()
	b.restore(old, done)
	if got := b.state(); got != want {
		t.Errorf("state\n%s\nwant what the newer invoice wrote\n%s", got, want)
	}
}

// An invoice that is collected late pays for an older period, however new its event is.
func TestActivate_OldInvoicePaidLate_NewerPlanStays(t *testing.T) {
	t.Parallel()
	late := paid(0, "starter")
	late.OccurredAt = paid(1, "").OccurredAt.AddDate(0, 0, 5)
	for _, order := range [][]billing.InvoicePaid{{paid(1, "pro"), late}, {late, paid(1, "pro")}} {
		b := bundle{T: t, pool: schematest.New(t)}
		for _, f := range order {
			b.mustActivate(f)
		}
		if got := b.lines(`select plan || ' ' || fence_invoice from subscriptions`); !slices.Equal(got, []string{"pro in_1"}) || b.enabled() != "api projects" {
			t.Errorf("after %s, %s: %q with %q", order[0].Invoice, order[1].Invoice, got, b.enabled())
		}
	}
}

// A setup fee between a renewal and its payment is no later period: the renewal, paid late, still decides.
func TestActivate_PaidForNoTime_RenewalPaidLateDecides(t *testing.T) {
	t.Parallel()
	item, late := paid(1, "starter"), paid(1, "pro")
	item.Invoice, item.EventID = "in_item", "evt_item"
	item.PeriodStart = item.PeriodStart.AddDate(0, 0, 4)
	item.PeriodEnd, item.OccurredAt = item.PeriodStart, item.PeriodStart
	late.OccurredAt = late.PeriodStart.AddDate(0, 0, 6)
	for _, order := range [][]billing.InvoicePaid{{item, late}, {late, item}} {
		b := bundle{T: t, pool: schematest.New(t)}
		b.store = billing.New(b.pool)
		b.mustActivate(paid(0, "starter"))
		for _, f := range order {
			b.mustActivate(f)
		}
		held := b.subscription()
		if held.Plan != "pro" || !held.PeriodStart.Equal(late.PeriodStart) || !held.PeriodEnd.Equal(late.PeriodEnd) || b.enabled() != "api projects" {
			t.Errorf("after %s, %s: %+v with %q, want what %s paid for", order[0].Invoice, order[1].Invoice, held, b.enabled(), late.Invoice)
		}
	}
}

// Whichever of an invoice's events takes it back, what the invoice wrote is undone.
func TestRestore_BySiblingEvent(t *testing.T) {
	b := setup(t)
	b.mustActivate(paid(0, "enterprise"))
	f := paid(1, "starter")
	done := b.mustActivate(f)
	f.EventID = "evt_sibling"
	b.restore(f, done)
	if held := b.subscription(); held.Plan != "enterprise" || b.enabled() != "api audit-log projects sso" {
		t.Errorf("subscription %+v with %q", held, b.enabled())
	}
}

func TestRestore_BothInvoices_NothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		b := bundle{T: t, pool: schematest.New(t)}
		invoices := []billing.InvoicePaid{paid(0, "pro"), paid(1, "pro")}
		done := []billing.Activation{b.mustActivate(invoices[0]), b.mustActivate(invoices[1])}
		for _, i := range order {
			b.restore(invoices[i], done[i])
		}
		if got := b.lines(`select status || plan from subscriptions`); !slices.Equal(got, []string{"incomplete"}) || b.enabled() != "" {
			t.Errorf("order %v: subscription %q with %q", order, got, b.enabled())
		}
	}
}

// The newer invoice came first and is taken back: the older one stands and gives what it paid for.
func TestRestore_Newer_OlderThatCameLaterGives(t *testing.T) {
	b := setup(t)
	newer := paid(1, "enterprise")
	done := b.mustActivate(newer)
	b.mustActivate(paid(0, "starter"))
	b.restore(newer, done)
	if held := b.subscription(); held.Status != "active" || held.Plan != "starter" || held.FenceInvoice != "in_0" || b.enabled() != "projects" {
		t.Errorf("subscription %+v with %q", held, b.enabled())
	}
}

// What another subscription's invoice gives, too, stays.
// The newer invoice was taken back before the older one came: it fences nothing any more.
func TestRestore_Newer_OlderThatComesAfterwardsGives(t *testing.T) {
	b := setup(t)
	newer, older := paid(1, "pro"), paid(0, "enterprise")
	b.restore(newer, b.mustActivate(newer))
	if event, err := b.store.SupersededBy(b.Context(), older); err != nil || event != "" {
		t.Errorf("superseded by %q (%v), want nothing: it was taken back", event, err)
	}
	if done := b.mustActivate(older); done.Superseded {
		t.Error("the older invoice is superseded by one that was taken back")
	}
	if held := b.subscription(); held.Status != "active" || held.Plan != "enterprise" || b.enabled() != "api audit-log projects sso" {
		t.Errorf("subscription %+v with %q, want what the one invoice that stands gives", held, b.enabled())
	}
}

// A worker stalls between the sink's answer and its record for longer than its claim, while a newer invoice brings the
// workspace further: what the worker then records is not what the workspace is.
func TestRecordWorkspace_ClaimTakenOver_NewerStateStays(t *testing.T) {
	b := setup(t)
	book := ledger.New(b.pool)
	t.Cleanup(book.Close)
	claim := func(f billing.InvoicePaid) ledger.Grant {
		grant, err := book.Claim(b.Context(), ledger.Claim{
			Key: "key:" + f.Invoice, Kind: "provision-workspace", Exclusive: billing.WorkspaceOf(f),
			ReceiptID: f.ReceiptID, EventID: f.EventID, Lease: time.Minute, Unmarked: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	record := func(f billing.InvoicePaid, token int64, held bool) {
		done, err := book.Finish(b.Context(), ledger.Finish{
			Key: "key:" + f.Invoice, Token: token, State: ledger.Done, StartedAt: time.Now(),
			Also: []ledger.Statement{billing.RecordWorkspace(f, f.Plan, "active", "key:"+f.Invoice)},
		})
		if err != nil || done.Held != held {
			t.Fatalf("record of %s: held %v, %v", f.Invoice, done.Held, err)
		}
	}
	older, newer := paid(0, "starter"), paid(1, "enterprise")
	stalled := claim(older)
	b.exec(`update effects set lease_until = now() - interval '1 second'`)
	claim(newer) // lets the stalled one go
	record(newer, claim(newer).Token, true)
	record(older, stalled.Token, false)
	if got := b.lines(`select concat_ws(' ', plan, state, effect_key) from workspaces`); !slices.Equal(got, []string{"enterprise active key:in_1"}) {
		t.Errorf("workspace %q, want what it was brought to last", got)
	}
	// The same when the older one has been done by whoever took it over.
	b.exec(`update effects set state = 'done', done_at = now() - interval '1 second' where key = 'key:in_0'`)
	record(older, stalled.Token, false)
	if got := b.lines(`select plan from workspaces`); !slices.Equal(got, []string{"enterprise"}) {
		t.Errorf("workspace %q, want what it was brought to last", got)
	}
}

func TestRestore_TellsWhetherTheWorkspaceDiffers(t *testing.T) {
	const workspace, working = `insert into workspaces (mode, account, plan, state, effect_key) values ('live', 'acme', $1, $2, 'k')`, `
		insert into effects (key, kind, exclusive, state, receipt_id, event_id, workflow_id, run_id, lease_until)
		values ('k', 'k', 'workspace:live:acme', 'claimed', gen_random_uuid(), '', '', '', now())`
	for name, tt := range map[string]struct {
		// plan and state are the workspace's, stands what another invoice gives.
		plan, state, stands string
		working, want       bool
	}{
		"none, and none wanted":         {"", "", "", false, false},
		"released":                      {"pro", "released", "", false, false},
		"active without an invoice":     {"pro", "active", "", false, true},
		"as the other invoice says":     {"starter", "active", "starter", false, false},
		"of this invoice's plan":        {"pro", "active", "starter", false, true},
		"released with an invoice":      {"starter", "released", "starter", false, true},
		"missing with an invoice":       {"", "", "starter", false, true},
		"being brought to nobody knows": {"pro", "released", "", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			if tt.stands != "" {
				b.mustActivate(paid(0, tt.stands))
			}
			f := paid(1, "pro")
			done := b.mustActivate(f)
			if tt.state != "" {
				b.exec(workspace, tt.plan, tt.state)
			}
			if tt.working {
				b.exec(working)
			}
			if got := b.restore(f, done); got.WorkspaceDiffers != tt.want {
				t.Errorf("differs %v, want %v", got.WorkspaceDiffers, tt.want)
			}
		})
	}
}

func TestRestore_FeatureOfAnotherSubscription_Stays(t *testing.T) {
	b := setup(t)
	other := paid(0, "starter")
	other.Subscription, other.Invoice = "sub_2", "in_other"
	b.mustActivate(other)
	f := paid(1, "pro")
	b.restore(f, b.mustActivate(f))
	if got := b.lines(`select feature || ' ' || invoice from entitlements where enabled`); !slices.Equal(got, []string{"projects in_other"}) {
		t.Errorf("features %q", got)
	}
}

func TestActivate_Ended_OnlyAPersonReopens(t *testing.T) {
	b := setup(t)
	b.mustActivate(paid(0, "pro"))
	for _, status := range []string{"canceled", "incomplete_expired"} {
		b.exec(`update subscriptions set status = $1`, status)
		events := len(b.lines(`select type from outbox`))
		if _, err := b.activate(paid(1, "pro"), false); !errors.Is(err, billing.ErrEnded) {
			t.Errorf("%s: error %v, want ErrEnded", status, err)
		}
		if held := b.subscription(); held.Status != status || !held.Terminal() {
			t.Errorf("%s: subscription %+v was touched", status, held)
		}
		if got := len(b.lines(`select type from outbox`)); got != events {
			t.Errorf("%s: %d events were announced all the same", status, got-events)
		}
	}
	done, err := b.activate(paid(1, "pro"), true)
	if err != nil || done.Before == nil || done.Before.Status != "incomplete_expired" {
		t.Fatalf("reopened: %+v, %v", done, err)
	}
	if held := b.subscription(); held.Status != "active" {
		t.Errorf("subscription %+v, want it active", held)
	}
	b.restore(paid(1, "pro"), done)
	if held := b.subscription(); held.Status != "incomplete_expired" {
		t.Errorf("subscription %+v after the undo, want it ended again", held)
	}
}

func TestActivate_NoSubscription_InvoiceAndFeatures(t *testing.T) {
	b := setup(t)
	f := paid(0, "pro")
	f.Subscription = ""
	done := b.mustActivate(f)
	if got := b.lines(`select id from subscriptions`); len(got) != 0 {
		t.Errorf("subscriptions %v, want none", got)
	}
	b.restore(f, done)
	if got := b.enabled(); got != "" {
		t.Errorf("features %q after the undo", got)
	}
}

func TestActivate_ModesNeverMeet(t *testing.T) {
	b := setup(t)
	b.mustActivate(paid(0, "pro"))
	test := paid(1, "starter")
	test.Mode = "test"
	b.mustActivate(test)
	if held := b.subscription(); held.Plan != "pro" {
		t.Errorf("the live subscription is %+v", held)
	}
	if got := b.lines(`select mode || ' ' || feature from entitlements where enabled order by 1`); !slices.Equal(got, []string{"live api", "live projects", "test projects"}) {
		t.Errorf("features %v", got)
	}
}

// The account's row is locked, so that the order of an account's events is that of their commits.
func TestActivate_OneAccount_OutboxOrderIsCommitOrder(t *testing.T) {
	b := setup(t)
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	first, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := billing.ActivateSubscription(ctx, first, paid(0, "pro"), nil, false, "a", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := b.activate(paid(1, "pro"), false)
		second <- err
	}()
	b.waitForLock(ctx)
	if err := first.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if got := b.lines(`select effect_key from outbox order by id`); !slices.Equal(got, []string{"a", "key:in_1"}) {
		t.Errorf("outbox order %v", got)
	}
}

// waitForLock returns when a transaction of this database waits for a lock.
func (b bundle) waitForLock(ctx context.Context) {
	b.Helper()
	for {
		var waiting bool
		err := b.pool.QueryRow(ctx, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil {
			b.Fatalf("nobody waits for the account's lock: %v", err)
		}
		if waiting {
			return
		}
	}
}

func TestOnboardingTask_OpenOncePerPeriod_DoneStaysDone(t *testing.T) {
	b := setup(t)
	f := paid(0, "enterprise")
	open, cancel := billing.OpenOnboardingTask(f, "Welcome", "open"), billing.CancelOnboardingTask(f, "open", "cancel")
	record := func(key, state string) {
		b.exec(`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until)
			values ($1, 'kind', $2, gen_random_uuid(), 'evt_1', 'w', 'r', now()) on conflict (key) do update set state = excluded.state`, key, state)
	}
	record("open", "skipped")
	b.exec(open.SQL, open.Args...)
	if got := b.lines(`select state from onboarding_tasks`); len(got) != 0 {
		t.Errorf("tasks %v of an effect that was skipped meanwhile", got)
	}
	record("open", "done")
	b.exec(open.SQL, open.Args...)
	b.exec(open.SQL, open.Args...)
	b.exec(cancel.SQL, cancel.Args...)
	if got := b.lines(`select state from onboarding_tasks`); !slices.Equal(got, []string{"open"}) {
		t.Errorf("tasks %v, want one, open: its undo is not done", got)
	}
	record("cancel", "done")
	b.exec(cancel.SQL, cancel.Args...)
	if got := b.lines(`select state from onboarding_tasks`); !slices.Equal(got, []string{"cancelled"}) {
		t.Errorf("tasks %v, want one, cancelled", got)
	}
	other := billing.OpenOnboardingTask(f, "Welcome back", "other")
	record("other", "done")
	b.exec(other.SQL, other.Args...)
	b.exec(cancel.SQL, cancel.Args...)
	if got := b.lines(`select state || ' ' || title from onboarding_tasks`); !slices.Equal(got, []string{"open Welcome back"}) {
		t.Errorf("tasks %v: another invoice has opened it again", got)
	}
	cancel = billing.CancelOnboardingTask(f, "other", "cancel")
	b.exec(`update onboarding_tasks set state = 'done'`)
	b.exec(cancel.SQL, cancel.Args...)
	if got := b.lines(`select state from onboarding_tasks`); !slices.Equal(got, []string{"done"}) {
		t.Errorf("tasks %v: what a person has done stays done", got)
	}
}

// Two invoices of one period ask for the task. The one that opened it is taken back: the other still wants it.
func TestOnboardingTask_WantedByAnotherInvoice_StaysOpen(t *testing.T) {
	b := setup(t)
	f := paid(0, "enterprise")
	key := func(invoice string) string { return "onboarding-task:stripe:live:acme:2026-03-01:" + invoice }
	record := func(key, state string) {
		b.exec(`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until)
			values ($1, 'kind', $2, gen_random_uuid(), 'evt_1', 'w', 'r', now()) on conflict (key) do update set state = excluded.state`, key, state)
	}
	for _, invoice := range []string{"in_0", "in_9"} {
		record(key(invoice), "done")
		open := billing.OpenOnboardingTask(f, "Welcome", key(invoice))
		b.exec(open.SQL, open.Args...)
	}
	record("onboarding-task:stripe:live:acme2:2026-03-01:in_8", "done") // of another account
	record("cancel", "done")
	for i, want := range []string{"open", "cancelled"} {
		invoice := paid(0, "enterprise")
		invoice.Invoice = []string{"in_0", "in_9"}[i]
		cancel := billing.CancelOnboardingTask(invoice, key(invoice.Invoice), "cancel")
		b.exec(cancel.SQL, cancel.Args...)
		record(key(invoice.Invoice), "compensated")
		if got := b.lines(`select state from onboarding_tasks`); !slices.Equal(got, []string{want}) {
			t.Errorf("tasks %v after %s was taken back, want it %s", got, invoice.Invoice, want)
		}
	}
}

func TestAccountOf_FirstAccountKeepsTheCustomer(t *testing.T) {
	b := setup(t)
	b.mustActivate(paid(0, "pro"))
	other := paid(1, "pro")
	other.Account, other.Subscription = "umbrella", "sub_2"
	b.mustActivate(other)
	for customer, want := range map[string]string{"cus_1": "acme", "cus_2": "", "": ""} {
		if got, err := b.store.AccountOf(b.Context(), "live", "stripe", customer); err != nil || got != want {
			t.Errorf("account of %q is %q (%v), want %q", customer, got, err, want)
		}
	}
}

func TestPlanWithout_OwnSubscriptionFirst(t *testing.T) {
	b := setup(t)
	f := paid(1, "enterprise")
	want := func(plan string) {
		t.Helper()
		if got, err := b.store.PlanWithout(b.Context(), f); err != nil || got != plan {
			t.Errorf("plan %q, %v; want %q", got, err, plan)
		}
	}
	b.mustActivate(f)
	want("")
	other := paid(2, "pro")
	other.Subscription = "sub_2"
	done := b.mustActivate(other)
	want("pro")
	b.mustActivate(paid(0, "starter"))
	want("starter")
	b.restore(other, done)
	want("starter")
}

func TestStatements(t *testing.T) {
	schematest.CheckStatements(t, schematest.New(t), billing.Statements, schematest.OnPurpose{Open: []string{"workspace differs"}})
}
