package activities_test

import (
	"context"
	"encoding/base64"
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
