package ingress_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress"
)

// The log has one line for each new event, one line for all its duplicates, and one line for all rejections of a
// class, with the claimed ID of the first. No line contains a body.
func TestLog_OneLineForEachChange(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := setup(t, func(c *ingress.Config, s *ingress.Source) {
		c.Log, s.Correlation = slog.New(slog.NewJSONHandler(&log, nil)), ingress.Correlation{Header: "X-Order"}
	})
	body := `{"id":"evt_1","type":"invoice.paid","name":"Ada Lovelace"}`
	for range 3 {
		b.post(t, body, "X-Order", "order-7")
	}
	for range 4 {
		refused := do(t, request(t, http.MethodPost, b.url+"/hooks/shop",
			strings.NewReader(`{"id":"evt_forged","type":"charge.refunded"}`), "X-Sig", "00"))
		if refused.status != http.StatusUnauthorized {
			t.Fatalf("got %d, want 401", refused.status)
		}
	}
	if err := b.srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "Ada") {
		t.Errorf("the log contains a part of the body:\n%s", &log)
	}
	got := map[string][]map[string]any{}
	for line := range strings.Lines(log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		message := entry["msg"].(string)
		got[message] = append(got[message], entry)
	}
	only := func(message string, want map[string]any) {
		t.Helper()
		if len(got[message]) != 1 {
			t.Fatalf("%d lines %q, want one:\n%s", len(got[message]), message, &log)
		}
		for key, value := range want {
			if have := got[message][0][key]; have != value {
				t.Errorf("%s: %s is %v, want %v", message, key, have, value)
			}
		}
	}
	only("event received", map[string]any{"source": "shop", "provider": "acme", "event_id": "evt_1",
		"type": "invoice.paid", "status": "received", "correlation_id": "order-7"})
	only("duplicates received", map[string]any{"event_id": "evt_1", "count": 2.0})
	only("deliveries refused", map[string]any{"class": "no_matching_signature", "count": 4.0,
		"claimed_event_id": "evt_forged", "claimed_type": "charge.refunded"})
	if id := b.only(t, "evt_1").CorrelationID; id != "order-7" {
		t.Errorf("the receipt has the correlation %q", id)
	}
}
