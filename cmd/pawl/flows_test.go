package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

const paidOrder = `{"id": 5678901234567890123, "name": "#1001", "total_price": "12.50", "currency": "EUR", "note": "a gift",
	"customer": {"id": 7}, "line_items": [{"sku": "mug", "quantity": 2}]}`

// The commands of docs/flows.md, with its example: they print what a run would do, and send nothing.
func TestFlows_ExampleOfTheDocs(t *testing.T) {
	t.Parallel()
	page := commandtest.Read(t, filepath.Join(repository, "docs", "flows.md"))
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page)[1]
	dir := t.TempDir()
	file, order := filepath.Join(dir, "pawl.yaml"), filepath.Join(dir, "order.json")
	commandtest.Write(t, file, example)
	commandtest.Write(t, order, paidOrder)
	env := map[string]string{"DATABASE_URL": "postgres://localhost/unused", "SHOPIFY_SECRET": "shpss_0123456789abcdef0123456789abcdef", "STOCK_TOKEN": "t", "SHIP_TOKEN": "t"}
	run := func(in string, args ...string) commandtest.Result {
		t.Helper()
		return commandtest.Run(t, program(), in, env, append(args, "--config", file)...)
	}
	if r := run("", "config", "check"); r.Code != 0 {
		t.Errorf("config check: %+v", r)
	}
	if r := run("", "flows", "list"); r.Code != 0 || !strings.Contains(r.Out, "events  provider shopify: orders/paid") || !strings.Contains(r.Out, "sinks   ship, stock") {
		t.Errorf("flows list: %+v", r)
	}
	r := run("", "flows", "test", "ship-order", "--event", order)
	want := `flow ship-order: 3 steps, account 7

reserve
  key      flow-request:shopify:live:ship-order:reserve:5678901234567890123
  request  POST /reservations (sink stock)
           {"lines":[{"n":2,"sku":"mug"}],"order":5678901234567890123}
  undo     DELETE /reservations/$reserve.id (sink stock)
           key undo-flow-request:shopify:live:ship-order:reserve:5678901234567890123

label
  after    reserve
  key      flow-request:shopify:live:ship-order:label:5678901234567890123
  request  POST /labels (sink ship)
           {"order":5678901234567890123,"reservation":"$reserve.id"}
  undo     none: a later refusal parks the run for a person

wrap
  key      flow-task:shopify:live:ship-order:wrap:5678901234567890123
  task     Gift wrap #1001
  due      24h0m0s after the event
  undo     cancels the task
`
	if r.Code != 0 || r.Out != want {
		t.Errorf("flows test: exit %d, %s\n%s\nwant\n%s", r.Code, r.Err, r.Out, want)
	}
	r = run(strings.Replace(paidOrder, "EUR", "GBP", 1), "flows", "test", "ship-order", "--event", "-")
	if r.Code != 0 || !strings.Contains(r.Out, "does nothing: its condition is false") {
		t.Errorf("another currency: %+v", r)
	}
	r = run(strings.Replace(paidOrder, `"sku"`, `"code"`, 1), "flows", "test", "ship-order", "--event", "-")
	if r.Code != 1 || !strings.Contains(r.Err, "would park: flow ship-order, steps.reserve.body: l.sku is missing") {
		t.Errorf("a missing field: %+v", r)
	}
	if r := run("{", "flows", "test", "ship-order", "--event", "-"); r.Code != 1 || !strings.Contains(r.Err, "not JSON") {
		t.Errorf("no JSON: %+v", r)
	}
	if r := run("{}", "flows", "test", "ship", "--event", "-"); r.Code != 2 || !strings.Contains(r.Err, "the flows are ship-order") {
		t.Errorf("an unknown flow: %+v", r)
	}
	type step struct{ Name, Key string }
	got := commandtest.Decode[struct {
		Steps []step            `json:"steps"`
		Keys  map[string]string `json:"ledger_keys"`
	}](t, run("", "flows", "test", "ship-order", "--event", order, "--mode", "test", "--account", "a.myshopify.com", "--json"))
	if len(got.Steps) != 3 || got.Keys["label"] != "flow-request:shopify:test:ship-order:label:a.myshopify.com:5678901234567890123" {
		t.Errorf("JSON: %+v", got)
	}
}

// The example of docs/flows.md with events that pawl publishes. The CloudEvent contains the type, the mode and the
// account.
func TestFlows_PublishedExampleOfTheDocs(t *testing.T) {
	t.Parallel()
	page := commandtest.Read(t, filepath.Join(repository, "docs", "flows.md"))
	dir := t.TempDir()
	file, paid := filepath.Join(dir, "pawl.yaml"), filepath.Join(dir, "paid.json")
	commandtest.Write(t, file, regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)[3][1])
	event := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(page)[1]
	commandtest.Write(t, paid, event)
	env := map[string]string{"DATABASE_URL": "postgres://localhost/unused", "STRIPE_WEBHOOK_SECRET": "whsec_0123456789abcdef0123456789abcdef", "LICENCES_TOKEN": "t"}
	run := func(in string, args ...string) commandtest.Result {
		t.Helper()
		return commandtest.Run(t, program(), in, env, append(args, "--config", file)...)
	}
	if r := run("", "flows", "list"); r.Code != 0 || !strings.Contains(r.Out, "events  published by pawl: billing.invoice.paid, billing.refund.succeeded") {
		t.Errorf("flows list: %+v", r)
	}
	r := run("", "flows", "test", "licence", "--event", paid)
	want := `flow licence: 1 step, account acme

create
  key      flow-request:pawl:live:licence:create:acme:in_1
  request  PUT /licences/in_1 (sink licences)
           {"account":"acme","at":"2026-03-01T12:00:00Z","plan":"pro"}
  undo     none: a later refusal parks the run for a person
`
	if r.Code != 0 || r.Out != want {
		t.Errorf("flows test: exit %d, %s\n%s\nwant\n%s", r.Code, r.Err, r.Out, want)
	}
	for name, tt := range map[string]struct{ in, problem string }{
		"another type": {strings.Replace(event, "invoice.paid", "invoice.closed", 1), `does not select the type "billing.invoice.closed"`},
		"data alone":   {`{"account": "acme"}`, "is not a CloudEvent of pawl"},
		"another mode": {strings.Replace(event, "/pawl/live", "/pawl/prod", 1), "is not a CloudEvent of pawl"},
	} {
		if r := run(tt.in, "flows", "test", "licence", "--event", "-"); r.Code != 2 || !strings.Contains(r.Err, tt.problem) {
			t.Errorf("%s: %+v, want %s", name, r, tt.problem)
		}
	}
	if r := run("", "flows", "test", "licence", "--event", paid, "--mode", "test"); r.Code != 2 || !strings.Contains(r.Err, "the CloudEvent contains the mode") {
		t.Errorf("--mode: %+v", r)
	}
}

// The example of docs/flows.md with a list: each item has a request of its own.
func TestFlows_ListExampleOfTheDocs(t *testing.T) {
	t.Parallel()
	page := commandtest.Read(t, filepath.Join(repository, "docs", "flows.md"))
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	commandtest.Write(t, file, regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)[1][1])
	env := map[string]string{"DATABASE_URL": "postgres://localhost/unused", "SHOPIFY_SECRET": "shpss_0123456789abcdef0123456789abcdef", "TICKETS_TOKEN": "t"}
	r := commandtest.Run(t, program(), `{"id": 1, "line_items": [{"sku": "mug", "quantity": 2}, {"sku": "a/b", "quantity": 1}]}`, env,
		"flows", "test", "book-tickets", "--event", "-", "--config", file)
	want := `flow book-tickets: 3 steps

book[1]
  key      flow-request:shopify:live:book-tickets:book:1/mug
  request  PUT /bookings/1/mug (sink tickets)
           {"seats":2}
  undo     DELETE /bookings/1/mug (sink tickets)
           key undo-flow-request:shopify:live:book-tickets:book:1/mug

book[2]
  key      flow-request:shopify:live:book-tickets:book:1/a/b
  request  PUT /bookings/1/a%2Fb (sink tickets)
           {"seats":1}
  undo     DELETE /bookings/1/a%2Fb (sink tickets)
           key undo-flow-request:shopify:live:book-tickets:book:1/a/b

confirm
  after    book
  key      flow-request:shopify:live:book-tickets:confirm:1
  request  POST /orders/1/confirm (sink tickets)
  undo     none: a later refusal parks the run for a person
`
	if r.Code != 0 || r.Out != want {
		t.Errorf("flows test: exit %d, %s\n%s\nwant\n%s", r.Code, r.Err, r.Out, want)
	}
}

// The example of docs/flows.md with a workflow: its ID is the key of the step.
func TestFlows_WorkflowExampleOfTheDocs(t *testing.T) {
	t.Parallel()
	page := commandtest.Read(t, filepath.Join(repository, "docs", "flows.md"))
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	commandtest.Write(t, file, regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)[2][1])
	env := map[string]string{"DATABASE_URL": "postgres://localhost/unused", "SHOPIFY_SECRET": "shpss_0123456789abcdef0123456789abcdef"}
	r := commandtest.Run(t, program(), paidOrder, env, "flows", "test", "orders", "--event", "-", "--config", file)
	want := `flow orders: 1 step, account 7

fulfil
  key      flow-workflow:shopify:live:orders:fulfil:5678901234567890123
  workflow OrderPaid on task queue orders, timeout 24h0m0s, ID flow-workflow:shopify:live:orders:fulfil:5678901234567890123
           input {"lines":[{"n":2,"sku":"mug"}]}
  undo     OrderCancelled on task queue orders, ID undo-flow-workflow:shopify:live:orders:fulfil:5678901234567890123
           input "$fulfil.shipment"
           key undo-flow-workflow:shopify:live:orders:fulfil:5678901234567890123
`
	if r.Code != 0 || r.Out != want {
		t.Errorf("flows test: exit %d, %s\n%s\nwant\n%s", r.Code, r.Err, r.Out, want)
	}
}

// The preview plans the flow for stored events. It changes nothing, and does not count an effect whose key another event
// has used.
func TestFlows_Preview_StoredEvents(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	page := commandtest.Read(t, filepath.Join(repository, "docs", "flows.md"))
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page)[1]
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	commandtest.Write(t, file, example)
	env := map[string]string{"DATABASE_URL": pool.Config().ConnString(), "SHOPIFY_SECRET": "shpss_0123456789abcdef0123456789abcdef", "STOCK_TOKEN": "t", "SHIP_TOKEN": "t"}
	store := receipt.NewStore(pool, receipt.Options{Timeout: time.Minute})
	defer store.Close()
	deliver := func(id, mode, eventType, body string) {
		t.Helper()
		if _, err := store.Insert(t.Context(), receipt.Delivery{Source: "shop", Provider: "shopify", ReceivedAt: time.Now(), Header: http.Header{}, Events: []receipt.New{
			{Mode: mode, EventID: id, Identity: receipt.ByID, Type: eventType, Status: receipt.Ignored, Reason: "type_ignored", Body: []byte(body)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for id, is := range map[string]struct{ mode, eventType, body string }{
		"e-full":    {"live", "orders/paid", paidOrder},
		"e-gbp":     {"live", "orders/paid", strings.NewReplacer("EUR", "GBP", "123,", "124,").Replace(paidOrder)},
		"e-faulty":  {"live", "orders/paid", strings.NewReplacer(`"sku"`, `"code"`, "123,", "125,").Replace(paidOrder)},
		"e-deleted": {"live", "orders/paid", "{}"},
		"e-doubt":   {"live", "orders/paid", strings.Replace(paidOrder, "123,", "126,", 1)},
		"e-failed":  {"live", "orders/paid", strings.Replace(paidOrder, "123,", "127,", 1)},
		"e-test":    {"test", "orders/paid", paidOrder},
		"e-other":   {"live", "orders/updated", paidOrder},
	} {
		deliver(id, is.mode, is.eventType, is.body)
	}
	deliver("e-again", "live", "orders/paid", paidOrder) // a later event about the same order
	for _, sql := range []string{
		`delete from receipt_bodies where receipt_id = (select id from receipts where event_id = 'e-deleted')`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		 select 'flow-request:shopify:live:ship-order:reserve:5678901234567890123', 'flow-request', 'done', id, event_id, 'run', now() from receipts where event_id = 'e-test'`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		 select 'flow-request:shopify:live:ship-order:reserve:5678901234567890126', 'flow-request', 'uncertain', id, event_id, 'run', now() from receipts where event_id = 'e-doubt'`,
		`insert into effects (key, kind, state, receipt_id, event_id, run_id, lease_until)
		 select 'flow-request:shopify:live:ship-order:reserve:5678901234567890127', 'flow-request', 'failed', id, event_id, 'run', now() from receipts where event_id = 'e-failed'`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := commandtest.Run(t, program(), "", env, "flows", "preview", "ship-order", "--since", "1h", "--config", file)
	for _, line := range []string{
		`e-full +ignored +would run label, wrap; 1 already known by their keys`,
		`e-gbp +ignored +nothing: its condition is false`,
		`e-faulty +ignored +would park: flow ship-order, steps.reserve.body: l.sku is missing`,
		`e-deleted +ignored +would park: the payload was deleted`,
		`\n7 events since .*: 2 would cause 5 effects, 3 would park; nothing was sent\n`,
		`pawl events start --status ignored --source shop --type orders/paid --mode live --since \S+Z --until \S+Z --reason REASON --dry-run\n`,
		`e-again +ignored +nothing: all keys are already known`,
		`e-doubt +ignored +would park: it is unknown whether this happened: reserve`,
		`e-failed +ignored +would run reserve, label, wrap\n`,
	} {
		if r.Code != 0 || !regexp.MustCompile(line).MatchString(r.Out) {
			t.Errorf("exit %d, %s\n%s\nwant %s", r.Code, r.Err, r.Out, line)
		}
	}
	if strings.Contains(r.Out, "e-test") || strings.Contains(r.Out, "e-other") {
		t.Errorf("other events are listed:\n%s", r.Out)
	}
	r = commandtest.Run(t, program(), "", env, "flows", "preview", "ship-order", "--limit", "2", "--json", "--config", file)
	if got := commandtest.Decode[struct {
		More   bool
		Events []any
	}](t, r); !got.More || len(got.Events) != 2 {
		t.Errorf("--limit 2: %+v", got)
	}
	var effects int
	if err := pool.QueryRow(t.Context(), `select count(*) from effects`).Scan(&effects); err != nil || effects != 3 {
		t.Errorf("%d effects after the preview, %v", effects, err)
	}
}
