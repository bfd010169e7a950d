package ingress_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/shopify"
	"github.com/pawlhq/pawl/ingress/throttle"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// hmacVerifier implements a minimal scheme: the header X-Sig contains the hex HMAC-SHA256 of the body under the key
// "secret". A body is one event or an array of events; X-Id and X-Account are optional and not signed.
type hmacVerifier struct{}

func sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (hmacVerifier) Verify(r *webhook.Request) (webhook.Match, error) {
	if r.Method == http.MethodGet && strings.Contains(r.URL, "challenge=right") {
		return webhook.Match{Secret: "main"}, nil
	}
	sig, err := r.HeaderOnce("X-Sig")
	if err != nil {
		return webhook.Match{}, err
	}
	if sig == "panic" {
		panic("verifier bug")
	}
	if !hmac.Equal([]byte(sig), []byte(sign(r.Body))) {
		return webhook.Match{}, webhook.Errorf(webhook.NoMatchingSignature, "no secret fits")
	}
	return webhook.Match{Secret: "main"}, nil
}

func (hmacVerifier) Events(r *webhook.Request) []webhook.Event {
	type item struct{ ID, Type, Account, Mode string }
	var items []item
	if err := json.Unmarshal(r.Body, &items); err == nil {
		events := []webhook.Event{}
		for _, it := range items {
			body, _ := json.Marshal(it)
			events = append(events, webhook.Event{ID: it.ID, IDOrigin: webhook.FromBody, Type: it.Type, Body: body})
		}
		return events
	}
	var it item
	if err := json.Unmarshal(r.Body, &it); err != nil {
		return []webhook.Event{{Problem: "not_json: " + string(r.Body)}}
	}
	e := webhook.Event{ID: it.ID, IDOrigin: webhook.FromBody, Type: it.Type, Account: it.Account, Mode: webhook.Mode(it.Mode)}
	if id := r.Header.Get("X-Id"); id != "" {
		e.ID, e.IDOrigin = id, webhook.FromHeader
	}
	if account := r.Header.Get("X-Account"); account != "" {
		e.Account = account
	}
	return []webhook.Event{e}
}

func (hmacVerifier) Answer(r *webhook.Request) (webhook.Answer, bool) {
	if strings.Contains(r.URL, "challenge=") && r.Method == http.MethodGet || bytes.Contains(r.Body, []byte(`"challenge"`)) {
		return webhook.Answer{Status: http.StatusOK, ContentType: "text/plain", Body: []byte("hello")}, true
	}
	return webhook.Answer{}, false
}

type bench struct {
	url   string
	store *receipt.Store
	pool  *pgxpool.Pool
	srv   *ingress.Server

	mu     sync.Mutex
	handed []receipt.Pending
}

// setup starts a server with one source, "shop", on a private database.
func setup(t testing.TB, change ...func(*ingress.Config, *ingress.Source)) *bench {
	t.Helper()
	return start(t, schematest.New(t), change...)
}

func start(t testing.TB, pool *pgxpool.Pool, change ...func(*ingress.Config, *ingress.Source)) *bench {
	t.Helper()
	// The long timeout allows for many tests that share two cores. The tests of deadlines pass ingress.Limits{}.
	return startWith(t, pool, receipt.Options{Timeout: 20 * time.Second}, ingress.Limits{Ack: 30 * time.Second}, change...)
}

func startWith(t testing.TB, pool *pgxpool.Pool, o receipt.Options, limits ingress.Limits, change ...func(*ingress.Config, *ingress.Source)) *bench {
	t.Helper()
	b := &bench{pool: pool, store: receipt.NewStore(pool, o)}
	t.Cleanup(b.store.Close)
	source := ingress.Source{Name: "shop", Provider: webhook.Provider{Name: "acme", Contract: webhook.Contract{Identity: webhook.ByID}},
		Verifier: hmacVerifier{}, Mode: webhook.Live, PublicURL: "https://pawl.example/hooks/shop"}
	cfg := ingress.Config{Receipts: b.store, Limits: limits, Log: slog.New(slog.DiscardHandler), Dispatch: func(p []receipt.Pending) {
		b.mu.Lock()
		b.handed = append(b.handed, p...)
		b.mu.Unlock()
	}}
	for _, f := range change {
		f(&cfg, &source)
	}
	if cfg.Sources == nil {
		cfg.Sources = map[string]ingress.Source{"shop": source}
	}
	srv, err := ingress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.srv = srv
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	b.url = "http://" + l.Addr().String()
	return b
}

type reply struct {
	status int
	header http.Header
	body   string
}

func do(t *testing.T, r *http.Request) reply {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
		return reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return reply{resp.StatusCode, resp.Header, strings.TrimSpace(string(body))}
}

func request(t testing.TB, method, url string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// post sends a signed body to the source.
func (b *bench) post(t *testing.T, body string, header ...string) reply {
	t.Helper()
	return do(t, request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(body), append([]string{"X-Sig", sign([]byte(body))}, header...)...))
}

func (b *bench) count(t testing.TB, sql string) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// only returns the only receipt of an event ID.
func (b *bench) only(t *testing.T, eventID string) receipt.Receipt {
	t.Helper()
	var id string
	if err := b.pool.QueryRow(t.Context(), `select min(id::text) from receipts where event_id = $1 having count(*) = 1`, eventID).Scan(&id); err != nil {
		t.Fatalf("find %s: %v; want one receipt", eventID, err)
	}
	r, err := b.store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDeliver_NewThenDuplicate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.post(t, `{"id":"e1","type":"paid"}`)
	r := b.only(t, "e1")
	if want := `{"received":true,"receipt":"` + r.ID + `","duplicate":false}`; first.status != http.StatusAccepted || first.body != want {
		t.Errorf("got %d %s, want 202 %s", first.status, first.body, want)
	}
	second := b.post(t, `{"id":"e1","type":"paid"}`)
	if want := `{"received":true,"receipt":"` + r.ID + `","duplicate":true}`; second.status != http.StatusOK || second.body != want {
		t.Errorf("got %d %s, want 200 %s", second.status, second.body, want)
	}
	if r.Status != receipt.Received || r.Mode != "live" || r.Provider != "acme" || r.SecretLabel != "main" || r.CorrelationID == "" {
		t.Errorf("receipt %+v", r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.handed) != 1 || b.handed[0].ReceiptID != r.ID || b.handed[0].Type != "paid" || b.handed[0].Mode != "live" {
		t.Errorf("handed over %+v, want the event once", b.handed)
	}
}

// 200 deliveries of one event arrive at two ingress servers with one database.
func TestDeliver_Storm_OneReceipt(t *testing.T) {
	t.Parallel()
	a := setup(t)
	b := start(t, a.pool)
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 200 {
		to := []*bench{a, b}[i%2]
		wg.Go(func() {
			got := to.post(t, `{"id":"e1","type":"paid"}`)
			mu.Lock()
			statuses[got.status]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if statuses[http.StatusAccepted] != 1 || statuses[http.StatusOK] != 199 {
		t.Errorf("answers %v, want one 202 and 199 times 200", statuses)
	}
	if r := a.only(t, "e1"); r.Duplicates != 199 {
		t.Errorf("duplicates: got %d, want 199", r.Duplicates)
	}
	if n := len(a.handed) + len(b.handed); n != 1 {
		t.Errorf("handed over %d times, want 1", n)
	}
}

func TestDeliver_Refused_NothingStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := `{"id":"e1"}`
	for name, c := range map[string]struct {
		r      *http.Request
		status int
		body   string
	}{
		"bad signature": {request(t, "POST", b.url+"/hooks/shop", strings.NewReader(body), "X-Sig", "00"), 401, `{"error":"no_matching_signature"}`},
		"no signature":  {request(t, "POST", b.url+"/hooks/shop", strings.NewReader(body)), 400, `{"error":"missing_header"}`},
		"unknown":       {request(t, "POST", b.url+"/hooks/other", strings.NewReader(body)), 404, `{"error":"unknown_source"}`},
		"encoded slash": {request(t, "POST", b.url+"/hooks/shop%2Fx", strings.NewReader(body)), 404, `{"error":"unknown_source"}`},
		"elsewhere":     {request(t, "POST", b.url+"/hooks/shop/more", strings.NewReader(body)), 404, `{"error":"not_found"}`},
		"double slash":  {request(t, "POST", b.url+"//hooks/shop", strings.NewReader(body)), 404, `{"error":"not_found"}`},
		"gzip":          {request(t, "POST", b.url+"/hooks/shop", strings.NewReader(body), "Content-Encoding", "gzip", "X-Sig", sign([]byte(body))), 415, `{"error":"content_encoding"}`},
		"put":           {request(t, "PUT", b.url+"/hooks/shop", strings.NewReader(body), "X-Sig", sign([]byte(body))), 405, `{"error":"method_not_allowed"}`},
		"get":           {request(t, "GET", b.url+"/hooks/shop", nil), 405, `{"error":"method_not_allowed"}`},
		"no method":     {request(t, "BREW", b.url+"/hooks/shop/", nil), 405, `{"error":"method_not_allowed"}`},
	} {
		got := do(t, c.r)
		if got.status != c.status || got.body != c.body {
			t.Errorf("%s: got %d %s, want %d %s", name, got.status, got.body, c.status, c.body)
		}
		if got.status == 405 && got.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow %q, want POST", name, got.header.Get("Allow"))
		}
	}
	if err := b.srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `select count(*) from receipts`); n != 0 {
		t.Errorf("receipts: got %d, want 0", n)
	}
	if n := b.count(t, `select count from source_counts where source = 'shop' and what = 'refused' and name = 'no_matching_signature'`); n != 1 {
		t.Errorf("counted rejections: got %d, want 1", n)
	}
}

func TestDeliver_BothSlashForms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, path := range []string{"/hooks/shop", "/hooks/shop/"} {
		body := fmt.Sprintf(`{"id":"e%d"}`, i)
		got := do(t, request(t, "POST", b.url+path, strings.NewReader(body), "X-Sig", sign([]byte(body))))
		if got.status != http.StatusAccepted {
			t.Errorf("%s: got %d, want 202", path, got.status)
		}
	}
}

// unsized hides the length of a body, so that the HTTP client sends it in chunks.
type unsized struct{ io.Reader }

func TestDeliver_BodyLimit_CountedOnBytesRead(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.BodyLimit = 1000 })
	for _, c := range []struct {
		size   int
		status int
	}{{1000, 202}, {1001, 413}, {200_000, 413}} {
		body := []byte(`"` + strings.Repeat("x", c.size-2) + `"`)
		for _, reader := range []io.Reader{bytes.NewReader(body), unsized{bytes.NewReader(body)}} {
			got := do(t, request(t, "POST", b.url+"/hooks/shop", reader, "X-Sig", sign(body)))
			if got.status != c.status && !(c.status == 202 && got.status == 200) {
				t.Errorf("%d bytes as %T: got %d, want %d", c.size, reader, got.status, c.status)
			}
		}
	}
	if n := b.count(t, `select count(*) from receipts`); n != 1 {
		t.Errorf("receipts: got %d, want 1", n)
	}
}

// An authentic body with any content is stored unchanged, parked with a reason, and answered with 2xx.
func TestDeliver_Unreadable_KeptAndParked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, body := range []string{"", "not json", "\x00", "\xff\xfe\xc0\x80", `{"id":`, "\ufeff{}", strings.Repeat("[", 20_000)} {
		got := b.post(t, body)
		if got.status != http.StatusAccepted {
			t.Errorf("%.20q: got %d %s, want 202", body, got.status, got.body)
			continue
		}
		var answer struct{ Receipt string }
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
			t.Fatal(err)
		}
		r, err := b.store.Get(t.Context(), answer.Receipt)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != receipt.NeedsReview || !strings.HasPrefix(r.Reason, "not_json") || !strings.HasPrefix(r.EventID, "sha256:") {
			t.Errorf("%.20q: %s (%s), ID %s; want it parked, its ID from the bytes", body, r.Status, r.Reason, r.EventID)
		}
		kept, err := b.store.Body(t.Context(), r.ID)
		if err != nil || string(kept.Bytes) != body {
			t.Errorf("%.20q: kept %.20q, %v", body, kept.Bytes, err)
		}
		if again := b.post(t, body); again.status != http.StatusOK {
			t.Errorf("%.20q again: got %d, want 200", body, again.status)
		}
	}
	if len(b.handed) != 0 {
		t.Errorf("handed over %+v, want nothing", b.handed)
	}
}

// An event is stored even if it contains values that Postgres' text type or Temporal's IDs cannot contain.
func TestDeliver_StrangeWords_Kept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("i", 201)
	for name, body := range map[string]string{
		"long id":     `{"id":"` + long + `","type":"paid"}`,
		"longer id":   `{"id":"` + long + `i","type":"paid"}`,
		"nul in id":   `{"id":"a\u0000b","type":"paid"}`,
		"nul in type": `{"id":"n1","type":"pa\u0000id"}`,
		"long type":   `{"id":"n2","type":"` + strings.Repeat("ü", 5000) + `"}`,
		"surrogate":   `{"id":"n3","type":"\ud800"}`,
	} {
		if got := b.post(t, body); got.status != http.StatusAccepted {
			t.Errorf("%s: got %d %s, want 202", name, got.status, got.body)
		}
	}
	if n := b.count(t, `select count(*) from receipts`); n != 6 {
		t.Errorf("receipts: got %d, want 6", n)
	}
}

func TestDeliver_NotWanted_Ignored(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		s.Wanted = func(eventType string) bool { return eventType == "paid" }
		s.Accounts = []string{"acct_1"}
	})
	for id, c := range map[string]struct{ body, reason string }{
		"type":    {`{"id":"type","type":"other","account":"acct_1"}`, `type_ignored: source shop neither runs nor relays "other"`},
		"mode":    {`{"id":"mode","type":"paid","account":"acct_1","mode":"test"}`, `mode_ignored: a test event on a live source`},
		"account": {`{"id":"account","type":"paid","account":"acct_2"}`, `account_ignored: source shop accepts no events of account "acct_2"`},
	} {
		if got := b.post(t, c.body); got.status != http.StatusOK {
			t.Errorf("%s: got %d, want 200", id, got.status)
		}
		heldAs := map[string]string{"type": "type", "mode": "mode~shop", "account": "account~shop"}[id]
		if r := b.only(t, heldAs); r.Status != receipt.Ignored || r.Reason != c.reason {
			t.Errorf("%s: %s (%s), want ignored (%s)", id, r.Status, r.Reason, c.reason)
		}
	}
	if len(b.handed) != 0 {
		t.Errorf("handed over %+v, want nothing", b.handed)
	}
}

// If an operator adds a type and the provider sends the event again, the event runs.
func TestDeliver_NotWantedThenWanted_Runs(t *testing.T) {
	t.Parallel()
	var wanted atomic.Bool
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		s.Wanted = func(string) bool { return wanted.Load() }
	})
	body := `{"id":"evt_1","type":"paid"}`
	for _, c := range []struct {
		wanted bool
		status int
		handed int
	}{{false, 200, 0}, {false, 200, 0}, {true, 202, 1}, {true, 200, 1}, {false, 200, 1}} {
		wanted.Store(c.wanted)
		if got := b.post(t, body); got.status != c.status || len(b.handed) != c.handed {
			t.Errorf("wanted %t: got %d with %d handed over, want %d with %d", c.wanted, got.status, len(b.handed), c.status, c.handed)
		}
	}
	if r := b.only(t, "evt_1"); r.Status != receipt.Received || r.Reason != "" {
		t.Errorf("%s (%s), want received", r.Status, r.Reason)
	}
}

// The same bytes under another ID are a suspected replay, even if the first receipt was ignored.
func TestDeliver_IgnoredUnderAnotherID_SuspectedReplay(t *testing.T) {
	t.Parallel()
	var wanted atomic.Bool
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		s.Provider.Contract.Identity = webhook.ByBytes
		s.Wanted = func(string) bool { return wanted.Load() }
	})
	for _, c := range []struct {
		id     string
		wanted bool
		status int
	}{{"d-1", true, 202}, {"d-2", false, 200}, {"d-2", true, 202}, {"d-2", true, 200}} {
		wanted.Store(c.wanted)
		if got := b.post(t, `{"type":"paid"}`, "X-Id", c.id); got.status != c.status {
			t.Errorf("%s, wanted %t: got %d %s, want %d", c.id, c.wanted, got.status, got.body, c.status)
		}
	}
	if len(b.handed) != 1 {
		t.Errorf("handed over %+v, want d-1 only", b.handed)
	}
	if r := b.only(t, "d-2"); r.Status != receipt.NeedsReview || r.Reason != "suspected_replay: same bytes as d-1" {
		t.Errorf("%s (%s), want a suspected replay", r.Status, r.Reason)
	}
}

// Shopify does not sign the topic, so an attacker with an event of an unwanted topic could send it under a wanted
// topic.
func TestDeliver_NotWantedThenCalledOtherwise_StaysIgnored(t *testing.T) {
	t.Parallel()
	v, err := shopify.Provider.New(webhook.Settings{Source: "shop", Secrets: []webhook.Secret{{Label: "main", Value: providerSecret}}})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		s.Provider, s.Verifier = shopify.Provider, v
		s.Wanted = func(eventType string) bool { return eventType == "orders/paid" }
	})
	for _, topic := range []string{"orders/create", "orders/paid"} {
		in := webhook.SignInput{ID: "w-1", Type: topic, Account: "a.myshopify.com", Body: []byte(`{"id":1}`)}
		if got := b.send(t, shopify.Provider, in); got.status != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", topic, got.status, got.body)
		}
	}
	if len(b.handed) != 0 {
		t.Errorf("handed over %+v, want nothing", b.handed)
	}
	if r := b.only(t, "w-1"); r.Status != receipt.Ignored || r.Duplicates != 1 {
		t.Errorf("%s with %d duplicates, want ignored with one", r.Status, r.Duplicates)
	}
}

func TestDeliver_Batch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := b.post(t, `[{"id":"a","type":"t"},{"id":"b","type":"t"},{"id":"a","type":"t"}]`)
	if want := `{"received":true,"events":3,"duplicates":1}`; got.status != http.StatusAccepted || got.body != want {
		t.Errorf("got %d %s, want 202 %s", got.status, got.body, want)
	}
	if got := b.post(t, `[]`); got.status != http.StatusOK {
		t.Errorf("empty batch: got %d, want 200", got.status)
	}
	kept, err := b.store.Body(t.Context(), b.only(t, "b").ID)
	if err != nil || !strings.Contains(string(kept.Bytes), `"b"`) || strings.Contains(string(kept.Bytes), `"a"`) {
		t.Errorf("body of b: %s, %v; want its own bytes only", kept.Bytes, err)
	}
}

func TestDeliver_UnsignedID_SuspectedReplay(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.Provider.Contract.Identity = webhook.ByBytes })
	b.post(t, `{"type":"push"}`, "X-Id", "guid-1")
	if got := b.post(t, `{"type":"push"}`, "X-Id", "guid-2"); got.status != http.StatusAccepted {
		t.Errorf("got %d, want 202", got.status)
	}
	if r := b.only(t, "guid-2"); r.Status != receipt.NeedsReview || r.Reason != "suspected_replay: same bytes as guid-1" {
		t.Errorf("%s (%s), want it parked", r.Status, r.Reason)
	}
	if len(b.handed) != 1 || b.handed[0].EventID != "guid-1" {
		t.Errorf("handed over %+v, want guid-1 only", b.handed)
	}
}

// If an unsigned ID arrives with other authentic bytes, both events run, each under its own ID.
func TestDeliver_UnsignedID_OtherBytes_BothRun(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.Provider.Contract.Identity = webhook.ByBytes })
	for _, want := range []int{http.StatusAccepted, http.StatusOK} {
		for _, kind := range []string{"created", "updated"} {
			if got := b.post(t, `{"type":"`+kind+`"}`, "X-Id", "guid-1"); got.status != want {
				t.Errorf("%s: got %d, want %d", kind, got.status, want)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.handed) != 2 || b.handed[0].EventID != "guid-1" || !strings.HasPrefix(b.handed[1].EventID, "guid-1~") {
		t.Fatalf("handed over %+v, want both events, each under its own ID", b.handed)
	}
	for _, p := range b.handed {
		if r := b.only(t, p.EventID); r.ID != p.ReceiptID || r.Duplicates != 1 {
			t.Errorf("%s is receipt %s with %d duplicates, want %s with one", p.EventID, r.ID, r.Duplicates, p.ReceiptID)
		}
	}
}

// If a sender includes the time of sending in the body, each attempt has other bytes.
func TestDeliver_ByIDOrBytes_OtherBytes_Duplicate(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		s.Provider.Contract.Identity = webhook.ByIDOrBytes
	})
	for attempt, want := range []int{http.StatusAccepted, http.StatusOK} {
		if got := b.post(t, fmt.Sprintf(`{"type":"created","at":%d}`, attempt), "X-Id", "guid-1"); got.status != want {
			t.Errorf("attempt %d: got %d, want %d", attempt+1, got.status, want)
		}
	}
}

// CalledURL returns the public URL without its fragment, with the query of the request.
func TestSource_CalledURL(t *testing.T) {
	t.Parallel()
	for registered, want := range map[string]string{
		"https://h.example/in":          "https://h.example/in?b=2",
		"https://h.example/in?a=1":      "https://h.example/in?b=2",
		"https://h.example/in#rc=2":     "https://h.example/in?b=2",
		"https://h.example/in?a=1#rc=2": "https://h.example/in?b=2",
	} {
		s := ingress.Source{PublicURL: registered}
		if got := s.CalledURL("b=2"); got != want {
			t.Errorf("%s: called at %s, want %s", registered, got, want)
		}
		if got := s.CalledURL(""); got != "https://h.example/in" {
			t.Errorf("%s: called at %s without a query", registered, got)
		}
	}
}

func TestReadmit_SameIDAtTwoSources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contract webhook.Contract
		body, id string
		apart    bool
	}{
		"generic, signed ID":    {webhook.Contract{Generic: true, Identity: webhook.ByID}, `{"id":"1001"}`, "", true},
		"generic, an account":   {webhook.Contract{Generic: true, Identity: webhook.ByID}, `{"id":"1001","account":"7"}`, "", true},
		"generic, unsigned ID":  {webhook.Contract{Generic: true}, `{"type":"paid"}`, "1001", true},
		"generic, no ID":        {webhook.Contract{Generic: true}, `{"type":"ping"}`, "", true},
		"provider, signed ID":   {webhook.Contract{Identity: webhook.ByID}, `{"id":"1001"}`, "", false},
		"provider, unsigned ID": {webhook.Contract{}, `{"type":"paid"}`, "1001", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := receipt.NewStore(schematest.New(t), receipt.Options{Timeout: 20 * time.Second})
			t.Cleanup(store.Close)
			for i, source := range []string{"orders", "tickets", "tickets"} {
				s := ingress.Source{Name: source, Provider: webhook.Provider{Name: "acme", Contract: c.contract}, Verifier: hmacVerifier{}, Mode: webhook.Live}
				r := &webhook.Request{Method: http.MethodPost, Header: http.Header{"X-Sig": {sign([]byte(c.body))}}, Body: []byte(c.body), ReceivedAt: time.Now()}
				if c.id != "" {
					r.Header.Set("X-Id", c.id)
				}
				d, err := s.Readmit(r)
				if err != nil {
					t.Fatal(err)
				}
				out, err := store.Insert(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				fresh := i == 0 || i == 1 && c.apart
				if out[0].Duplicate == fresh || out[0].Status != receipt.Received {
					t.Errorf("delivery %d, at %s: got %+v, want new %t and received", i+1, source, out[0], fresh)
				}
				want := map[bool]string{true: source}[c.apart]
				if strings.Contains(c.body, "account") {
					want += "/7"
				}
				if d.Events[0].Account != want {
					t.Errorf("delivery %d: account %q, want %q", i+1, d.Events[0].Account, want)
				}
			}
		})
	}
}

// The same bytes without the ID's header, or with other unsigned values, are not a new event.
func TestDeliver_UnsignedIDLeftOut_SuspectedReplay(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.Provider.Contract.Identity = webhook.ByBytes })
	b.post(t, `{"type":"paid"}`, "X-Id", "guid-1", "X-Account", "a")
	for _, account := range []string{"", "a", "b", "c"} {
		b.post(t, `{"type":"paid"}`, "X-Account", account)
	}
	if n := b.count(t, `select coalesce(sum(1 + duplicates), 0) from receipts where status = 'needs_review' and reason = 'suspected_replay: same bytes as guid-1' having count(*) = 1`); n != 4 {
		t.Errorf("%d suspected replays in one receipt, want 4", n)
	}
	if len(b.handed) != 1 || b.handed[0].EventID != "guid-1" {
		t.Errorf("handed over %+v, want guid-1 only", b.handed)
	}
}

// Twilio signs only the parameters, so an attacker with a form can encode it differently and omit the unsigned token.
func TestDeliver_SignedFormInAnotherSpelling_SuspectedReplay(t *testing.T) {
	t.Parallel()
	const endpoint, secret = "https://pawl.example/hooks/shop", "0123456789abcdef0123456789abcdef"
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		v, err := twilio.Provider.New(webhook.Settings{Source: "shop", URL: endpoint, Secrets: []webhook.Secret{{Label: "main", Value: secret}}})
		if err != nil {
			t.Fatal(err)
		}
		s.Provider, s.Verifier = twilio.Provider, v
	})
	out, err := twilio.Provider.Sign(webhook.SignInput{Secret: secret, URL: endpoint, ID: "token-1", Body: []byte("MessageSid=SM1&MessageStatus=sent")})
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range []string{string(out.Body), "MessageStatus=sent&MessageSid=SM1", "MessageSid=SM%31&MessageStatus=sent"} {
		r := request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(body))
		r.Header = out.Header.Clone()
		if i > 0 {
			r.Header.Del("I-Twilio-Idempotency-Token")
		}
		if got := do(t, r); got.status/100 != 2 {
			t.Errorf("%s: got %d %s", body, got.status, got.body)
		}
	}
	if len(b.handed) != 1 || b.handed[0].EventID != "token-1" {
		t.Errorf("handed over %+v, want token-1 only", b.handed)
	}
	if n := b.count(t, `select count(*) from receipts where reason = 'suspected_replay: same bytes as token-1'`); n != 1 {
		t.Errorf("%d suspected replays, want 1", n)
	}
}

// If a provider sends no ID for this event, it repeats the event unchanged: the repetition is a duplicate, and not a
// suspected replay.
func TestDeliver_NoID_RetryIsDuplicate(t *testing.T) {
	t.Parallel()
	for name, identity := range map[string]webhook.Identity{"never an ID": webhook.ByID, "an unsigned one elsewhere": webhook.ByBytes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(_ *ingress.Config, s *ingress.Source) { s.Provider.Contract.Identity = identity })
			for i, want := range []int{http.StatusAccepted, http.StatusOK, http.StatusOK} {
				if got := b.post(t, `{"type":"paid"}`, "X-Account", "a"); got.status != want {
					t.Errorf("delivery %d: got %d, want %d", i+1, got.status, want)
				}
			}
			if n := b.count(t, `select duplicates from receipts where status = 'received'`); n != 2 {
				t.Errorf("%d duplicates, want 2 of the one receipt", n)
			}
		})
	}
}

func TestDeliver_Handshakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if got := do(t, request(t, "GET", b.url+"/hooks/shop?challenge=right", nil)); got.status != 200 || got.body != "hello" {
		t.Errorf("GET: got %d %s, want 200 hello", got.status, got.body)
	}
	if got := b.post(t, `{"id":"c1","challenge":"x"}`); got.status != 200 || got.body != "hello" {
		t.Errorf("POST: got %d %s, want the provider's answer", got.status, got.body)
	}
	if got := do(t, request(t, "GET", b.url+"/hooks/shop?challenge=wrong", nil)); got.status != http.StatusBadRequest {
		t.Errorf("GET that is not admitted: got %d, want 400", got.status)
	}
	bad := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader(`{"challenge":"x"}`), "X-Sig", "00"))
	if bad.status != http.StatusUnauthorized {
		t.Errorf("unsigned handshake: got %d, want 401", bad.status)
	}
}

func TestDeliver_SecretsInHeaders_NotKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.post(t, `{"id":"e1"}`, "Authorization", "Bearer hunter2", "X-Gitlab-Token", "hunter2", "User-Agent", "acme/1")
	kept, err := b.store.Body(t.Context(), b.only(t, "e1").ID)
	if err != nil {
		t.Fatal(err)
	}
	header, err := kept.Header()
	if all := fmt.Sprint(header); err != nil || strings.Contains(all, "hunter2") || header.Get("User-Agent") != "acme/1" {
		t.Errorf("kept headers %s, %v", all, err)
	}
}

func TestDeliver_Panic_503(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "panic"))
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q; want 503 with it", got.status, got.header.Get("Retry-After"))
	}
	if got := b.post(t, `{"id":"e1"}`); got.status != http.StatusAccepted {
		t.Errorf("afterwards: got %d, want 202", got.status)
	}
}

// unreachable is a verifier that cannot verify while its field away is set.
type unreachable struct {
	hmacVerifier
	away *atomic.Bool
}

func (u unreachable) Verify(r *webhook.Request) (webhook.Match, error) {
	if u.away.Load() {
		return webhook.Match{}, errors.New("the provider's certificate cannot be fetched")
	}
	return u.hmacVerifier.Verify(r)
}

// If a delivery cannot be verified at the moment, the answer is 503, and the provider repeats it.
func TestDeliver_NotVerifiableNow_503(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	var log bytes.Buffer
	b := setup(t, func(cfg *ingress.Config, source *ingress.Source) {
		source.Verifier = unreachable{away: &away}
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	away.Store(true)
	for range 20 {
		if got := b.post(t, `{"id":"e1"}`); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Fatalf("got %d, Retry-After %q; want 503 with it", got.status, got.header.Get("Retry-After"))
		}
	}
	away.Store(false)
	if got := b.post(t, `{"id":"e1"}`); got.status != http.StatusAccepted {
		t.Errorf("afterwards: got %d, want 202", got.status)
	}
	if n := strings.Count(log.String(), "cannot be fetched"); n != 1 {
		t.Errorf("the log reports it %d times, want once", n)
	}
}

func TestDeliver_Limits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		c.Now = func() time.Time { return now } // the clock stands still, so no token is refilled
		c.Limits.PerAddress = throttle.Rate{PerSecond: 1, Burst: 2}
		c.Limits.TrustedProxies = []netip.Prefix{loopback}
		s.AllowFrom = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	})
	for i, c := range []struct {
		forwarded string
		status    int
	}{
		{"203.0.113.1", 202},
		{"198.51.100.7, 203.0.113.1", 202}, // the sender itself set the left address
		{"203.0.113.1", 503},               // its third
		{"203.0.113.2", 202},               // each address has its own tokens
		{"203.0.113.1, 198.51.100.7", 403},
		{"203.0.113.3:51820", 202}, // some proxies add the port, which differs for each connection
		{"203.0.113.3:51821", 202},
		{"203.0.113.3:51822", 503},
		{"[::ffff:203.0.113.4]", 202},
		{"[::ffff:203.0.113.4]:51820", 202},
		{"203.0.113.5:port", 403},
		{"", 403},
	} {
		got := b.post(t, fmt.Sprintf(`{"id":"e%d"}`, i), "X-Forwarded-For", c.forwarded)
		if got.status != c.status {
			t.Errorf("%d %q: got %d %s, want %d", i, c.forwarded, got.status, got.body, c.status)
		}
		if got.status == 503 && got.header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
}

// The remote address of a link-local neighbor contains an interface name, but networks in the configuration do not.
func TestDeliver_LinkLocal_Allowed(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *ingress.Config, s *ingress.Source) {
		s.AllowFrom = []netip.Prefix{netip.MustParsePrefix("fe80::/10")}
	})
	for from, want := range map[string]int{"[fe80::1%eth0]:51820": http.StatusAccepted, "[2001:db8::1]:51820": http.StatusForbidden} {
		body := []byte(`{"id":"e1"}`)
		r := request(t, http.MethodPost, "http://pawl.example/hooks/shop", bytes.NewReader(body), "X-Sig", sign(body))
		r.RemoteAddr = from
		answered := httptest.NewRecorder()
		b.srv.Handler().ServeHTTP(answered, r)
		if answered.Code != want {
			t.Errorf("%s: got %d, want %d", from, answered.Code, want)
		}
	}
}

// stuck is a store whose first insert blocks.
type stuck struct {
	ingress.Receipts
	entered, leave chan struct{}
}

func (s *stuck) Insert(context.Context, receipt.Delivery) ([]receipt.Outcome, error) {
	close(s.entered)
	<-s.leave
	return nil, errors.New("no")
}

// forgetful is a store that fails to record the first counts of rejections.
type forgetful struct {
	ingress.Receipts
	failed chan struct{}
	once   sync.Once
}

func (f *forgetful) CountSources(ctx context.Context, counts []receipt.SourceCount) (err error) {
	if len(counts) > 0 {
		f.once.Do(func() {
			close(f.failed)
			err = errors.New("the database is away")
		})
	}
	if err != nil {
		return err
	}
	return f.Receipts.CountSources(ctx, counts)
}

// A rejection is counted and logged once, even if the database is down at first.
func TestTally_DatabaseAway_CountedAndToldOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	store := &forgetful{failed: make(chan struct{})}
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		store.Receipts, c.Receipts = c.Receipts, store
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	if got := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "00")); got.status != http.StatusUnauthorized {
		t.Fatalf("got %d, want 401", got.status)
	}
	<-store.failed
	if err := b.srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `select sum(count) from source_counts where what = 'refused'`); n != 1 {
		t.Errorf("counted %d times, want once", n)
	}
	if n := strings.Count(log.String(), "deliveries refused"); n != 1 {
		t.Errorf("the log reports it %d times, want once:\n%s", n, &log)
	}
}

// The last counts are written even if a delivery is still in progress when the shutdown times out.
func TestShutdown_DeliveryOutlastsIt_CountsWritten(t *testing.T) {
	t.Parallel()
	store := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		store.Receipts, c.Receipts = c.Receipts, store
	})
	if got := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "00")); got.status != http.StatusUnauthorized {
		t.Fatalf("got %d, want 401", got.status)
	}
	var delivered sync.WaitGroup
	delivered.Go(func() { b.post(t, `{"id":"e1"}`) })
	<-store.entered
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.srv.Shutdown(over); err == nil {
		t.Error("shut down without an error, want the error of the context")
	}
	close(store.leave)
	delivered.Wait()
	if n := b.count(t, `select coalesce(sum(count), 0) from source_counts where what = 'refused'`); n != 1 {
		t.Errorf("counted %d times, want once", n)
	}
}

// silent is a store whose database does not respond to writes of counts.
type silent struct {
	ingress.Receipts
	asked chan struct{}
	once  sync.Once
}

func (s *silent) CountSources(ctx context.Context, counts []receipt.SourceCount) error {
	if len(counts) == 0 {
		return nil
	}
	s.once.Do(func() { close(s.asked) })
	<-ctx.Done()
	return ctx.Err()
}

// If the database does not respond to a write of counts, the process still ends.
func TestShutdown_CountNotAnswered_Ends(t *testing.T) {
	t.Parallel()
	store := &silent{asked: make(chan struct{})}
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		store.Receipts, c.Receipts = c.Receipts, store
	})
	if got := do(t, request(t, "POST", b.url+"/hooks/shop", strings.NewReader("{}"), "X-Sig", "00")); got.status != http.StatusUnauthorized {
		t.Fatalf("got %d, want 401", got.status)
	}
	<-store.asked
	ended := make(chan error, 1)
	go func() { ended <- b.srv.Shutdown(t.Context()) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for its database")
	}
}

// A full server rejects requests over its limit at once. Only requests in progress use a slot.
func TestDeliver_Full_Sheds(t *testing.T) {
	t.Parallel()
	slow := &stuck{entered: make(chan struct{}), leave: make(chan struct{})}
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		slow.Receipts, c.Receipts = c.Receipts, slow
		c.Limits.InFlight = 1
	})
	b.dial(t, stalledBody)
	first := make(chan reply, 1)
	go func() { first <- b.post(t, `{"id":"e1"}`) }()
	<-slow.entered
	got := b.post(t, `{"id":"e2"}`)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("got %d, want 503 with Retry-After", got.status)
	}
	close(slow.leave)
	if got := <-first; got.status != http.StatusServiceUnavailable {
		t.Errorf("not committed: got %d, want 503", got.status)
	}
}

// away is a store whose database is down.
type away struct{ ingress.Receipts }

func (away) Insert(context.Context, receipt.Delivery) ([]receipt.Outcome, error) {
	return nil, errors.New("the database is away")
}

// While the database is down, the log contains the number of failed deliveries at intervals, and not one line per
// delivery.
func TestDeliver_DatabaseAway_LogIsShort(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := setup(t, func(c *ingress.Config, _ *ingress.Source) {
		c.Receipts = away{c.Receipts}
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	for i := range 20 {
		if got := b.post(t, fmt.Sprintf(`{"id":"e%d"}`, i)); got.status != http.StatusServiceUnavailable {
			t.Fatalf("got %d, want 503", got.status)
		}
	}
	if n := strings.Count(log.String(), "not committed"); n != 1 {
		t.Errorf("the log reports it %d times, want once:\n%s", n, log.String())
	}
}

// A flood of invalid signatures causes no write and delays no valid delivery. The test is not parallel, because it
// measures times.
func TestDeliver_FloodOfBadSignatures(t *testing.T) {
	b := setup(t)
	flood := []byte(`{"id":"forged"}`)
	handler := b.srv.Handler()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var forged atomic.Int64
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r := request(t, "POST", "/hooks/shop", bytes.NewReader(flood), "X-Sig", fmt.Sprintf("%d-%d", i, n))
				handler.ServeHTTP(discard{http.Header{}}, r)
				forged.Add(1)
			}
		})
	}
	var took []time.Duration
	// Last long enough for a flood: a slow machine forges slowly.
	for i := 0; i < 20 || forged.Load() < 1000; i++ {
		begin := time.Now()
		if got := b.post(t, fmt.Sprintf(`{"id":"e%d"}`, i)); got.status != http.StatusAccepted {
			t.Errorf("got %d, want 202", got.status)
		}
		took = append(took, time.Since(begin))
	}
	close(stop)
	wg.Wait()
	// Use the median, because other tests share the cores.
	slices.Sort(took)
	if median := took[len(took)/2]; median > time.Second {
		t.Errorf("valid deliveries took %v, want a median under 1 s", took)
	}
	if err := b.srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, `select count(*) from receipts`); n != len(took) {
		t.Errorf("receipts: got %d, want %d", n, len(took))
	}
	if n := b.count(t, `select sum(count) from source_counts where what = 'refused'`); n != int(forged.Load()) {
		t.Errorf("rejections: got %d, want %d", n, forged.Load())
	}
	if n := b.count(t, `select sum(count) from source_counts where what = 'admitted' and name = 'main'`); n != len(took) {
		t.Errorf("uses of the secret: got %d, want %d", n, len(took))
	}
}

// discard is an HTTP client that discards the response.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func TestNew_ReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := ingress.New(ingress.Config{Sources: map[string]ingress.Source{"a": {Name: "b", Mode: "prod"}}})
	for _, want := range []string{`its name is "b"`, "no verifier", "no provider", `mode is "prod"`, "no receipt store"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
}

// untilAccepted delivers events until the server accepts one: with the server's real deadlines, a busy machine may
// reject the first events.
func (b *bench) untilAccepted(t *testing.T, id string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for i := 0; b.post(t, fmt.Sprintf(`{"id":"%s-%d"}`, id, i)).status != http.StatusAccepted; i++ {
		if time.Now().After(deadline) {
			t.Fatalf("%s: no delivery accepted within 10 s", id)
		}
	}
}

// While Postgres is stopped, the server answers 503 within a second, and never 2xx. After Postgres has started again,
// deliveries continue without a restart of the server. The test is not parallel, because all tests share the server.
func TestDeliver_PostgresStopped(t *testing.T) {
	server := schematest.Server(t)
	config, err := pgxpool.ParseConfig(schematest.NewDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.ConnectTimeout = time.Second
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := startWith(t, pool, receipt.Options{}, ingress.Limits{})
	b.untilAccepted(t, "before")
	if err := server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		begin := time.Now()
		got := b.post(t, fmt.Sprintf(`{"id":"down-%d"}`, i))
		if took := time.Since(begin); got.status != http.StatusServiceUnavailable || took > time.Second {
			t.Errorf("stopped: got %d after %s, want 503 within 1 s", got.status, took)
		}
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.untilAccepted(t, "after")
	if n := b.count(t, `select count(*) from receipts where event_id like 'down-%'`); n != 0 {
		t.Errorf("receipts of refused deliveries: got %d, want 0", n)
	}
}

// If a shop has two subscriptions for one topic with one URL, the second delivery is a duplicate. If an order's next
// topic arrives with the same bytes, it is relayed and marked. If that topic has a flow, the event is parked.
func TestDeliver_Shopify_TwoSubscriptions(t *testing.T) {
	t.Parallel()
	b := at(t, shopify.Provider, webhook.Settings{}, func(_ *ingress.Config, s *ingress.Source) {
		s.Relays, s.Written = true, func(eventType string) bool { return eventType == "orders/fulfilled" }
	})
	send := func(id, topic string) reply {
		t.Helper()
		out, err := shopify.Provider.Sign(webhook.SignInput{Secret: providerSecret, ID: id, Type: topic, Account: "acme.myshopify.com",
			Body: []byte(`{"id":1,"admin_graphql_api_id":"gid://shopify/Order/1","currency":"JPY","total_price":"4900"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r := request(t, http.MethodPost, b.url+"/hooks/shop", bytes.NewReader(out.Body))
		r.Header = out.Header
		r.Header.Set("X-Shopify-Event-Id", "6f1c")
		return do(t, r)
	}
	for _, c := range []struct {
		id, topic string
		status    int
		want      string
	}{
		{"w1", "orders/create", http.StatusAccepted, "received"},
		{"w2", "orders/create", http.StatusOK, ""},
		{"w3", "orders/paid", http.StatusAccepted, "received"},
		{"w4", "orders/fulfilled", http.StatusAccepted, "needs_review"},
	} {
		if got := send(c.id, c.topic); got.status != c.status {
			t.Errorf("%s: got %d %s, want %d", c.id, got.status, got.body, c.status)
		}
		if c.want != "" {
			if r := b.only(t, c.id); string(r.Status) != c.want || r.Replayed != (c.id != "w1") {
				t.Errorf("%s: %s, marked %t; want %s", c.id, r.Status, r.Replayed, c.want)
			}
		}
	}
	if n := b.count(t, `select duplicates from receipts where event_id = 'w1'`); n != 1 || len(b.handed) != 2 {
		t.Errorf("%d duplicates of w1, and handed over %+v; want one, and two events", n, b.handed)
	}
}

// Each click on Shopify's test button sends the same sample order under new IDs: the later deliveries are duplicates,
// even if the topic has a flow, and none is parked. A captured delivery with the headers of a test is a suspected
// replay.
func TestDeliver_Shopify_TestNotificationRepeated_Duplicate(t *testing.T) {
	t.Parallel()
	b := at(t, shopify.Provider, webhook.Settings{}, func(_ *ingress.Config, s *ingress.Source) {
		s.Relays, s.Written = true, func(eventType string) bool { return eventType == "orders/fulfilled" }
	})
	for i, c := range []struct {
		topic, order, test string
		status             int
	}{
		{"orders/create", "sample", "true", http.StatusAccepted},
		{"orders/create", "sample", "true", http.StatusOK},
		{"orders/create", "sample", "true", http.StatusOK},
		{"orders/paid", "sample", "true", http.StatusAccepted},
		{"orders/paid", "sample", "true", http.StatusOK},
		{"orders/fulfilled", "other sample", "true", http.StatusAccepted},
		{"orders/fulfilled", "other sample", "true", http.StatusOK},
		{"orders/fulfilled", "real", "false", http.StatusAccepted},
		{"orders/fulfilled", "real", "true", http.StatusAccepted}, // parked
	} {
		out, err := shopify.Provider.Sign(webhook.SignInput{Secret: providerSecret, ID: fmt.Sprint("w", i), Type: c.topic,
			Account: "acme.myshopify.com", Body: fmt.Appendf(nil, `{"id":820982911946154508,"name":%q}`, c.order)})
		if err != nil {
			t.Fatal(err)
		}
		r := request(t, http.MethodPost, b.url+"/hooks/shop", bytes.NewReader(out.Body))
		r.Header = out.Header
		r.Header.Set("X-Shopify-Event-Id", fmt.Sprint("e", i))
		r.Header.Set("X-Shopify-Test", c.test)
		if got := do(t, r); got.status != c.status {
			t.Errorf("delivery %d of %s: got %d %s, want %d", i, c.topic, got.status, got.body, c.status)
		}
	}
	rows, err := b.pool.Query(t.Context(), `select concat_ws(' ', type, status, replayed, duplicates) from receipts order by received_at`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	want := []string{"orders/create received f 2", "orders/paid received t 1", "orders/fulfilled received f 1", "orders/fulfilled received f 0",
		"orders/fulfilled needs_review t 0"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("receipts %q, %v; want %q", got, err, want)
	}
	if len(b.handed) != 4 {
		t.Errorf("%d events are handed over, want 4: %+v", len(b.handed), b.handed)
	}
}
