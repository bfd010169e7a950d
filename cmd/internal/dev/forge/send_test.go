package forge_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// A registered URL may have a query. If the scheme signs the URL, the receiver verifies the query that it received.
func TestRequest_RegisteredQuery_IsSent(t *testing.T) {
	t.Parallel()
	const registered = "https://shop.example/in?tenant=a&note=It%27s"
	settings := webhook.Settings{Source: "s", URL: registered, Secrets: []webhook.Secret{{Label: "a", Value: "0123456789abcdef01234567"}}}
	verifier, err := twilio.Provider.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	e, err := forge.New(forge.Params{Provider: twilio.Provider, At: at}, "")
	if err != nil || e.ContentType != "application/x-www-form-urlencoded" {
		t.Fatal(err)
	}
	for _, to := range []string{"http://127.0.0.1:1/hooks/s", "http://127.0.0.1:1/hooks/s?x=1"} {
		target := forge.Target{URL: to, SignedURL: registered, Secret: settings.Secrets[0].Value, Sign: twilio.Provider.Sign}
		if _, err := verifier.Verify(received(t, target, e)); err != nil {
			t.Errorf("sent to %s: %v", to, err)
		}
	}
}

// A JSON body from Twilio is an event of Event Streams and not a form: the URL contains its hash.
func TestRequest_TwilioJSON_IsEventStreams(t *testing.T) {
	t.Parallel()
	e, err := forge.New(forge.Params{Provider: twilio.Provider, At: at}, `{"specversion": "1.0", "id": "EZ1", "type": "com.twilio.test", "data": {}}`)
	if err != nil {
		t.Fatal(err)
	}
	settings := webhook.Settings{Source: "s", URL: "https://shop.example/in", Secrets: []webhook.Secret{{Label: "a", Value: "0123456789abcdef01234567"}}}
	verifier, err := twilio.Provider.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	target := forge.Target{URL: "http://127.0.0.1:1/hooks/s", SignedURL: settings.URL, Secret: settings.Secrets[0].Value, Sign: twilio.Provider.Sign}
	r := received(t, target, e)
	if _, err := verifier.Verify(r); err != nil {
		t.Fatal(err)
	}
	if got := verifier.Events(r); r.Header.Get("Content-Type") != "application/json" || len(got) != 1 || got[0].ID != "EZ1" || got[0].Type != "com.twilio.test" {
		t.Errorf("content type %q, events %+v; want the event in the body", r.Header.Get("Content-Type"), got)
	}
}

// received returns the request that the receiver of e gets at its registered URL.
func received(t *testing.T, target forge.Target, e forge.Event) *webhook.Request {
	t.Helper()
	req, err := target.Request(t.Context(), e, at)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://shop.example/in"
	if req.URL.RawQuery != "" {
		url += "?" + req.URL.RawQuery
	}
	return &webhook.Request{Method: http.MethodPost, URL: url, Header: req.Header, Body: body, ReceivedAt: at}
}
