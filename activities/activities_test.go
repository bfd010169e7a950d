package activities_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
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
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// bundle contains the dependencies of every activity, with a real database.
type bundle struct {
	*testing.T
	pool     *pgxpool.Pool
	ledger   *ledger.Store
	effects  *effect.Runner
	receipts *receipt.Store
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	pool := schematest.New(t)
	schematest.Receipts(t, pool, "evt_1", "evt_2", "test_1")
	book := ledger.New(pool, groupcommit.Config{})
	receipts := receipt.NewStore(pool, receipt.Options{Timeout: 10 * time.Second})
	t.Cleanup(func() {
		book.Close()
		receipts.Close()
	})
	runner, err := effect.NewRunner(effect.Config{Log: slog.New(slog.DiscardHandler),
		Ledger: book, Meter: noop.Meter{},
		Retrying: func(context.Context, effect.Call, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{T: t, pool: pool, ledger: book, effects: runner, receipts: receipts}
}

// passes moves the first attempts of effects into the past by a duration.
func (b *bundle) passes(d time.Duration) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), `update effects set tried_since = tried_since - $1::interval`, d); err != nil {
		b.Fatal(err)
	}
}

// invoice returns a payload with this customer address.
func invoice(email string) string {
	encoded, _ := json.Marshal(email)
	return `{"id":"evt_1","created":1772323260,"livemode":true,"data":{"object":{"id":"in_1","object":"invoice","number":"A-1","customer":"cus_1","customer_email":` + string(encoded) + `,
		"currency":"usd","status":"paid","amount_paid":4900,"subscription":"sub_1","subscription_details":{"metadata":{"account":"acme"}},
		"lines":{"data":[{"amount":4900,"price":{"id":"price_pro"},"period":{"start":1772323200,"end":1775001600}}]}}}}`
}

// keep stores a payload as the ingress does, and returns the ID of its receipt.
func (b *bundle) keep(body string) (receiptID string) { return b.keepOf("", body) }

func (b *bundle) keepOf(account, body string) (receiptID string) {
	b.Helper()
	outcomes, err := b.receipts.Insert(b.Context(), receipt.Delivery{
		Source: "stripe", Provider: "stripe", ReceivedAt: time.Now(), Header: http.Header{},
		Events: []receipt.New{{Account: account, Mode: "live", EventID: uuid.NewString(), Identity: receipt.ByID, Type: "invoice.paid", Status: receipt.Received, Body: []byte(body)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return outcomes[0].ReceiptID
}

// stale replaces b's runner. It returns a function that counts, by kind, the effects that did not change newer state.
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

// call returns one effect of an event.
func call(kind, object string) effect.Call {
	return effect.Call{Ref: schematest.Ref("evt_1"), Key: kind + ":stripe:live:" + object, Kind: kind}
}

// An effect of a sink that is not configured is recorded as skipped, and has a final state.
func TestEffects_SinkNotConfigured_LeftOut(t *testing.T) {
	b := setup(t)
	test := call("provision-workspace", "acme:v1")
	test.Ref, test.Key = schematest.Ref("test_1"), "provision-workspace:stripe:test:acme:v1"
	w := &activities.Workspaces{Effects: b.effects, Targets: targets{}, Sinks: map[string]activities.Sink{"live": {}}}
	for name, result := range map[string]effect.Result{
		"workspace": must(b, effect.Skipped, w.ProvisionWorkspace, activities.EffectInput[activities.Workspace]{Effect: test, For: activities.Workspace{Mode: "test"}}),
		"entry": must(b, effect.Skipped, (&activities.Finance{Effects: b.effects}).PostEntry,
			activities.EffectInput[activities.Entry]{Effect: call("finance-entry", "in_1"), For: activities.Entry{Mode: "live"}}),
		"letter": must(b, effect.Skipped, (&activities.Mail{Effects: b.effects}).SendLetter,
			activities.EffectInput[activities.Letter]{Effect: call("receipt-email", "in_1"), For: activities.Letter{Mode: "live"}}),
	} {
		if result.Reason != "not configured" || result.Unanswered {
			t.Errorf("%s: %+v", name, result)
		}
	}
	if got := b.lines(`select distinct state || ' ' || error from effects`); !slices.Equal(got, []string{"skipped not configured"}) {
		t.Errorf("recorded %q", got)
	}
}

// do runs an activity as Temporal does.
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

// must runs an effect and checks its final state.
func must[I any](b *bundle, state effect.State, run func(context.Context, I) (effect.Result, error), in I) effect.Result {
	b.Helper()
	result, err := do(b, run, in)
	if err != nil || result.State != state {
		b.Fatalf("result %+v, %v; want %s", result, err, state)
	}
	return result
}

// lines returns the rows of a query with one text column.
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

// until waits until a condition is true.
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

// A skip does not hide an effect that another run has done or is executing.
func TestSkipEffect_OnlyWhatIsNotDone(t *testing.T) {
	b := setup(t)
	r := &activities.Runs{Ledger: b.ledger}
	call := call("finance-entry", "in_1")
	skip := func() (activities.SkipEffectResult, error) {
		return do(b, r.SkipEffect, activities.SkipEffectInput{Effect: call, Reason: "booked by hand"})
	}
	b.exec(`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		values ($1, 'finance-entry', 'claimed', gen_random_uuid(), 'evt_0', 'r', now() + interval '1 hour')`, call.Key)
	if got, err := skip(); err == nil {
		t.Errorf("skipped an effect in progress: %+v", got)
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
