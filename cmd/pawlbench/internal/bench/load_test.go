package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// The verifier accepts the generated requests. They have about the stated size, and each contains another event.
func TestOffer_SignedDistinctEvents(t *testing.T) {
	t.Parallel()
	const secret = "whsec_0123456789abcdef0123456789abcdef"
	verifier, err := stripe.Provider.New(webhook.Settings{Secrets: []webhook.Secret{{Label: "s", Value: secret}}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ids := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in := &webhook.Request{Method: r.Method, Header: r.Header, Body: body, ReceivedAt: time.Now()}
		if _, err := verifier.Verify(in); err != nil || len(body) < 1100 || len(body) > 1300 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		events := verifier.Events(in)
		if len(events) != 1 || events[0].Problem != "" || events[0].Type != "invoice.paid" {
			t.Errorf("events %+v", events)
		}
		mu.Lock()
		ids[events[0].ID]++
		mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"received":true}`)
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")

	if _, err := offer(t.Context(), addr, secret, 3, false, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if len(ids) < 6 {
		t.Errorf("%d events, want two of each connection at least", len(ids))
	}
	for id, n := range ids {
		if n != 1 || len(id) != eventIDLength {
			t.Errorf("%s came %d times, want once", id, n)
		}
	}
	clear(ids)
	mu.Unlock()
	if _, err := offer(t.Context(), addr, secret, 1, true, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var deliveries int
	for _, n := range ids {
		deliveries += n
	}
	if half := deliveries / 2; len(ids) < half || len(ids) > half+1 {
		t.Errorf("%d events in %d deliveries, want half", len(ids), deliveries)
	}
	clear(ids)
	got, err := offerRate(t.Context(), addr, secret, 50, time.Second, false)
	if err != nil || len(ids) < 45 || len(ids) > 51 || got.P50 <= 0 || got.P99 < got.P50 {
		t.Errorf("50 a second for a second: %d events, %+v, %v", len(ids), got, err)
	}
}

// A response other than 2xx does not count as a fast response: a 503 is counted separately, and any other status ends
// the run.
func TestOffer_NotTaken_NotCounted(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	status.Store(http.StatusServiceUnavailable)
	got, err := offer(t.Context(), addr, "s", 2, false, 20*time.Millisecond)
	if err != nil || got.RPS != 0 || got.shed == 0 {
		t.Errorf("503: got %+v, %v; want all of them shed", got, err)
	}
	status.Store(http.StatusUnauthorized)
	if _, err = offer(t.Context(), addr, "s", 2, false, time.Minute); err == nil || !strings.Contains(err.Error(), "answered 401") {
		t.Errorf("401: got %v, want the status", err)
	}
	if got, err := offerRate(t.Context(), addr, "s", 50, time.Second, true); err != nil || got.RPS < 45 {
		t.Errorf("forgeries that are refused: got %+v, %v; want all of them counted", got, err)
	}
	status.Store(http.StatusAccepted)
	if _, err := offerRate(t.Context(), addr, "s", 50, time.Second, true); err == nil || !strings.Contains(err.Error(), "answered 202") {
		t.Errorf("a forgery that is taken: got %v, want the status", err)
	}
}
