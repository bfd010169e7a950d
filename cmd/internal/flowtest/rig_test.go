package flowtest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/config/template"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(300) // saves a tenth of the time, because histories and rows create much garbage
	schematest.AtOnce(6)
	schematest.Main(m, stopTemporal)
}

// providers are the providers of this package's tests.
var providers = map[string]webhook.Provider{"stripe": stripe.Provider, "github": github.Provider}

const testSecret = "whsec_0123456789abcdef0123456789abcdef"

// devTemporal returns the Temporal server that all tests of this package share; stopTemporal stops it.
var devTemporal = sync.OnceValues(func() (server *dev.Temporal, err error) {
	if devTemporalDir, err = os.MkdirTemp("", "pawl-flow-"); err != nil {
		return nil, err
	}
	attributes := map[string]string{}
	for _, name := range process.SearchAttributes() {
		attributes[name] = "Keyword"
	}
	server, err = dev.StartTemporal(context.Background(), dev.TemporalOptions{
		Dir: devTemporalDir, SearchAttributes: attributes, Sync: dev.SyncNever, Progress: os.Stderr,
	})
	return server, err
})

var devTemporalDir string

func stopTemporal() error {
	if devTemporalDir == "" {
		return nil // no test has started it
	}
	defer func() { _ = os.RemoveAll(devTemporalDir) }()
	server, err := devTemporal()
	if err != nil {
		return nil // the server failed to start, and the test has reported the error
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return server.Stop(ctx)
}

// dialTemporal returns a client of the shared server, for tests that start their own workers.
func dialTemporal(t *testing.T) client.Client {
	t.Helper()
	temporal, err := devTemporal()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: temporal.Addr(), Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// rig is a complete pawl without the ingress: its own database, sandbox, dispatcher and worker, on the Temporal server
// that all rigs share.
type rig struct {
	*testing.T
	*process.Node
	sandbox *sandbox.Sandbox
	dir     string
	starter *dispatch.Dispatcher
	// account limits the journals to one account, unless it is "".
	account string
	// patience is the timeout of every wait; 0 means ten minutes.
	patience time.Duration
	// eyes are the test's own database connections. Connecting may take long on a busy machine.
	eyes *pgxpool.Pool
	// worker are connections with the database role of a worker.
	worker *pgxpool.Pool
	// run starts a function that ends with the rig.
	run func(func(context.Context))
}

// impatient is the retry policy of a rig's sinks. It ends with the third attempt; see thirdTryIsLast.
var impatient = config.Retries{InitialInterval: 10 * time.Millisecond, MaxInterval: 40 * time.Millisecond, MaxElapsed: 24 * time.Hour}

// thirdTryIsLast ends the retry time of an effect after its second failure, so that the third attempt is the last.
const thirdTryIsLast = `
create function pass_time() returns trigger language plpgsql as $$
begin
	new.tried_since := new.tried_since - interval '25 hours';
	return new;
end $$;
create trigger pass_time before update on effects for each row when (old.failures = 1 and new.failures = 2) execute function pass_time()`

// newRig connects the same components as `pawl dev`, with short timeouts and delays. Its source has no Stripe API key.
func newRig(t *testing.T, tune func(*config.Config)) *rig {
	t.Helper()
	return newRigWith(t, false, tune)
}

// newRigWith is newRig with a key of the simulated Stripe API, if key is set.
func newRigWith(t *testing.T, key bool, tune func(*config.Config)) *rig {
	t.Helper()
	r := newIdleRig(t, key, tune)
	r.work()
	return r
}

// work runs a worker.
func (r *rig) work() {
	r.run(func(ctx context.Context) {
		if err := r.RunWorker(ctx); err != nil {
			r.Errorf("worker: %v", err)
		}
	})
}

// newIdleRig is a rig without a worker: the dispatcher starts the received events, and their runs wait.
func newIdleRig(t *testing.T, key bool, tune func(*config.Config)) *rig {
	t.Helper()
	return newLoggedRig(t, key, slog.New(slog.DiscardHandler), tune)
}

// newLoggedRig is newIdleRig with a logger.
func newLoggedRig(t *testing.T, key bool, log *slog.Logger, tune func(*config.Config)) *rig {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &rig{T: t, dir: t.TempDir()}
	var err error
	if r.sandbox, err = sandbox.Start(ctx, sandbox.Config{Dir: filepath.Join(r.dir, "sandbox")}); err != nil {
		t.Fatal(err)
	}
	outside := template.DevParams{
		WorkspacesURL: r.sandbox.URL(), FinanceURL: r.sandbox.URL(), SMTP: r.sandbox.SMTPAddr(), EventsURL: r.sandbox.URL() + "/events",
		RelayedURL: r.sandbox.URL() + "/relayed", Relayed: "stripe",
	}
	if key {
		outside.StripeAPI = r.sandbox.URL() + "/stripe"
	}
	cfg := configure(t, outside, "default")
	relayed := cfg.Destinations["relayed"]
	relayed.Sources = nil // until a test adds a destination; see relay
	cfg.Destinations["relayed"] = relayed
	cfg.Temporal.TaskQueue = "pawl-" + uuid.NewString()
	// otherwise a schedule could run during a test
	cfg.Policy.Reconcile, cfg.Policy.Backfill, cfg.Policy.Endpoint = 0, "off", "off"
	sinks := cfg.Sinks
	sinks["workspaces"].Retries, sinks["finance"].Retries, sinks["email"].Retries = impatient, impatient, impatient
	sinks["workspaces"].Timeout, sinks["finance"].Timeout, sinks["email"].Timeout = unloaded, unloaded, unloaded
	if tune != nil {
		tune(cfg)
	}
	r.Node, err = process.New(ctx, cfg, providers, log)
	if err != nil {
		t.Fatal(err)
	}
	// connect as the owner of the tables
	eyes, err := pgxpool.ParseConfig(schematest.Server(t).DSN(r.Pool.Config().ConnConfig.Database))
	if err != nil {
		t.Fatal(err)
	}
	eyes.MaxConns, eyes.MinConns, eyes.MinIdleConns, eyes.ConnConfig.ConnectTimeout = 4, 0, 0, time.Minute
	if r.eyes, err = pgxpool.NewWithConfig(ctx, eyes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.eyes.Close)
	r.worker = schematest.As(t, r.eyes, schematest.Worker)
	r.Breaking = effect.Breaking{
		Failures: 5, FirstProbe: 100 * time.Millisecond, MaxProbe: 200 * time.Millisecond,
		Polls: 100, LeastWait: 100 * time.Millisecond, MostWait: time.Second, Back: 1000,
	}
	if _, err := r.eyes.Exec(ctx, thirdTryIsLast); err != nil {
		t.Fatal(err)
	}
	r.starter, err = dispatch.New(dispatch.Config{Temporal: r.Temporal, Receipts: r.Receipts, Runs: r.Runs, TaskQueue: cfg.Temporal.TaskQueue, Eager: true})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	r.run = func(f func(context.Context)) { running.Go(func() { f(ctx) }) }
	r.run(func(ctx context.Context) {
		if err := r.UntilDone(ctx, "register search attributes", r.EnsureSearchAttributes); err == nil {
			r.starter.Run(ctx)
		}
	})
	t.Cleanup(func() {
		stop()
		_ = r.sandbox.Close() // ends the requests that a fault blocks
		running.Wait()
		r.Close()
	})
	return r
}

// of returns a copy of the rig for a subtest.
func (r *rig) of(t *testing.T) *rig {
	own := *r
	own.T = t
	return &own
}

// configure returns the configuration of `pawl dev` for a new database and this namespace of the shared Temporal.
func configure(t *testing.T, outside template.DevParams, namespace string) *config.Config {
	t.Helper()
	temporal, err := devTemporal()
	if err != nil {
		t.Fatal(err)
	}
	// nothing listens
	outside.Ingress, outside.Console, outside.Ops, outside.WorkerOps = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:0"
	dir := t.TempDir()
	for name, content := range map[string]string{
		"database.url":   schematest.DSNAs(t, schematest.NewDSN(t), schematest.Worker),
		"temporal.toml":  fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = %q\n", temporal.Addr(), namespace),
		"secrets/stripe": testSecret, "secrets/stripe-api": "rk_dev",
		"secrets/destination": "whsec_" + base64.StdEncoding.EncodeToString([]byte("for a destination of the sandbox's")),
		"pawl.yaml":           string(template.Dev(outside)),
	} {
		write(t, filepath.Join(dir, name), content)
	}
	cfg, err := config.Load(filepath.Join(dir, "pawl.yaml"), func(string) (string, bool) { return "", false }, providers)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	// unloaded is the timeout of a rig's sinks, longer than a delay on a busy machine.
	unloaded = 10 * time.Second
	// patience is the timeout in tests with a hanging sink.
	patience = 2 * time.Second
)

// hanging is the configuration for tests with hanging sinks.
func hanging(c *config.Config) {
	c.Sinks["workspaces"].Timeout, c.Sinks["finance"].Timeout, c.Sinks["email"].Timeout = patience, patience, patience
	events := c.Destinations["events"]
	events.Timeout = patience
	c.Destinations["events"] = events
}

// relay adds a source to the sources of destinations.
func relay(c *config.Config, source string, names ...string) {
	for _, name := range names {
		d := c.Destinations[name]
		d.Sources = append(d.Sources, source)
		c.Destinations[name] = d
	}
}

// canary is in every field of the payload with personal data. It must not occur in Temporal.
const canary = "canary"

// bought is the time of the purchases.
var bought = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// purchase returns an event about the purchase of a seed.
func purchase(t *testing.T, seed, eventType, plan string) forge.Event {
	t.Helper()
	return purchaseAt(t, seed, eventType, plan, bought)
}

func purchaseAt(t *testing.T, seed, eventType, plan string, at time.Time) forge.Event {
	t.Helper()
	return purchaseOf(t, seed, eventType, plan, at, 1)
}

// purchaseOf returns an event about a purchase with this number of invoice lines.
func purchaseOf(t *testing.T, seed, eventType, plan string, at time.Time, lines int) forge.Event {
	t.Helper()
	e, err := forge.New(forge.Params{
		Provider: stripe.Provider, EventID: "evt_" + seed, Type: eventType, Seed: seed, Account: "acct-" + seed, Plan: plan, Live: true,
		Email: canary + "@personal.example", At: at, Lines: lines,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		t.Fatal(err)
	}
	invoice := body["data"].(map[string]any)["object"].(map[string]any)
	for _, field := range []string{"customer_name", "customer_phone", "description", "footer"} {
		invoice[field] = canary + " " + field
	}
	invoice["customer_address"] = map[string]any{"line1": canary + " street 1", "city": canary}
	if e.Body, err = json.Marshal(body); err != nil {
		t.Fatal(err)
	}
	return e
}

// tell sends events to the simulated Stripe API, in this order.
func (r *rig) tell(events ...forge.Event) {
	r.Helper()
	if err := forge.Tell(r.Context(), r.sandbox.URL()+"/stripe", events); err != nil {
		r.Fatal(err)
	}
}

// receive stores the event like the ingress, and dispatches it.
func (r *rig) receive(e forge.Event) (workflowID string) {
	r.Helper()
	var envelope struct {
		Account string
		Created any
		Data    struct{ Object struct{ ID string } }
	}
	if err := json.Unmarshal(e.Body, &envelope); err != nil {
		r.Fatal(err)
	}
	object := envelope.Data.Object.ID
	var occurred time.Time
	switch created := envelope.Created.(type) {
	case float64:
		occurred = time.Unix(int64(created), 0).UTC()
	case string:
		occurred, _ = time.Parse(time.RFC3339, created)
	}
	return workflows.EventInput{Ref: r.keep(receipt.New{
		OccurredAt: occurred,
		Account:    envelope.Account, Mode: "live", EventID: e.ID, Identity: receipt.ByID, Type: e.Type, Object: object, Status: receipt.Received, Body: e.Body,
	})}.ID()
}

// keep commits the receipt of a Stripe event, retrying like a provider, and dispatches it.
func (r *rig) keep(e receipt.New) event.Ref {
	r.Helper()
	now := time.Now()
	kept := r.insert(receipt.Delivery{
		Source: "stripe", Provider: "stripe", ReceivedAt: now, Header: http.Header{}, Events: []receipt.New{e},
	})
	ref := event.Ref{
		ReceiptID: kept[0].ReceiptID, Provider: "stripe", Account: e.Account, Mode: e.Mode, EventID: e.EventID, Type: e.Type, ObjectID: e.Object,
	}
	r.starter.Offer([]receipt.Pending{{Ref: ref, Source: "stripe", ReceivedAt: now}})
	return ref
}

// insert stores a delivery. It repeats the commit if it takes too long, which happens on a busy machine.
func (r *rig) insert(d receipt.Delivery) (outcomes []receipt.Outcome) {
	r.Helper()
	r.until("the delivery is committed", func() (done bool) {
		var err error
		outcomes, err = r.Receipts.Insert(r.Context(), d)
		return err == nil
	})
	return outcomes
}

// until calls ready until it returns true, with increasing delays.
func (r *rig) until(what string, ready func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(r.patience, 10*time.Minute))
	defer cancel()
	for begun := time.Now(); !ready(); {
		select {
		case <-time.After(min(max(10*time.Millisecond, time.Since(begun)/20), 100*time.Millisecond)):
		case <-ctx.Done():
			r.Fatalf("waited in vain until %s\nreceipts: %v\neffects: %v", what,
				r.rows(`select status || ' ' || reason || ' ' || last_error from receipts`),
				r.rows(`select concat_ws(' ', key, state, error_class, error, attempts) from effects order by key`))
		}
	}
}

// status waits until the event's receipt has one of the statuses, and returns it.
func (r *rig) status(e forge.Event, wanted ...receipt.Status) (got receipt.Status) {
	r.Helper()
	r.until(fmt.Sprintf("the receipt is %v", wanted), func() bool {
		found := r.rows(`select status from receipts where event_id = $1`, e.ID)
		for _, w := range wanted {
			if len(found) == 1 && found[0] == string(w) {
				got = w
				return true
			}
		}
		return false
	})
	return got
}

// result waits for the end of a run; "" means the latest one.
func (r *rig) result(workflowID, runID string) workflows.EventResult {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	var result workflows.EventResult
	// The dispatcher starts the run; before that there is no run to wait for.
	r.until("the run is there", func() bool {
		_, err := r.Temporal.DescribeWorkflow(ctx, workflowID, runID)
		return err == nil
	})
	if err := r.Temporal.GetWorkflow(ctx, workflowID, runID).Get(ctx, &result); err != nil {
		r.Fatalf("run of %s: %v\n%v", workflowID, err, r.rows(`select concat_ws(' ', key, state, error_class, error, attempts) from effects order by key`))
	}
	return result
}

// decide sends an operator's decision to a parked run.
func (r *rig) decide(workflowID, action string, in workflows.DecisionInput) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	// The receipt shows that a run parks a moment before the run can accept a decision.
	r.until("the decision is taken", func() bool {
		err := decideAbout(ctx, r.operator(), workflowID, action, in)
		if err != nil && !strings.Contains(err.Error(), "processes another decision") && !strings.Contains(err.Error(), "its run is in progress") {
			r.Fatalf("%s: %v", action, err)
		}
		return err == nil
	})
}

// decideAbout makes a decision about a run as ada, and returns the answer.
func decideAbout(ctx context.Context, o *decide.Operator, workflowID, action string, in workflows.DecisionInput) error {
	_, err := o.Decide(ctx, decide.Decision{
		Verb: action, Target: workflowID, Actor: "ada", Reason: "looked at it",
		Args: decide.Args{Effect: in.Effect, Reference: in.Reference, Confirm: in.Confirm},
	})
	return err
}

// sendUpdate sends a decision to a run like any Temporal client.
func sendUpdate(ctx context.Context, c client.Client, workflowID, action, request string, in workflows.DecisionInput) error {
	handle, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateID: request, UpdateName: action, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, nil)
}

// history reads a run's whole history.
func (r *rig) history(workflowID, runID string) *historypb.History {
	r.Helper()
	events := r.Temporal.GetWorkflowHistory(r.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	history := &historypb.History{}
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			r.Fatal(err)
		}
		history.Events = append(history.Events, e)
	}
	return history
}

// rows returns the rows of a query with one text column.
func (r *rig) rows(sql string, args ...any) []string {
	r.Helper()
	rows, err := cmp.Or(r.eyes, r.Pool).Query(r.Context(), sql, args...)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close()
	list := []string{}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			r.Fatal(err)
		}
		list = append(list, line)
	}
	if err := rows.Err(); err != nil {
		r.Fatal(err)
	}
	return list
}

func (r *rig) exec(sql string, args ...any) {
	r.Helper()
	if _, err := cmp.Or(r.eyes, r.Pool).Exec(r.Context(), sql, args...); err != nil {
		r.Fatal(err)
	}
}

// effects returns the state of each kind of effect that any event, or this event, has claimed.
func (r *rig) effects(of ...forge.Event) map[string]string {
	r.Helper()
	// except the request for the payment
	sql, args := `select kind || ' ' || state from effects where key not like '%:payment'`, []any{}
	for _, e := range of {
		sql, args = sql+` and event_id = $1`, []any{e.ID}
	}
	states := map[string]string{}
	for _, line := range r.rows(sql, args...) {
		kind, state, _ := strings.Cut(line, " ")
		states[kind] = state
	}
	return states
}

// fault injects faults into the sandbox, in the format of its documentation.
func (r *rig) fault(faults ...string) {
	r.Helper()
	for _, f := range faults {
		resp, err := http.Post(r.sandbox.URL()+"/_faults", "application/json", strings.NewReader(f))
		if err != nil {
			r.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode > 299 {
			r.Fatalf("fault %s: %s", f, resp.Status)
		}
	}
}

// clearFaults removes all faults from the sandbox.
func (r *rig) clearFaults() {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), http.MethodDelete, r.sandbox.URL()+"/_faults", nil)
	if err != nil {
		r.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	resp.Body.Close()
}

// entry is a line of the sandbox's journal.
type entry struct {
	At           time.Time `json:"received_at"`
	Key, Account string
	First        bool
	Body         map[string]any
}

// journal returns the requests that a service of the sandbox accepted.
func (r *rig) journal(service string) []entry {
	r.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, "sandbox", service+".jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	var entries []entry
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.Fatal(err)
		}
		if r.account == "" || e.Account == r.account {
			entries = append(entries, e)
		}
	}
	return entries
}

// done counts the requests that a service applied. It omits requests with a repeated key, and published events about
// tasks.
func (r *rig) done(service string) (n int) {
	r.Helper()
	for _, e := range r.journal(service) {
		if (e.First || service == "email") && e.Body["task"] == nil {
			n++
		}
	}
	return n
}

// footprint is everything that effects have stored anywhere, except the list of later claims.
func (r *rig) footprint() map[string][]string {
	r.Helper()
	// Wait until the published events of the flow are sent.
	r.until("the outbox is empty", func() bool { return len(r.rows(`select type from outbox where published_at is null`)) == 0 })
	prints := map[string][]string{}
	for name, sql := range map[string]string{
		"effects":       `select concat_ws(' ', key, state, generation, attempts, result) from effects order by key`,
		"facts":         `select concat_ws(' ', object, kind, event_id) from facts order by object, event_id, kind`,
		"subscriptions": `select concat_ws(' ', id, account, status, plan, quantity) from subscriptions order by id`,
		"accounts":      `select concat_ws(' ', id, target_version, target_state, target_plan) from accounts order by id`,
		"due":           `select concat_ws(' ', why, object, step, account) from due order by why, object, step`,
		"invoices":      `select concat_ws(' ', id, status, amount) from invoices order by id`,
		"entitlements":  `select concat_ws(' ', feature, enabled) from entitlements order by feature`,
		"workspaces":    `select concat_ws(' ', account, version, plan, state) from workspaces order by account`,
		"tasks":         `select concat_ws(' ', kind, object, state) from tasks order by kind, object`,
		"finance":       `select concat_ws(' ', effect_key, kind, amount) from finance_entries order by effect_key`,
		"outbox":        `select concat_ws(' ', type, account) from outbox order by id`,
		"audit":         `select concat_ws(' ', action, actor) from operator_actions order by id`,
	} {
		prints[name] = r.rows(sql)
	}
	for _, service := range []string{"workspaces", "finance", "email", "events"} {
		for _, e := range r.journal(service) {
			prints["sandbox "+service] = append(prints["sandbox "+service], fmt.Sprint(e))
		}
	}
	return prints
}
