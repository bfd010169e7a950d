package ingress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/adyen"
	hmacscheme "github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/sendgrid"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// A delivery with many events is one transaction with a receipt each; a provider that retries it cuts
// it differently, and each item is still known.
func TestBatch_RecutBatches_DedupePerItem(t *testing.T) {
	t.Parallel()
	public, private, err := sendgrid.NewKeys()
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
			sendgrid.Provider, webhook.Settings{Secrets: []webhook.Secret{{Label: "main", Value: public}}}, private,
			func(i int) string {
				return fmt.Sprintf(`{"email":"a@example.com","event":"delivered","sg_event_id":"sg-%d","sg_message_id":"m-%[1]d","timestamp":1772366400}`, i)
			},
			func(items []string) string { return "[" + strings.Join(items, ",\r\n") + "]\r\n" },
		},
		"adyen": {
			adyen.Provider, webhook.Settings{Secrets: []webhook.Secret{{Label: "main", Value: strings.Repeat("0a", 32)}}}, strings.Repeat("0a", 32),
			func(i int) string {
				return fmt.Sprintf(`{"NotificationRequestItem":{"additionalData":{},"amount":{"currency":"EUR","value":%d},"eventCode":"AUTHORISATION","eventDate":"2026-03-01T12:00:00+01:00","merchantAccountCode":"Shop","merchantReference":"r-%[1]d","pspReference":"psp-%[1]d","success":"true"}}`, i)
			},
			func(items []string) string {
				return `{"live":"true","notificationItems":[` + strings.Join(items, ",") + `]}`
			},
		},
		"meta": {
			hmacscheme.Meta, webhook.Settings{}, "",
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
				{[]int{4, 5, 6}, http.StatusAccepted, 6, 2, 2}, // cut differently, with one more
				{[]int{1}, http.StatusOK, 6, 3, 2},
				{[]int{7, 7, 8}, http.StatusAccepted, 8, 4, 3}, // one item twice in a batch
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
				// Bodies are never updated, so their xmin still names the transaction that wrote them.
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
