package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/ledger"
)

const testKey = "rk_test_4f1d"

// server simulates Stripe's API and records the requests.
type server struct {
	mu   sync.Mutex
	seen []*http.Request
	*httptest.Server
}

func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func newServer(t *testing.T, answer http.HandlerFunc) (*server, *Client) {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := NewClient(testKey, s.URL, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func reply(t *testing.T, w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

func TestClient_Subscription_FactOfTheAnswersTime(t *testing.T) {
	t.Parallel()
	event := subscriptionEvent(t, before, "customer.subscription.updated")
	s, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", at(occurred+9).Format(http.TimeFormat))
		reply(t, w, objectOf(event))
	})
	fetched, err := c.Object(t.Context(), "subscription", "sub_1", "")
	if err != nil {
		t.Fatal(err)
	}
	// Stripe may have read the state up to a second before the response, so the fact has the earlier second.
	subject := subjectOf(event)
	facts, err := fetched.Facts(subject)
	if err != nil || len(facts) != 1 {
		t.Fatalf("%v, %v", facts, err)
	}
	want := read(t, event)
	want.OccurredAt, want.Rank, want.Origin = at(occurred+8), fact.RankFetched, fact.FromFetch
	same(t, facts[0], want)

	r := s.requests()[0]
	for name, want := range map[string]string{
		"Authorization": "Bearer " + testKey, "Stripe-Version": Version, "Stripe-Account": "", "X-Stripe-Client-User-Agent": "{}", "X-Stripe-Client-Telemetry": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Method != http.MethodGet || r.RequestURI != "/v1/subscriptions/sub_1" {
		t.Errorf("%s %s", r.Method, r.RequestURI)
	}
}

func TestClient_ConnectedAccount_PassedOn(t *testing.T) {
	t.Parallel()
	s, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) { reply(t, w, document{}) })
	if _, err := c.Object(t.Context(), "subscription", "../sub?x", "acct_9"); err != nil {
		t.Fatal(err)
	}
	if r := s.requests()[0]; r.Header.Get("Stripe-Account") != "acct_9" || r.RequestURI != "/v1/subscriptions/..%2Fsub%3Fx" {
		t.Errorf("%s for %q", r.RequestURI, r.Header.Get("Stripe-Account"))
	}
}

// lineServer returns an invoice of n lines: ten with the invoice and the rest in pages.
func lineServer(t *testing.T, n int) (*server, *Client) {
	t.Helper()
	lines := make([]any, n)
	for i := range lines {
		l := sold{kind: standalone, price: fmt.Sprintf("price_%d", i), amount: i, start: periodStart, end: periodEnd}.document(before)
		l["id"] = fmt.Sprintf("il_%d", i)
		lines[i] = l
	}
	invoice := objectOf(invoiceEvent(t, before, "invoice.paid"))
	return newServer(t, func(w http.ResponseWriter, r *http.Request) {
		from, limit := 0, 10
		if strings.HasSuffix(r.URL.Path, "/lines") {
			if r.FormValue("limit") != "100" {
				t.Errorf("a page of %q", r.FormValue("limit"))
			}
			limit = 100
			if after := r.FormValue("starting_after"); after != "" {
				last, err := strconv.Atoi(strings.TrimPrefix(after, "il_"))
				if err != nil {
					t.Error(err)
				}
				from = last + 1
			}
		}
		to := min(from+limit, n)
		list := document{"object": "list", "data": lines[from:to], "has_more": to < n}
		if limit == 100 {
			reply(t, w, list)
			return
		}
		answer := maps.Clone(invoice)
		answer["lines"] = list
		reply(t, w, answer)
	})
}

// If an object is fetched late and contains the time of its last change, its facts have that time.
func TestFetched_Facts_ObjectsOwnTime(t *testing.T) {
	t.Parallel()
	const own, told, fetched = occurred, occurred + 60, occurred + 9*86400
	paid := document{"paid_at": own}
	for name, tt := range map[string]struct {
		object    document
		eventType string
		want      int64
	}{
		"subscription that ended":   {document{"object": "subscription", "status": "canceled", "ended_at": own}, "", own},
		"subscription that goes on": {document{"object": "subscription", "status": "active", "ended_at": nil}, "", fetched},
		"paid invoice":              {document{"object": "invoice", "status": "paid", "status_transitions": paid}, "invoice.paid", own},
		"open invoice":              {document{"object": "invoice", "status": "open", "status_transitions": document{"paid_at": nil}}, "", fetched},
		"void invoice":              {document{"object": "invoice", "status": "void", "status_transitions": document{"voided_at": own}}, "", own},
		"payment of an invoice":     {document{"object": "invoice_payment", "status": "paid", "status_transitions": paid}, "", own},
		"refund that succeeded":     {document{"object": "refund", "status": "succeeded", "created": own}, "", own},
		"refund that failed":        {document{"object": "refund", "status": "failed", "created": own}, "", fetched},
		"paid session":              {document{"object": "checkout.session", "payment_status": "paid"}, "checkout.session.completed", told},
		"session paid later":        {document{"object": "checkout.session", "payment_status": "unpaid"}, "checkout.session.completed", fetched},
		"payment that succeeded":    {document{"object": "payment_intent", "status": "succeeded", "created": own}, "payment_intent.succeeded", told},
		"time after the answer":     {document{"object": "subscription", "status": "canceled", "ended_at": fetched + 1}, "", fetched},
	} {
		body, err := json.Marshal(tt.object)
		if err != nil {
			t.Fatal(err)
		}
		at := Fetched{Body: body, At: at(fetched)}.at(fact.Subject{EventType: tt.eventType, OccurredAt: at(told)})
		if at.Unix() != tt.want {
			t.Errorf("%s: at %d, want %d", name, at.Unix(), tt.want)
		}
	}
}

func TestClient_Invoice_AllLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lines, requests, read int
		partial               bool
	}{{10, 1, 10, false}, {11, 2, 11, false}, {100, 2, 100, false}, {250, 4, 250, false}, {500, 6, 500, false}, {501, 6, 500, true}, {900, 6, 500, true}} {
		t.Run(fmt.Sprint(tt.lines), func(t *testing.T) {
			t.Parallel()
			s, c := lineServer(t, tt.lines)
			fetched, err := c.Object(t.Context(), "invoice", "in_1", "acct_9")
			if err != nil {
				t.Fatal(err)
			}
			facts, err := fetched.Facts(fact.Subject{Provider: "stripe", Mode: "live"})
			if err != nil || len(facts) != 1 {
				t.Fatalf("%v, %v", facts, err)
			}
			var amounts, want []int64
			for i, l := range facts[0].Invoice.Lines {
				amounts, want = append(amounts, l.Amount), append(want, int64(i))
			}
			if len(amounts) != tt.read || !reflect.DeepEqual(amounts, want) || facts[0].Invoice.Partial != tt.partial {
				t.Errorf("%d lines, partial %t: %v", len(amounts), facts[0].Invoice.Partial, amounts)
			}
			if got := s.requests(); len(got) != tt.requests {
				t.Errorf("%d requests, want %d", len(got), tt.requests)
			}
			for _, r := range s.requests() {
				if r.Header.Get("Stripe-Account") != "acct_9" {
					t.Errorf("%s without its account", r.RequestURI)
				}
			}
		})
	}
}

// pawl fetches a subscription with all of its items, and a one-off session with its lines, which events never
// contain.
func TestClient_Lists_Whole(t *testing.T) {
	t.Parallel()
	items := make([]any, 12)
	for i := range items {
		items[i] = document{"id": fmt.Sprintf("si_%02d", i), "object": "subscription_item", "quantity": i + 1, "price": document{"id": fmt.Sprint("price_", i)}}
	}
	subscription := maps.Clone(objectOf(subscriptionEvent(t, basil, "customer.subscription.updated")))
	subscription["items"] = document{"object": "list", "data": items[:10], "has_more": true}
	session := maps.Clone(objectOf(checkoutEvent(t, basil, "checkout.session.completed")))
	set(session, document{"mode": "payment", "payment_status": "paid", "status": "complete"})
	_, c := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/subscriptions/sub_1":
			reply(t, w, subscription)
		case r.URL.Path == "/v1/subscription_items" && r.FormValue("subscription") == "sub_1":
			reply(t, w, document{"object": "list", "data": items, "has_more": false})
		case r.URL.Path == "/v1/checkout/sessions/cs_1":
			reply(t, w, session)
		case r.URL.Path == "/v1/checkout/sessions/cs_1/line_items":
			reply(t, w, document{"object": "list", "data": []any{document{"id": "li_1", "quantity": 3, "amount_total": 900, "price": document{"id": "price_days"}}}, "has_more": false})
		default:
			t.Errorf("request for %s", r.RequestURI)
		}
	})
	read := func(object, id string) fact.Fact {
		t.Helper()
		found, err := c.Object(t.Context(), object, id, "")
		if err != nil {
			t.Fatal(err)
		}
		facts, err := found.Facts(fact.Subject{Provider: "stripe", Mode: "live"})
		if err != nil || len(facts) == 0 {
			t.Fatalf("%v, %v", facts, err)
		}
		return facts[0]
	}
	if s := read("subscription", "sub_1").Subscription; len(s.Items) != 12 || s.Partial {
		t.Errorf("%d items, partial: %t", len(s.Items), s.Partial)
	}
	if lines := read("checkout.session", "cs_1").Checkout.Lines; len(lines) != 1 || lines[0].Quantity != 3 || lines[0].Price != "price_days" {
		t.Errorf("lines of the session: %+v", lines)
	}
}

// An event with only the first items of a subscription can be parsed.
func TestRead_FirstItemsOnly_Partial(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		event := subscriptionEvent(t, version, "customer.subscription.updated")
		list := objectOf(event)["items"].(map[string]any)
		list["has_more"] = true
		if got := read(t, event); !got.Subscription.Partial || !got.LacksItems() || len(got.Subscription.Items) == 0 {
			t.Errorf("%s: %+v", version, got.Subscription)
		}
	})
}

func TestClient_Failures_Classified(t *testing.T) {
	t.Parallel()
	const canary = "ada@example.com"
	for name, tt := range map[string]struct {
		status int
		body   string
		header string // Retry-After
		class  ledger.Class
		after  time.Duration
	}{
		"too many":              {429, `{"error":{"code":"rate_limit","message":"` + canary + `","type":"invalid_request_error"}}`, "7", ledger.Transient, 7 * time.Second},
		"of their own":          {500, `{"error":{"message":"` + canary + `","type":"api_error"}}`, "", ledger.Transient, 0},
		"a gateway's":           {502, `<html>` + canary, "", ledger.Transient, 0},
		"conflict":              {409, `{"error":{"code":"lock_timeout"}}`, "", ledger.Transient, 0},
		"wrong key":             {401, `{"error":{"message":"Invalid API Key provided: ` + testKey + `"}}`, "", ledger.Fault, 0},
		"may not":               {403, `{"error":{"code":"more_permissions_required"}}`, "", ledger.Fault, 0},
		"not Stripe's 404":      {404, `<html>` + canary, "", ledger.Fault, 0},
		"elsewhere":             {302, ``, "", ledger.Fault, 0},
		"no JSON":               {200, `<html>` + canary, "", ledger.Transient, 0},
		"too large":             {200, `{"a":"` + strings.Repeat("a", mostAnswer) + `"}`, "", ledger.Transient, 0},
		"nothing":               {200, ``, "", ledger.Transient, 0},
		"no Retry-After number": {503, `{}`, "soon", ledger.Transient, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				if tt.header != "" {
					w.Header().Set("Retry-After", tt.header)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body)) // the client may already have closed the connection
			})
			fetched, err := c.Object(t.Context(), "subscription", "sub_1", "")
			class, after := effect.Classify(err)
			var failure *effect.Failure
			if !errors.As(err, &failure) || class != tt.class || after != tt.after || fetched.Body != nil {
				t.Errorf("%v (%s after %s), want %s after %s", err, class, after, tt.class, tt.after)
			}
			if err != nil && (strings.Contains(failure.Err.Error(), canary) || strings.Contains(err.Error(), testKey)) {
				t.Errorf("the error contains too much: %v", err)
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("%d requests; trying again is for the caller", n)
			}
		})
	}
}

// If Stripe rejects a key, the reason describes the fix.
func TestClient_KeyRefused_KeyNamed(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{http.StatusUnauthorized: "answered 401: the source's api_key is not valid", http.StatusForbidden: "answered 403: the source's api_key may not read this"} {
		_, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if _, err := c.Object(t.Context(), "subscription", "sub_1", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestClient_Missing_ErrNotFound(t *testing.T) {
	t.Parallel()
	_, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		reply(t, w, document{"error": document{"code": "resource_missing", "message": "No such subscription: 'sub_1'", "type": "invalid_request_error"}})
	})
	if _, err := c.Object(t.Context(), "subscription", "sub_1", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestClient_NoAnswer_Transient(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}, 1), make(chan struct{})
	s, c := newServer(t, func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-release })
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Object(ctx, "subscription", "sub_1", "")
		ended <- err
	}()
	<-began
	s.CloseClientConnections()
	if class, _ := effect.Classify(<-ended); class != ledger.Transient {
		t.Errorf("a connection that broke: %s", class)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	_, err := c.Object(late, "subscription", "sub_1", "")
	if class, _ := effect.Classify(err); class != ledger.Transient || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("after the time: %s, %v", class, err)
	}
}

func TestNewClient_NoURL_Refused(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"stripe", "https://", "\x00"} {
		if _, err := NewClient(testKey, base, http.DefaultClient); err == nil || strings.Contains(err.Error(), testKey) {
			t.Errorf("%q: %v", base, err)
		}
	}
	c, err := NewClient(testKey, "", http.DefaultClient)
	if err != nil || c.host != "api.stripe.com" {
		t.Errorf("%v, %v", c, err)
	}
}

func TestClient_InvoicePayment_OfItsOwnVersion(t *testing.T) {
	t.Parallel()
	for _, paid := range []bool{true, false} {
		s, c := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			data := []any{}
			if paid {
				data = append(data, document{
					"id": "inpay_1", "object": "invoice_payment", "invoice": "in_1", "status": "paid", "currency": "usd", "amount_paid": 4900, "amount_requested": 4900,
					"payment": document{"type": "payment_intent", "payment_intent": "pi_1"},
				})
			}
			reply(t, w, document{"object": "list", "data": data, "has_more": false})
		})
		fetched, err := c.InvoicePayment(t.Context(), "pi_1", "acct_9")
		if !paid {
			if !errors.Is(err, ErrNoPayment) {
				t.Errorf("a payment of no invoice: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		facts, err := fetched.Facts(fact.Subject{Provider: "stripe", Mode: "live"})
		if err != nil || len(facts) != 1 || facts[0].Object != "pi_1" || facts[0].Payment.Invoice != "in_1" || facts[0].Origin != fact.FromFetch {
			t.Errorf("facts %+v, %v", facts, err)
		}
		r := s.requests()[0]
		if r.Header.Get("Stripe-Version") != Version || r.Header.Get("Stripe-Account") != "acct_9" || r.URL.Path != "/v1/invoice_payments" ||
			r.FormValue("payment[type]") != "payment_intent" || r.FormValue("payment[payment_intent]") != "pi_1" {
			t.Errorf("asked %s in %s", r.RequestURI, r.Header.Get("Stripe-Version"))
		}
	}
}
