package ingress_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/gethook"
	hmacscheme "github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/zendesk"
)

// Whoever holds an authentic delivery may send it again with everything changed that its signature does not cover,
// and what it covers cut otherwise. The event has run, and none runs again.
func TestDeliver_CapturedAndChanged_RunsOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider webhook.Provider
		settings webhook.Settings
		query    string
		in       webhook.SignInput
		// change turns the captured delivery into the one that is sent after it.
		change func(out *webhook.SignOutput)
	}{
		"gethook, without the header of its ID": {
			provider: gethook.Provider, settings: webhook.Settings{Options: map[string]string{gethook.IDHeaderOption: "X-Webhook-Id"}},
			in:     webhook.SignInput{ID: "wh_1", Body: []byte(`{"id":"evt_1","event_type":"paid"}`)},
			change: func(out *webhook.SignOutput) { out.Header.Del("X-Webhook-Id") },
		},
		"hmac, for another account": {
			provider: hmacscheme.Provider, settings: webhook.Settings{Options: map[string]string{"header": "X-Sig", "id": "/id", "account": "header:X-Account"}},
			in:     webhook.SignInput{Account: "a", Body: []byte(`{"id":"1"}`)},
			change: func(out *webhook.SignOutput) { out.Header.Set("X-Account", "b") },
		},
		"hmac, without its account": {
			provider: hmacscheme.Provider, settings: webhook.Settings{Options: map[string]string{"header": "X-Sig", "id": "/id", "account": "header:X-Account"}},
			in:     webhook.SignInput{Account: "a", Body: []byte(`{"id":"1"}`)},
			change: func(out *webhook.SignOutput) { out.Header.Del("X-Account") },
		},
		"zendesk, for another account": {
			provider: zendesk.Provider,
			in:       webhook.SignInput{Account: "1", Body: []byte(`{"id":"01H","type":"zen:event-type:user.created"}`)},
			change:   func(out *webhook.SignOutput) { out.Header.Set("X-Zendesk-Account-Id", "2") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := at(t, c.provider, c.settings)
			in := c.in
			in.At, in.URL, in.Options = time.Now(), "https://pawl.example/hooks/shop"+c.query, c.settings.Options
			if in.Secret == "" {
				in.Secret = providerSecret
			}
			send := func(out webhook.SignOutput) reply {
				t.Helper()
				_, query, _ := strings.Cut(out.URL, "?")
				r := request(t, http.MethodPost, b.url+"/hooks/shop?"+query, bytes.NewReader(out.Body))
				r.Header = out.Header
				return do(t, r)
			}
			signed := func() webhook.SignOutput {
				t.Helper()
				out, err := c.provider.Sign(in)
				if err != nil {
					t.Fatal(err)
				}
				if got := send(out); got.status/100 != 2 {
					t.Fatalf("the delivery: got %d %s", got.status, got.body)
				}
				return out
			}
			out := signed()
			c.change(&out)
			send(out)
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.handed) != 1 {
				t.Errorf("handed over %+v, want the event once", b.handed)
			}
		})
	}
}
