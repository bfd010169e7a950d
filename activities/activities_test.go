package activities_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// bundle has what every activity needs, on a real database.
type bundle struct {
	*testing.T
	pool     *pgxpool.Pool
	ledger   *ledger.Store
	effects  *effect.Runner
	receipts *receipt.Store
	billing  *billing.Store
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	book := ledger.New(pool)
	receipts := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	t.Cleanup(func() {
		book.Close()
		receipts.Close()
	})
	runner, err := effect.NewRunner(effect.Config{
		Ledger: book, Meter: noop.Meter{},
		FirstBackoff: time.Millisecond, MaxBackoff: time.Millisecond, Retrying: func(context.Context, effect.Call, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{T: t, pool: pool, ledger: book, effects: runner, receipts: receipts, billing: billing.New(pool)}
}

// invoice is a payload, with the customer's address as given.
func invoice(email string) string {
	encoded, _ := json.Marshal(email)
	return `{"id":"evt_1","created":1772323260,"livemode":true,"data":{"object":{"id":"in_1","customer":"cus_1","customer_email":` + string(encoded) + `,
		"currency":"usd","status":"paid","amount_paid":4900,"subscription":"sub_1","subscription_details":{"metadata":{"account":"acme"}},
		"lines":{"data":[{"amount":4900,"price":{"id":"price_pro"},"period":{"start":1772323200,"end":1775001600}}]}}}}`
}

// keep stores a payload, and returns its receipt.
func (b *bundle) keep(body string) (receiptID string) {
	b.Helper()
	outcomes, err := b.receipts.Insert(b.Context(), receipt.Delivery{
		Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Mode: "live", EventID: uuid.NewString(), IDOrigin: "body", Type: "invoice.paid", Status: receipt.Received, Body: []byte(body)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return outcomes[0].ReceiptID
}

// stale returns how often effects of each kind left newer state as it is, as the runner that it puts in
// place of b's counts them.
func (b *bundle) stale() func() map[string]int64 {
	b.Helper()
	reader := sdkmetric.NewManualReader()
	config := b.effects.Config
	config.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
	var err error
	if b.effects, err = effect.NewRunner(config); err != nil {
		b.Fatal(err)
	}
	return func() map[string]int64 {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(b.Context(), &all); err != nil {
			b.Fatal(err)
		}
		counted := map[string]int64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "pawl_stale_rejections" {
					for _, p := range sum.DataPoints {
						kind, _ := p.Attributes.Value("kind")
						counted[kind.AsString()] = p.Value
					}
				}
			}
		}
		return counted
	}
}

// fact is what the payload of a receipt says.
func fact(receiptID string) billing.InvoicePaid {
	start := time.Unix(1772323200, 0).UTC()
	return billing.InvoicePaid{
		Provider: "stripe", Mode: "live", Account: "acme", Customer: "cus_1", Invoice: "in_1", Subscription: "sub_1", Amount: 4900, Currency: "usd",
		Plan: "pro", PeriodStart: start, PeriodEnd: start.AddDate(0, 1, 0), OccurredAt: start.Add(time.Minute), EventID: "evt_1", ReceiptID: receiptID,
	}
}

func input(kind string, f billing.InvoicePaid) activities.InvoiceEffectInput {
	return activities.InvoiceEffectInput{Fact: f, Effect: effect.Call{
		Key: kind + ":stripe:live:" + f.Account + ":" + f.Invoice, Kind: kind, ReceiptID: f.ReceiptID, EventID: f.EventID,
	}}
}

// do runs an activity where Temporal would.
func do[I, R any](b *bundle, run func(context.Context, I) (R, error), in I) (R, error) {
	b.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(run)
	var result R
	value, err := env.ExecuteActivity(run, in)
	if err != nil {
		return result, err
	}
	if err := value.Get(&result); err != nil {
		b.Fatal(err)
	}
	return result, nil
}

// must runs an effect and wants it to come to a state.
func must[I any](b *bundle, state effect.State, run func(context.Context, I) (effect.Result, error), in I) effect.Result {
	b.Helper()
	result, err := do(b, run, in)
	if err != nil || result.State != state {
		b.Fatalf("result %+v, %v; want %s", result, err, state)
	}
	return result
}

// lines returns what a query of one text column gives.
func (b *bundle) lines(sql string) []string {
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

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// until waits for a condition.
func (b *bundle) until(ready func() bool) {
	b.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatal("waited in vain")
		}
	}
}

func (b *bundle) invoices() *activities.Invoices {
	return &activities.Invoices{
		Receipts: b.receipts, Billing: b.billing, Effects: map[string]activities.EffectSettings{"finance-export": {ActivityOnly: true}},
		Plans: activities.Plans{Prices: map[string]string{"price_pro": "pro", "price_big": "enterprise"}, Onboarding: map[string]bool{"enterprise": true}},
	}
}

func load(receiptID string) activities.LoadInvoicePaidInput {
	return activities.LoadInvoicePaidInput{ReceiptID: receiptID, Provider: "stripe", EventID: "evt_1", Mode: "live"}
}

func TestLoadInvoicePaid_Fact(t *testing.T) {
	b := setup(t)
	id := b.keep(invoice("ada@example.com"))
	got, err := do(b, b.invoices().LoadInvoicePaid, load(id))
	if err != nil || got.Review != "" || got.Fact != fact(id) || got.Onboarding || !got.Effects["finance-export"].ActivityOnly {
		t.Errorf("loaded %+v, %v\nwant %+v", got, err, fact(id))
	}
	encoded, err := json.Marshal(got)
	if err != nil || strings.Contains(string(encoded), "ada@") {
		t.Errorf("the address goes into the history: %s", encoded)
	}
	got, err = do(b, b.invoices().LoadInvoicePaid, load(b.keep(strings.Replace(invoice(""), "price_pro", "price_big", 1))))
	if err != nil || got.Fact.Plan != "enterprise" || !got.Onboarding {
		t.Errorf("loaded %+v, %v; want the plan that has onboarding", got, err)
	}
	beside := `"lines":{"data":[{"amount":9900,"price":{"id":"price_storage"},"period":{"start":1772323200,"end":1803859200}},`
	id = b.keep(strings.Replace(invoice(""), `"lines":{"data":[`, beside, 1))
	if got, err = do(b, b.invoices().LoadInvoicePaid, load(id)); err != nil || got.Fact != fact(id) {
		t.Errorf("loaded %+v, %v\nwant the plan's period %+v", got, err, fact(id))
	}
}

func TestLoadInvoicePaid_Account(t *testing.T) {
	b := setup(t)
	anonymous := strings.Replace(invoice(""), `"account":"acme"`, ``, 1)
	for _, want := range []string{"cus_1", "umbrella"} {
		got, err := do(b, b.invoices().LoadInvoicePaid, load(b.keep(anonymous)))
		if err != nil || got.Fact.Account != want {
			t.Errorf("account %q (%v), want %q", got.Fact.Account, err, want)
		}
		b.exec(`insert into accounts (mode, id, provider, customer) values ('live', 'umbrella', 'stripe', 'cus_1') on conflict do nothing`)
	}
}

func TestLoadInvoicePaid_Review(t *testing.T) {
	b := setup(t)
	b.exec(`insert into subscriptions (mode, id, account, status, fence_at, fence_event) values ('live', 'sub_gone', 'acme', 'canceled', '2026-02-01', 'evt_0')`)
	good := invoice("")
	ended := strings.Replace(good, "sub_1", "sub_gone", 1)
	for name, tt := range map[string]struct {
		body, review string
		reopen       bool
	}{
		"unreadable":     {body: "{", review: "unreadable_payload: body: not a JSON object"},
		"field missing":  {body: strings.Replace(good, `"currency":"usd",`, ``, 1), review: "unreadable_payload: invoice.currency: absent"},
		"unknown plan":   {body: strings.Replace(good, "price_pro", "price_x", 1), review: "plan_unknown: none of price_x"},
		"money back":     {body: strings.Replace(good, `[{"amount":4900`, `[{"amount":-4900`, 1), review: "nothing_bought: "},
		"account long":   {body: strings.Replace(good, `"acme"`, `"`+strings.Repeat("a", 201)+`"`, 1), review: "account_unusable"},
		"account a path": {body: strings.Replace(good, `"acme"`, `".."`, 1), review: "account_unusable"},
		"account odd":    {body: strings.Replace(good, `"acme"`, `"a\nb"`, 1), review: "account_unusable"},
		"ended":          {body: ended, review: "subscription_ended: sub_gone is held as canceled since 2026-02-01T00:00:00Z"},
		"ended reviewed": {body: ended, reopen: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := load(b.keep(tt.body))
			in.Reopen = tt.reopen
			got, err := do(b, b.invoices().LoadInvoicePaid, in)
			if err != nil || !strings.HasPrefix(got.Review, tt.review) || (got.Review == "") != (tt.review == "") || got.Ended != (name == "ended") {
				t.Errorf("loaded %+v, %v; want review %q", got, err, tt.review)
			}
		})
	}
	got, err := do(b, b.invoices().LoadInvoicePaid, load(uuid.NewString()))
	if err != nil || !strings.HasPrefix(got.Review, "body_erased") {
		t.Errorf("loaded %+v, %v; want review of an erased body", got, err)
	}
}

func TestSubscriptions_ActivateAndRestore(t *testing.T) {
	b := setup(t)
	announced := 0
	s := &activities.Subscriptions{
		Effects: b.effects, Plans: activities.Plans{Features: map[string][]string{"pro": {"api"}}}, Announced: func() { announced++ },
	}
	f := fact(uuid.NewString())
	activation := activities.ActivateSubscriptionInput{Effect: input("activate-subscription", f).Effect, Fact: f}
	done := must(b, effect.Done, s.ActivateSubscription, activation)
	must(b, effect.AlreadyDone, s.ActivateSubscription, activation)
	if announced != 1 {
		t.Errorf("the relay was woken %d times, want once per event", announced)
	}
	undo := activities.RestoreSubscriptionInput{Effect: input("restore-subscription", f).Effect, Fact: f, Activation: done.Value}
	undo.Effect.Compensates = activation.Effect.Key
	must(b, effect.Done, s.RestoreSubscription, undo)
	must(b, effect.Compensated, s.ActivateSubscription, activation)
	want := []string{"acme invoice.paid evt_1 pro 4900", "acme invoice.paid.compensated evt_1 pro 4900"}
	if got := b.lines(`select concat_ws(' ', account, type, data->>'source_event', data->>'plan', data->>'amount') from outbox order by id`); !slices.Equal(got, want) {
		t.Errorf("announced\n got %q\nwant %q", got, want)
	}
	b.exec(`update subscriptions set status = 'canceled'`)
	other := activation
	other.Effect.Key, other.Fact.Invoice = "other", "in_2"
	if got := must(b, effect.Refused, s.ActivateSubscription, other); !strings.HasPrefix(got.Reason, "subscription_ended: sub_1") {
		t.Errorf("reason %q", got.Reason)
	}
	other.Effect.Round, other.Reopen = 1, true
	must(b, effect.Done, s.ActivateSubscription, other)
}

func TestSubscriptions_OlderEvent_CountedAsStaleOnce(t *testing.T) {
	b := setup(t)
	stale := b.stale()
	s := &activities.Subscriptions{Effects: b.effects, Announced: func() {}}
	b.exec(`insert into subscriptions (mode, id, account, status, fence_at, fence_event) values ('live', 'sub_1', 'acme', 'active', '2026-04-01', 'evt_newer')`)
	f := fact(uuid.NewString())
	activation := activities.ActivateSubscriptionInput{Effect: input("activate-subscription", f).Effect, Fact: f}
	must(b, effect.Done, s.ActivateSubscription, activation)
	must(b, effect.AlreadyDone, s.ActivateSubscription, activation)
	must(b, effect.Skipped, b.provisioning("http://127.0.0.1:1").ProvisionWorkspace, input("provision-workspace", f))
	want := map[string]int64{"activate-subscription": 1, "provision-workspace": 1}
	if got := stale(); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestOnboarding_CreateAndCancel(t *testing.T) {
	b := setup(t)
	o := &activities.Onboarding{Effects: b.effects}
	f := fact(uuid.NewString())
	must(b, effect.Done, o.CreateOnboardingTask, input("onboarding-task", f))
	must(b, effect.AlreadyDone, o.CreateOnboardingTask, input("onboarding-task", f))
	if got := b.lines(`select concat_ws('|', account, state, title) from onboarding_tasks`); fmt.Sprint(got) != "[acme|open|Welcome acme to pro]" {
		t.Errorf("tasks %v", got)
	}
	undo := input("cancel-onboarding-task", f)
	undo.Effect.Compensates = input("onboarding-task", f).Effect.Key
	must(b, effect.Done, o.CancelOnboardingTask, undo)
	if got := b.lines(`select state from onboarding_tasks`); fmt.Sprint(got) != "[cancelled]" {
		t.Errorf("tasks %v", got)
	}
}

// A skip never hides what another run has done meanwhile, or is doing.
func TestSkipEffect_OnlyWhatIsNotDone(t *testing.T) {
	b := setup(t)
	r := &activities.Runs{Ledger: b.ledger}
	call := input("finance-export", fact(uuid.NewString())).Effect
	skip := func() (activities.SkipEffectResult, error) {
		return do(b, r.SkipEffect, activities.SkipEffectInput{Effect: call, Reason: "booked by hand"})
	}
	b.exec(`insert into effects (key, kind, state, receipt_id, event_id, workflow_id, run_id, lease_until)
		values ($1, 'finance-export', 'claimed', gen_random_uuid(), 'evt_0', 'w', 'r', now() + interval '1 hour')`, call.Key)
	if got, err := skip(); err == nil {
		t.Errorf("skipped what is being done: %+v", got)
	}
	b.exec(`update effects set state = 'done'`)
	if got, err := skip(); err != nil || got.Met == nil || got.Met.State != effect.AlreadyDone || got.Met.By != "evt_0" {
		t.Errorf("result %+v, %v; want it met as done", got, err)
	}
	b.exec(`update effects set state = 'failed'`)
	if got, err := skip(); err != nil || got.Met != nil {
		t.Errorf("result %+v, %v; want it skipped", got, err)
	}
}
