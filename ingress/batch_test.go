package ingress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/adyen"
	"github.com/pawlhq/pawl/ingress/meta"
	"github.com/pawlhq/pawl/ingress/sendgrid"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/schematest"
)

// A delivery with many events is one transaction with one receipt each. If the provider retries the events in
// deliveries of other sizes, each event is still a duplicate.
func TestBatch_RecutBatches_DedupePerItem(t *testing.T) {
	t.Parallel()
	keys, err := sendgrid.Provider.Sample.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		provider webhook.Provider
		settings webhook.Settings
		secret   string
		item     func(i int) string
		join     func(items []string) string
	}{
		"sendgrid": {
			sendgrid.Provider, webhook.Settings{Secrets: []webhook.Secret{{Label: "main", Value: keys.Verify}}}, keys.Sign,
			func(i int) string {
				return fmt.Sprintf(`{"email":"a@example.com","event":"delivered","sg_event_id":"sg-%d","sg_message_id":"m-%[1]d","timestamp":1772366400}`, i)
			},
			func(items []string) string { return "[" + strings.Join(items, ",\r\n") + "]\r\n" },
		},
		"adyen": {
			adyen.Provider, webhook.Settings{Secrets: []webhook.Secret{{Label: "main", Value: strings.Repeat("00112233445566778899aabbccddeeff", 2)}}}, strings.Repeat("00112233445566778899aabbccddeeff", 2),
			func(i int) string {
				return fmt.Sprintf(`{"NotificationRequestItem":{"additionalData":{},"amount":{"currency":"EUR","value":%d},"eventCode":"AUTHORISATION","eventDate":"2026-03-01T12:00:00+01:00","merchantAccountCode":"Shop","merchantReference":"r-%[1]d","pspReference":"psp-%[1]d","success":"true"}}`, i)
			},
			func(items []string) string {
				return `{"live":"true","notificationItems":[` + strings.Join(items, ",") + `]}`
			},
		},
		"meta": {
			meta.Provider, webhook.Settings{}, "",
			func(i int) string { return fmt.Sprintf(`{"field":"feed","value":{"post_id":"%d"}}`, i) },
			func(items []string) string {
				return `{"object":"page","entry":[{"id":"1","time":1772366400,"changes":[` + strings.Join(items, ",") + `]}]}`
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := at(t, c.provider, c.settings)
			send := func(items ...int) reply {
				t.Helper()
				var texts []string
				for _, i := range items {
					texts = append(texts, c.item(i))
				}
				return b.send(t, c.provider, webhook.SignInput{Secret: c.secret, Body: []byte(c.join(texts))})
			}
			for _, step := range []struct {
				items                        []int
				status, receipts, duplicates int
				transactions                 int
			}{
				{[]int{1, 2, 3, 4, 5}, http.StatusAccepted, 5, 0, 1},
				// a retry in a delivery of another size, with one more event
				{[]int{4, 5, 6}, http.StatusAccepted, 6, 2, 2},
				{[]int{1}, http.StatusOK, 6, 3, 2},
				{[]int{7, 7, 8}, http.StatusAccepted, 8, 4, 3}, // one event occurs twice in a delivery
			} {
				if got := send(step.items...); got.status != step.status {
					t.Errorf("%v: got %d %s, want %d", step.items, got.status, got.body, step.status)
				}
				if n := b.count(t, `select count(*) from receipts`); n != step.receipts {
					t.Errorf("%v: %d receipts, want %d", step.items, n, step.receipts)
				}
				if n := b.count(t, `select sum(duplicates) from receipts`); n != step.duplicates {
					t.Errorf("%v: %d duplicates, want %d", step.items, n, step.duplicates)
				}
				// Bodies are never updated, so their xmin is the transaction that inserted them.
				if n := b.count(t, `select count(distinct xmin::text) from receipt_bodies`); n != step.transactions {
					t.Errorf("%v: written in %d transactions, want %d", step.items, n, step.transactions)
				}
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.handed) != 8 {
				t.Errorf("handed over %d, want each of 8 once", len(b.handed))
			}
		})
	}
}

// A batch that is too large for one transaction is accepted within the server's real deadlines. A delivery with more
// events than any provider sends is stored as one event and parked.
func TestBatch_Huge_TakenOrParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events, receipts, reviewed int
	}{"taken": {10_000, 10_000, 0}, "parked": {20_001, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startWith(t, schematest.New(t), receipt.Options{}, ingress.Limits{})
			var items []string
			for i := range c.events {
				items = append(items, fmt.Sprintf(`{"id":"%d"}`, i))
			}
			body := "[" + strings.Join(items, ",") + "]"
			if got := b.post(t, body); got.status != http.StatusAccepted {
				t.Fatalf("got %d %s, want 202", got.status, got.body)
			}
			if n := b.count(t, `select count(*) from receipts`); n != c.receipts {
				t.Errorf("%d receipts, want %d", n, c.receipts)
			}
			if n := b.count(t, `select count(*) from receipts where status = 'needs_review' and reason_code = 'too_many_events'`); n != c.reviewed {
				t.Errorf("%d wait for a person, want %d", n, c.reviewed)
			}
			if got := b.post(t, body); got.status != http.StatusOK {
				t.Errorf("sent again: got %d %s, want 200", got.status, got.body)
			}
			if n := b.count(t, `select coalesce(sum(duplicates), 0) from receipts`); n != c.receipts {
				t.Errorf("sent again: %d duplicates are counted, want %d", n, c.receipts)
			}
		})
	}
}
