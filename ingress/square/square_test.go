package square_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/square"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "Ibxx_5AKakO-3qeNVR61Dw"
	secretB = "MCmhFRxGX82xMwg5FsaoQA"
	url     = "https://hooks.example.com/hooks/square"
	body    = `{"merchant_id":"M1", "type":"payment.updated","event_id":"ev-1",` +
		`"created_at":"2022-07-13T20:30:59.037339943Z","data":{"type":"payment","id":"pay_1"}}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: square.Provider,
		Settings: webhook.Settings{URL: url},
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{Body: []byte(body)},
		Want: webhook.Event{
			ID: "ev-1", IDOrigin: webhook.FromBody, Type: "payment.updated", Account: "M1", Object: "pay_1",
			OccurredAt: time.Date(2022, 7, 13, 20, 30, 59, 37_339_943, time.UTC),
		},
		Headers:   []string{"X-Square-Hmacsha256-Signature"},
		Signature: "X-Square-Hmacsha256-Signature",
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, square.Provider, nil)
}

func setup(t testing.TB, registered string) webhook.Verifier {
	t.Helper()
	v, err := square.Provider.New(webhook.Settings{Source: "s", URL: registered, Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB) *webhook.Request {
	t.Helper()
	out, err := square.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, URL: url, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{URL: out.URL, Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_URLExactlyAsRegistered(t *testing.T) {
	t.Parallel()
	r := signed(t)
	for registered, want := range map[string]bool{
		url:          true,
		url + "/":    false,
		url + "?a=1": false,
		"https://hooks.example.com:443/hooks/square": false,
		"http://hooks.example.com/hooks/square":      false,
	} {
		if _, err := setup(t, registered).Verify(r); (err == nil) != want {
			t.Errorf("registered as %s: got %v, want admitted=%t", registered, err, want)
		}
	}
}

func TestNew_NoURL_Refused(t *testing.T) {
	t.Parallel()
	_, err := square.Provider.New(webhook.Settings{Source: "shop", Secrets: []webhook.Secret{{Label: "a", Value: "short"}}})
	if err == nil {
		t.Fatal("New: no error")
	}
	for _, want := range []string{"shop", "url", "secrets[0]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New: %q does not name %s", err, want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f, url), signed(f), "X-Square-Hmacsha256-Signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, url), signed(f))
}
