package activities_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	"go.temporal.io/sdk/testsuite"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/selection"
	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/groupcommit"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// destination is a receiver of Standard Webhooks: it verifies requests, stores their webhook-ids, and answers as the
// test configures.
type destination struct {
	verifier webhook.Verifier
	answers  []int // answers to the next requests; afterwards 200

	mu    sync.Mutex
	seen  []*webhook.Request
	first map[string]int // by webhook-id
	bad   []error
}

const destinationKey, nextKey = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func newDestination(t *testing.T, answers ...int) (*destination, string) {
	t.Helper()
	return destinationWith(t, destinationKey, answers...)
}

func destinationWith(t *testing.T, key string, answers ...int) (*destination, string) {
	t.Helper()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))
	v, err := standardwebhooks.Provider.New(webhook.Settings{Source: "pawl", Secrets: []webhook.Secret{{Label: "main", Value: secret}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &destination{verifier: v, answers: answers, first: map[string]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

func (c *destination) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	in := &webhook.Request{Method: r.Method, Header: r.Header, Body: body, ReceivedAt: time.Now()}
	if _, refused := c.verifier.Verify(in); refused != nil {
		err = refused
	}
	if err != nil {
		c.bad = append(c.bad, err)
	}
	c.seen = append(c.seen, in)
	status := http.StatusOK
	if len(c.answers) > 0 {
		status, c.answers = c.answers[0], c.answers[1:]
	}
	if status < 300 {
		c.first[r.Header.Get("webhook-id")]++
	}
	w.WriteHeader(status)
}

type relayBench struct {
	env      *testsuite.TestActivityEnvironment
	relay    *activities.Destinations
	pool     *pgxpool.Pool
	receipts *receipt.Store
}

// passes moves the times in the ledger into the past.
func (b *relayBench) passes(t *testing.T, d time.Duration) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), `update effects set tried_since = tried_since - $1::interval`, d); err != nil {
		t.Fatal(err)
	}
}

func relaySetup(t *testing.T, url string) *relayBench {
	t.Helper()
	pool := schematest.New(t)
	book := ledger.New(pool, groupcommit.Config{})
	t.Cleanup(book.Close)
	receipts := receipt.NewStore(pool, receipt.Options{Timeout: 20 * time.Second})
	t.Cleanup(receipts.Close)
	effects, err := effect.NewRunner(effect.Config{Log: slog.New(slog.DiscardHandler),
		Ledger: book, Meter: noop.Meter{},
		Retrying: func(context.Context, effect.Call, string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &relayBench{pool: pool, receipts: receipts, relay: &activities.Destinations{
		Effects: effects, Receipts: receipts, Client: httpcall.NewClient(), Now: time.Now,
		ByName: map[string]activities.Destination{"crm": {
			URL: url, Keys: [][]byte{[]byte(destinationKey), []byte(nextKey)}, Policy: effect.Policy{Timeout: 5 * time.Second, Retries: retries},
			Settings: activities.SinkSettings{Timeout: 5 * time.Second},
		}},
		BySource: map[string][]string{"github": {"crm"}},
	}}
	var suite testsuite.WorkflowTestSuite
	b.env = suite.NewTestActivityEnvironment()
	b.env.RegisterActivity(b.relay)
	return b
}

// received commits an event of GitHub and returns the ID of its receipt.
func (b *relayBench) received(t *testing.T, source string, e receipt.New) string {
	t.Helper()
	e.Mode, e.Identity, e.Status = "live", receipt.ByID, receipt.Received
	outcomes, err := b.receipts.Insert(t.Context(), receipt.Delivery{Source: source, Provider: "github", ReceivedAt: time.Now(),
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Pawl-Scheme": {"signed-checksum"}}, Events: []receipt.New{e}})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0].ReceiptID
}

func (b *relayBench) deliver(t *testing.T, in activities.EffectInput[activities.Delivery]) (effect.Result, error) {
	t.Helper()
	var result effect.Result
	value, err := b.env.ExecuteActivity(b.relay.RelayEvent, in)
	if err == nil {
		err = value.Get(&result)
	}
	return result, err
}

func (b *relayBench) ref(t *testing.T, receiptID string) event.Ref {
	t.Helper()
	held, err := b.receipts.Get(t.Context(), receiptID)
	if err != nil {
		t.Fatal(err)
	}
	return held.Ref()
}

func (b *relayBench) call(t *testing.T, receiptID, eventID string) activities.EffectInput[activities.Delivery] {
	return activities.EffectInput[activities.Delivery]{For: activities.Delivery{Destination: "crm"}, Effect: effect.Call{
		Ref:  b.ref(t, receiptID),
		Key:  "relay:github:live:" + eventID + ":crm",
		Kind: "relay",
	}}
}

// The provider's bytes arrive unchanged, with a signature that the destination can verify. A failed attempt and its
// retry have the same webhook-id.
func TestRelayEvent_RetriedUnderOneID(t *testing.T) {
	t.Parallel()
	c, url := newDestination(t, http.StatusServiceUnavailable)
	b := relaySetup(t, url)
	body := "payload=%7B%7D\r\n"
	id := b.received(t, "github", receipt.New{EventID: "d-1", Type: "issues.opened\u00e9", Body: []byte(body)})
	if _, err := b.deliver(t, b.call(t, id, "d-1")); err == nil {
		t.Error("503: no error, want a retryable one")
	}
	result, err := b.deliver(t, b.call(t, id, "d-1"))
	if err != nil || result.State != effect.Done {
		t.Fatalf("second try: %+v, %v", result, err)
	}
	if result, err = b.deliver(t, b.call(t, id, "d-1")); err != nil || result.State != effect.AlreadyDone {
		t.Errorf("third call: %+v, %v; want that it is done already", result, err)
	}
	if len(c.bad) > 0 {
		t.Errorf("the destination refuses the signature: %v", c.bad)
	}
	if len(c.seen) != 2 || len(c.first) != 1 {
		t.Fatalf("%d requests under %d IDs, want 2 and 1", len(c.seen), len(c.first))
	}
	for _, r := range c.seen {
		if string(r.Body) != body || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("got %q as %s", r.Body, r.Header.Get("Content-Type"))
		}
		if r.Header.Get("Webhook-Id") != c.seen[0].Header.Get("Webhook-Id") {
			t.Error("the ID changed from try to try")
		}
	}
	if h := c.seen[0].Header; h.Get("Pawl-Event-Id") != "d-1" || h.Get("Pawl-Provider") != "github" || h.Get("Pawl-Event-Type") != "issues.opened%C3%A9" || h.Get("Idempotency-Key") != "relay:github:live:d-1:crm" || h.Get("Pawl-Scheme") != "signed-checksum" {
		t.Errorf("headers %v", h)
	}
}

// pawl signs with each secret of a destination, so that the destination can rotate them while deliveries continue.
func TestRelayEvent_TwoSecrets_EachVerifies(t *testing.T) {
	t.Parallel()
	for _, key := range []string{destinationKey, nextKey} {
		c, url := destinationWith(t, key)
		b := relaySetup(t, url)
		id := b.received(t, "github", receipt.New{EventID: "d-1", Type: "push", Body: []byte("{}")})
		if result, err := b.deliver(t, b.call(t, id, "d-1")); err != nil || result.State != effect.Done || len(c.bad) > 0 {
			t.Errorf("%+v, %v; the destination reports %v", result, err, c.bad)
		}
	}
}

// A retry by an operator has the same webhook-id, so a destination that has already accepted the message drops it.
func TestRelayEvent_OperatorsRetry_SameID(t *testing.T) {
	t.Parallel()
	c, url := newDestination(t, http.StatusNotFound)
	b := relaySetup(t, url)
	in := b.call(t, b.received(t, "github", receipt.New{EventID: "d-1", Type: "push", Body: []byte("{}")}), "d-1")
	failed, err := b.deliver(t, in)
	if err != nil || failed.State != effect.Failed {
		t.Fatalf("404: %+v, %v; want it failed", failed, err)
	}
	in.Effect.Round = failed.Round + 1
	if result, err := b.deliver(t, in); err != nil || result.State != effect.Done {
		t.Fatalf("%+v, %v; want it done", result, err)
	}
	if len(c.seen) != 2 || c.seen[0].Header.Get("webhook-id") != c.seen[1].Header.Get("webhook-id") {
		t.Errorf("%d requests, the last under another ID", len(c.seen))
	}
}

func TestRelayEvent_NotTaken_UsedUp_Unknown(t *testing.T) {
	t.Parallel()
	c, url := newDestination(t, http.StatusGone, 500, 500)
	b := relaySetup(t, url)
	gone := b.received(t, "github", receipt.New{EventID: "d-1", Type: "push", Body: []byte("{}")})
	down := b.received(t, "github", receipt.New{EventID: "d-2", Type: "push", Body: []byte("{} ")})
	if result, err := b.deliver(t, b.call(t, gone, "d-1")); err != nil || result.State != effect.Failed || !strings.Contains(result.Reason, "410") {
		t.Errorf("410: %+v, %v; want it failed", result, err)
	}
	if _, err := b.deliver(t, b.call(t, down, "d-2")); err == nil {
		t.Error("500: no error")
	}
	b.passes(t, 25*time.Hour)
	if result, err := b.deliver(t, b.call(t, down, "d-2")); err != nil || result.State != effect.Failed {
		t.Errorf("last 500: %+v, %v; want it failed", result, err)
	}
	unknown := b.call(t, down, "d-2")
	unknown.For.Destination, unknown.Effect.Key = "former", "relay:github:live:d-2:former"
	if result, err := b.deliver(t, unknown); err != nil || result.State != effect.Failed || !strings.Contains(result.Reason, "not configured") {
		t.Errorf("unknown destination: %+v, %v; want it failed", result, err)
	}
	if len(c.seen) != 3 {
		t.Errorf("%d requests, want 3", len(c.seen))
	}
}

// If a reused connection breaks without a response, that is one failed attempt: the ledger counts the sent requests,
// and each attempt has its own timeout.
func TestRelayEvent_ConnectionBreaks_OneTry(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 2 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
		}
	}))
	t.Cleanup(server.Close)
	b := relaySetup(t, server.URL)
	first := b.received(t, "github", receipt.New{EventID: "d-1", Type: "push", Body: []byte("{}")})
	second := b.received(t, "github", receipt.New{EventID: "d-2", Type: "push", Body: []byte("{} ")})
	if _, err := b.deliver(t, b.call(t, first, "d-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.deliver(t, b.call(t, second, "d-2")); err == nil {
		t.Error("no error for the try that was not answered")
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("the destination was called %d times, want 2", n)
	}
}

// pawl does not follow a redirect, which would send the body to an address that is not configured.
func TestRelayEvent_Redirect_NotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere, target := newDestination(t)
	server := httptest.NewServer(http.RedirectHandler(target, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	b := relaySetup(t, server.URL)
	id := b.received(t, "github", receipt.New{EventID: "d-1", Type: "push", Body: []byte("{}")})
	if result, err := b.deliver(t, b.call(t, id, "d-1")); err != nil || result.State != effect.Failed {
		t.Errorf("%+v, %v; want it failed", result, err)
	}
	if len(elsewhere.seen) != 0 {
		t.Error("the redirect was followed")
	}
}

// An unexpected response with status 101 is a failed attempt. The body of such a response is the connection itself,
// and the timeout does not apply to it: an attempt that read the body never ended, until the worker had no slots
// left.
func TestRelayEvent_ProtocolsSwitched_Failed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	t.Cleanup(server.Close)
	b := relaySetup(t, server.URL)
	id := b.received(t, "github", receipt.New{EventID: "d-1", Type: "push", Body: []byte("{}")})
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		if result, err := b.deliver(t, b.call(t, id, "d-1")); err != nil || result.State != effect.Failed {
			t.Errorf("%+v, %v; want it failed", result, err)
		}
	}()
	select {
	case <-settled:
	case <-time.After(20 * time.Second):
		t.Fatal("the attempt continues after its 5 s")
	}
}

func TestLoadRelay(t *testing.T) {
	t.Parallel()
	b := relaySetup(t, "http://unused.test")
	load := func(source, eventID string) (result activities.LoadRelayResult) {
		t.Helper()
		id := b.received(t, source, receipt.New{EventID: eventID, Type: "push", Body: []byte(eventID)})
		value, err := b.env.ExecuteActivity(b.relay.LoadRelay, activities.LoadRelayInput{Ref: b.ref(t, id)})
		if err == nil {
			err = value.Get(&result)
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if got := load("github", "d-1"); len(got.Destinations) != 1 || got.Destinations[0] != "crm" || got.Code != "" || got.Sinks["destinations:crm"].Timeout != 5*time.Second {
		t.Errorf("got %+v, want crm and its settings", got)
	}
	if got := load("other", "d-2"); len(got.Destinations) != 0 || got.Code != activities.CodeNoDestination {
		t.Errorf("got %+v, want a reason to park", got)
	}
}

// condition compiles the condition of a destination.
func condition(t *testing.T, destination, source string) *flow.Condition {
	t.Helper()
	c, faults := flow.CompileCondition("destinations."+destination+".when", source)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return c
}

// A destination gets the events that its types and its condition select. An event that no destination selects ends with a
// reason, and does not park. A condition that cannot be evaluated keeps its destination.
func TestLoadRelay_Selection(t *testing.T) {
	t.Parallel()
	b := relaySetup(t, "http://unused.test")
	b.relay.BySource = map[string][]string{"github": {"all", "big", "issues", "ours"}}
	rules := map[string]selection.Rule{
		"all": {}, "issues": {Types: []string{"issues.*", "push"}},
		"big":  {When: condition(t, "big", "event.size > 10")},
		"ours": {Types: []string{"push"}, When: condition(t, "ours", `meta.account == "acme" && meta.source == "github" && meta.object == "o-1"`)},
	}
	for name, rule := range rules {
		b.relay.ByName[name] = activities.Destination{Name: name, Selection: rule}
	}
	events := 0
	load := func(e receipt.New) (result activities.LoadRelayResult) {
		t.Helper()
		events++
		e.EventID = fmt.Sprintf("d-%d", events)
		value, err := b.env.ExecuteActivity(b.relay.LoadRelay, activities.LoadRelayInput{Ref: b.ref(t, b.received(t, "github", e))})
		if err == nil {
			err = value.Get(&result)
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	for name, tt := range map[string]struct {
		event         receipt.New
		to, undecided string
	}{
		"type and condition": {receipt.New{Type: "push", Body: []byte(`{"size": 11}`)}, "[all big issues]", "[]"},
		"false condition":    {receipt.New{Type: "issues.opened", Body: []byte(`{"size": 10}`)}, "[all issues]", "[]"},
		"other type":         {receipt.New{Type: "star", Body: []byte(`{"size": 10, "n": 1}`)}, "[all]", "[]"},
		"missing field":      {receipt.New{Type: "star", Body: []byte(`{"sise": 11}`)}, "[all big]", "[big]"},
		"other value":        {receipt.New{Type: "star", Body: []byte(`{"size": "large"}`)}, "[all big]", "[big]"},
		"not JSON, own":      {receipt.New{Type: "push", Account: "acme", Object: "o-1", Body: []byte(`payload=1`)}, "[all big issues ours]", "[big]"},
		"another object":     {receipt.New{Type: "push", Account: "acme", Object: "o-2", Body: []byte(`payload=2`)}, "[all big issues]", "[big]"},
	} {
		got := load(tt.event)
		if fmt.Sprint(got.Destinations) != tt.to || fmt.Sprint(got.Undecided) != tt.undecided || got.Code != "" || got.Left != (activities.Left{}) || len(got.Sinks) != len(got.Destinations) {
			t.Errorf("%s: %+v, want %s, undecided %s", name, got, tt.to, tt.undecided)
		}
	}
	delete(b.relay.ByName, "all")
	b.relay.BySource["github"] = []string{"ours", "issues"}
	if got := load(receipt.New{Type: "star", Body: []byte("{}")}); len(got.Destinations) > 0 || got.Code != "" ||
		got.Left != (activities.Left{Code: activities.CodeNotSelected, Reason: "no destination of source github selects the type star"}) {
		t.Errorf("no type: %+v, want a reason, and no park", got)
	}
	b.relay.BySource["github"] = []string{"ours"}
	if got := load(receipt.New{Type: "push", Account: "other", Body: []byte("{} ")}); len(got.Destinations) > 0 || got.Code != "" ||
		got.Left.Code != activities.CodeNotSelected || !strings.Contains(got.Left.Reason, "the conditions of the destinations for the type push are false") {
		t.Errorf("no condition: %+v, want a reason, and no park", got)
	}

	// pawl cannot deliver a deleted payload, so a condition on it selects nothing.
	b.relay.BySource["github"] = []string{"big"}
	id := b.received(t, "github", receipt.New{Type: "push", EventID: "d-gone", Body: []byte(`{"size": 11}`)})
	if _, err := b.pool.Exec(t.Context(), `delete from receipt_bodies where receipt_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	var gone activities.LoadRelayResult
	value, err := b.env.ExecuteActivity(b.relay.LoadRelay, activities.LoadRelayInput{Ref: b.ref(t, id)})
	if err == nil {
		err = value.Get(&gone)
	}
	if err != nil || len(gone.Destinations) > 0 || gone.Left.Code != activities.CodeNotSelected || !strings.Contains(gone.Left.Reason, "payload was deleted") {
		t.Errorf("a deleted payload: %+v, %v; want a reason, and no delivery", gone, err)
	}
}

// If the condition of a destination cannot be evaluated, the delivery is a fault with the path and the fix. A retry
// evaluates the condition again: it delivers the event if the corrected condition is true, and skips it with the reason if
// it is false. A delivery that was decided when the run loaded the event is not evaluated again.
func TestRelayEvent_Undecided_EvaluatedAgain(t *testing.T) {
	t.Parallel()
	c, url := newDestination(t)
	b := relaySetup(t, url)
	when := func(rule selection.Rule) {
		d := b.relay.ByName["crm"]
		d.Selection = rule
		b.relay.ByName["crm"] = d
	}
	outlook, err := (&activities.Outlooks{DB: b.pool, Destinations: b.relay}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer outlook.Close()
	for i, tt := range []struct {
		body   string
		rule   selection.Rule
		state  effect.State
		reason string
	}{
		{`{"size": 11}`, selection.Rule{When: condition(t, "crm", "event.size > 10")}, effect.Done, ""},
		{`{"size": 1}`, selection.Rule{When: condition(t, "crm", "event.size > 10")}, effect.Skipped, "destination crm does not select the event"},
		{`{"size": 12}`, selection.Rule{Types: []string{"issues.*"}}, effect.Skipped, "destination crm does not select the event"},
		{`{"size": 13}`, selection.Rule{}, effect.Done, ""},
		{`{"size": "a secret"}`, selection.Rule{When: condition(t, "crm", "event.size > 10")}, effect.Failed, "destinations.crm.when: "},
		{"payload=1", selection.Rule{When: condition(t, "crm", "event.size > 10")}, effect.Failed, "destinations.crm.when: the payload cannot be read"},
	} {
		id := fmt.Sprintf("d-%d", i)
		in := b.call(t, b.received(t, "github", receipt.New{EventID: id, Type: "push", Body: []byte(tt.body)}), id)
		in.For.Undecided = true
		when(selection.Rule{When: condition(t, "crm", "event.repository.size > 10")})
		failed, err := b.deliver(t, in)
		if err != nil || failed.State != effect.Failed || !strings.Contains(failed.Reason, "correct the condition of destination crm and retry, or skip the delivery") || strings.Contains(failed.Reason, "secret") {
			t.Fatalf("%s: %+v, %v; want a fault with the path", tt.body, failed, err)
		}
		if want := "destinations.crm.when: event.repository is missing"; tt.body[0] == '{' && !strings.Contains(failed.Reason, want) {
			t.Errorf("%s: %s, want %s", tt.body, failed.Reason, want)
		}
		before := len(c.seen)
		when(tt.rule)
		in.Effect.Round = failed.Round + 1
		foreseen, err := outlook.ForecastRelay(t.Context(), in)
		if err != nil || foreseen.State != tt.state || !strings.Contains(foreseen.Reason, tt.reason) {
			t.Errorf("%s: preview %+v, %v; want %s", tt.body, foreseen, err, tt.state)
		}
		result, err := b.deliver(t, in)
		if sent := len(c.seen) - before; err != nil || result.State != tt.state || !strings.Contains(result.Reason, tt.reason) || sent != map[effect.State]int{effect.Done: 1}[tt.state] {
			t.Errorf("%s: %+v, %v, %d requests; want %s: %s", tt.body, result, err, sent, tt.state, tt.reason)
		}
		var state, recorded string
		if err := b.pool.QueryRow(t.Context(), `select state, coalesce(error, '') from effects where key = $1`, in.Effect.Key).Scan(&state, &recorded); err != nil || state != string(tt.state) || !strings.Contains(recorded, tt.reason) {
			t.Errorf("%s: the ledger has %s %q, %v; want %s", tt.body, state, recorded, err, tt.state)
		}
	}
	when(selection.Rule{Types: []string{"issues.*"}, When: condition(t, "crm", "false")})
	in := b.call(t, b.received(t, "github", receipt.New{EventID: "decided", Type: "push", Body: []byte("{}")}), "decided")
	if result, err := b.deliver(t, in); err != nil || result.State != effect.Done {
		t.Errorf("a decided delivery: %+v, %v; want it done", result, err)
	}
}

// The headers contain the object and the time of the event if the provider sends them.
func TestRelayEvent_ObjectAndTime_InHeaders(t *testing.T) {
	t.Parallel()
	c, url := newDestination(t)
	b := relaySetup(t, url)
	at := time.Date(2026, 3, 1, 13, 0, 0, 250e6, time.FixedZone("CET", 3600))
	for i, tt := range []struct {
		event        receipt.New
		object, when string
	}{
		{receipt.New{Object: "ord-ü", OccurredAt: at, Body: []byte("1")}, "ord-%C3%BC", "2026-03-01T12:00:00.25Z"},
		{receipt.New{Body: []byte("2")}, "", ""},
	} {
		tt.event.EventID, tt.event.Type = fmt.Sprintf("d-%d", i), "push"
		if result, err := b.deliver(t, b.call(t, b.received(t, "github", tt.event), tt.event.EventID)); err != nil || result.State != effect.Done {
			t.Fatalf("%+v, %v", result, err)
		}
		h := c.seen[i].Header
		_, object := h["Pawl-Object"]
		_, when := h["Pawl-Occurred-At"]
		if h.Get("Pawl-Object") != tt.object || h.Get("Pawl-Occurred-At") != tt.when || object != (tt.object != "") || when != (tt.when != "") {
			t.Errorf("headers %v, want object %q and time %q", h, tt.object, tt.when)
		}
	}
}

// During a deployment, a worker with the old file has no flow for an event that a new process has stored. It fails, so
// that Temporal asks again until a worker with the new file answers. A preview does not wait. An event that still has no
// flow after 15 minutes parks.
func TestLoadRelay_PublishedWithoutFlow_RetriedFirst(t *testing.T) {
	t.Parallel()
	b := relaySetup(t, "http://unused.test")
	outcomes, err := b.receipts.Insert(t.Context(), receipt.Delivery{Source: flow.Pawl, Provider: flow.Pawl, ReceivedAt: time.Now(),
		Header: http.Header{}, Events: []receipt.New{{EventID: "p-1", Type: "access.changed", Body: []byte("{}"), Mode: "live", Identity: receipt.ByID, Status: receipt.Received}}})
	if err != nil {
		t.Fatal(err)
	}
	in := activities.LoadRelayInput{Ref: b.ref(t, outcomes[0].ReceiptID)}
	if _, err := b.relay.LoadRelay(t.Context(), in); err == nil || !strings.Contains(err.Error(), `no flow of this process selects "access.changed"; a worker with a newer file may`) {
		t.Errorf("got %v, want an error that is retried", err)
	}
	outlook, err := (&activities.Outlooks{DB: b.pool, Destinations: b.relay}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer outlook.Close()
	parks := func(result activities.LoadRelayResult, err error) {
		t.Helper()
		if err != nil || result.Code != activities.CodeNoDestination || !strings.Contains(result.Reason, "no flow selects") {
			t.Errorf("got %+v, %v, want a reason to park", result, err)
		}
	}
	parks(outlook.LoadRelay(t.Context(), in))
	b.relay.Now = func() time.Time { return time.Now().Add(16 * time.Minute) }
	parks(b.relay.LoadRelay(t.Context(), in))
}

// A relayed event with the bytes of another event is marked. Both events share one stored body.
func TestRelayEvent_SuspectedReplay_Marked(t *testing.T) {
	t.Parallel()
	c, url := newDestination(t)
	b := relaySetup(t, url)
	deliver := func(id, topic string) http.Header {
		t.Helper()
		out, err := b.receipts.Insert(t.Context(), receipt.Delivery{Source: "github", Provider: "github", ReceivedAt: time.Now(), Header: http.Header{},
			Events: []receipt.New{{Mode: "live", EventID: id, Identity: receipt.ByBytes, Type: topic, RelayOnly: true, Status: receipt.Received, Body: []byte("{}")}}})
		if err != nil {
			t.Fatal(err)
		}
		if result, err := b.deliver(t, b.call(t, out[0].ReceiptID, id)); err != nil || result.State != effect.Done {
			t.Fatalf("%s: %+v, %v", id, result, err)
		}
		last := c.seen[len(c.seen)-1]
		if string(last.Body) != "{}" {
			t.Errorf("%s: body %q", id, last.Body)
		}
		return last.Header
	}
	if got := deliver("d-1", "issues").Get("Pawl-Suspected"); got != "" {
		t.Errorf("the first: Pawl-Suspected %q", got)
	}
	if got := deliver("d-2", "pull_request").Get("Pawl-Suspected"); got != "replay" {
		t.Errorf("the second: Pawl-Suspected %q, want replay", got)
	}
}
