package importer_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/importer"
	"github.com/pawlhq/pawl/cmd/internal/operator/rules"
	ingress "github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/schematest"
)

// world is a company that had subscribers before it installed pawl.
type world struct {
	*testing.T
	sandbox *sandbox.Sandbox
	pool    *pgxpool.Pool
	config  importer.Config
	// told contains the lists about which the import reported progress.
	told []string
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, pool: schematest.New(t)}
	var err error
	if w.sandbox, err = sandbox.Start(t.Context(), sandbox.Config{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.sandbox.Close() })
	api, err := stripe.NewClient("rk_live_1", w.sandbox.URL()+"/stripe", &http.Client{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.config = importer.Config{
		Pool: w.pool, API: api.With(stripe.Patience{Tries: 3, First: time.Millisecond}), Source: "stripe", Mode: webhook.Live,
		Policy: fact.Policy{Prices: map[string]fact.Price{"price_pro": {Plan: "pro"}}, Order: []string{"pro"}, Features: map[string][]string{"pro": {"api"}}, Grace: time.Hour},
		OnPage: func(list string, _ int) { w.told = append(w.told, list) },
	}
	return w
}

// happened adds earlier events to the simulated Stripe.
func (w *world) happened(params ...forge.Params) {
	w.Helper()
	var events []forge.Event
	for i, p := range params {
		p.Provider, p.At = ingress.Provider, time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		e, err := forge.New(p, "")
		if err != nil {
			w.Fatal(err)
		}
		events = append(events, e)
	}
	if err := forge.Tell(w.Context(), w.sandbox.URL()+"/stripe", events); err != nil {
		w.Fatal(err)
	}
}

func (w *world) fault(spec string) {
	w.Helper()
	resp, err := http.Post(w.sandbox.URL()+"/_faults", "application/json", strings.NewReader(spec))
	if err != nil || resp.StatusCode != http.StatusCreated {
		w.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

func (w *world) one(sql string) (n int) {
	w.Helper()
	if err := w.pool.QueryRow(w.Context(), sql).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

// clean checks the state after every import: there are no effects, and the rows equal the rows that are computed from
// the facts.
func (w *world) clean() {
	w.Helper()
	for _, sql := range []string{
		`select count(*) from outbox`, `select count(*) from effects`, `select count(*) from tasks`, `select count(*) from facts where origin <> 'import'`,
		// A scheduled action belongs to the receipt of its fact.
		`select count(*) from facts f where not exists (select from receipts r where r.id = f.receipt_id and r.event_id = f.event_id and r.status = 'processed')`,
	} {
		if n := w.one(sql); n != 0 {
			w.Errorf("%s: %d", sql, n)
		}
	}
	differences, err := rules.CheckRows(w.Context(), w.pool, billing.Scope{}, w.config.Policy, nil)
	if err != nil || len(differences) != 0 {
		w.Errorf("the rows differ from the facts: %v, %v", differences, err)
	}
}

func TestRun_EverythingOnce_AlsoWhenBrokenOff(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const subscribers = 230
	var params []forge.Params
	for i := range subscribers {
		account := fmt.Sprint("acct-", i)
		params = append(params,
			forge.Params{Type: "customer.created", Account: account, Live: true},
			forge.Params{Type: "customer.subscription.created", Account: account, Live: true},
		)
	}
	params = append(params,
		forge.Params{Type: "customer.subscription.deleted", Account: "gone", Live: true},
		forge.Params{Type: "invoice.finalized", Account: "acct-1", Seed: "open", Live: true},
		forge.Params{Type: "invoice.paid", Account: "acct-1", Seed: "paid", Live: true},
		forge.Params{Type: "customer.subscription.created", Account: "in test mode"},
	)
	w.happened(params...)

	w.fault(`{"service":"stripe","status":429,"retry_after":0,"next":2}`) // can pass
	w.config.OnPage = func(list string, read int) {
		w.told = append(w.told, list)
		if list == "subscriptions" && read == 100 {
			w.fault(`{"service":"stripe","status":503,"next":3}`) // more errors than the import retries
		}
	}
	if _, err := importer.Run(t.Context(), w.config); err == nil || !strings.Contains(err.Error(), "import subscriptions") {
		t.Fatalf("Run() = %v, want that it was broken off", err)
	}
	w.clean()
	before := w.one(`select count(*) from facts`)
	w.told, w.config.OnPage = nil, func(list string, _ int) { w.told = append(w.told, list) }
	result, err := importer.Run(t.Context(), w.config)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"subscriptions", "subscriptions", "invoices"}; !result.Resumed || !slices.Equal(w.told, want) {
		t.Errorf("resumed %t, and read %v; want the rest, %v", result.Resumed, w.told, want)
	}
	// The import includes the customer of a deleted object, and no customer of the other mode.
	if got := result.Read; got["customers"] != subscribers+1 || got["subscriptions"] != subscribers || got["invoices"] != 1 || len(result.LeftOut) != 0 {
		t.Errorf("read %v, left out %v", got, result.LeftOut)
	}
	if n := w.one(`select count(*) from subscriptions where plan = 'pro' and status = 'active' and mode = 'live'`); n != subscribers {
		t.Errorf("%d subscriptions", n)
	}
	if n := w.one(`select count(*) from accounts where target_plan = 'pro' and target_version = 1`); n != subscribers {
		t.Errorf("%d accounts have the access that they pay for", n)
	}
	if n := w.one(`select count(*) from addresses where email <> ''`); n != subscribers {
		t.Errorf("%d customers can be written to", n)
	}
	if n := w.one(`select count(*) from invoices where status = 'open'`); n != 1 || before == 0 {
		t.Errorf("%d open invoices, %d facts before", n, before)
	}
	w.clean()

	// A second import reads the state at its own time, and must not suppress events from the time since the first
	// import.
	w.happened(forge.Params{Type: "customer.subscription.created", Account: "new", Live: true})
	again, err := importer.Run(t.Context(), w.config)
	if err != nil || again.Resumed || len(again.Effects) != 1 || again.Effects[0].Mode != "live" || !again.Effects[0].At.Equal(*result.Effects[0].At) || again.Read["subscriptions"] != subscribers+1 {
		t.Errorf("%+v, %v", again, err)
	}
	w.clean()
}

func TestRun_WhatCannotBeRead_LeftOutAndSaid(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.happened(
		forge.Params{Type: "customer.subscription.created", Account: strings.Repeat("a", 300), Live: true},
		forge.Params{Type: "customer.subscription.created", Account: "acme", Live: true},
	)
	result, err := importer.Run(t.Context(), w.config)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.one(`select count(*) from subscriptions`); n != 1 || len(result.LeftOut) == 0 {
		t.Errorf("%d subscriptions, left out %v", n, result.LeftOut)
	}
}

func TestRun_ConnectedAccounts_AreOurs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.config.Connected = []string{"acct_9"}
	w.config.Policy.Accounts = map[fact.Connected]string{{Mode: "live", ID: "acct_9"}: "acme"}
	w.happened(forge.Params{Type: "customer.subscription.created", Account: "says so itself", ConnectedAccount: "acct_9", Live: true})
	if _, err := importer.Run(t.Context(), w.config); err != nil {
		t.Fatal(err)
	}
	var account string
	if err := w.pool.QueryRow(t.Context(), `select account from subscriptions`).Scan(&account); err != nil || account != "acme" {
		t.Errorf("the subscription is of %q, %v", account, err)
	}
}

// If the key lacks a permission, the import reports this at once.
func TestRun_KeyRefused_NotTriedAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.fault(`{"service":"stripe","status":403,"next":1}`)
	if _, err := importer.Run(t.Context(), w.config); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("Run() = %v", err)
	}
}

func TestRun_CursorDeletedMeanwhile_ReadFromTheBeginning(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var params []forge.Params
	for i := range 120 {
		params = append(params, forge.Params{Type: "customer.created", Account: fmt.Sprint("acct-", i), Live: true})
	}
	w.happened(params...)
	w.config.OnPage = func(list string, read int) {
		if list == "customers" && read == 100 {
			w.fault(`{"service":"stripe","mode":"missing"}`) // makes the cursor of the list invalid
		}
	}
	if _, err := importer.Run(t.Context(), w.config); err != nil {
		t.Fatal(err)
	}
	if n := w.one(`select count(*) from facts where kind = 'linked'`); n != 120 {
		t.Errorf("%d customers are linked, want each once", n)
	}
}
