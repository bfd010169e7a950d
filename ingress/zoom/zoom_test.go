package zoom_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
	"github.com/pawlhq/pawl/ingress/zoom"
)

const (
	secretA = "0123456789abcdef0123456789abcdef0123456789abcdef"
	secretB = "fedcba9876543210fedcba9876543210fedcba9876543210"
	body    = `{"event":"meeting.started", "event_ts":1772366398000,"payload":{"account_id":"A","object":{"id":"111"}}}`
)

var at = time.Unix(1_772_366_400, 0)

func setup(t testing.TB, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := zoom.Provider.New(webhook.Settings{Source: "s", Options: options, Secrets: []webhook.Secret{
		{Label: "a", Value: secretB}, {Label: "b", Value: secretA},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, body string) *webhook.Request {
	t.Helper()
	out, err := zoom.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider:  zoom.Provider,
		Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:     webhook.SignInput{Body: []byte(body)},
		Want:      webhook.Event{IDOrigin: webhook.FromHash, Type: "meeting.started", Account: "A", Object: "111", OccurredAt: time.Unix(1772366398, 0)},
		Headers:   []string{"x-zm-signature", "x-zm-request-timestamp"},
		Signature: "x-zm-signature",
	})
}

func TestURLValidation(t *testing.T) {
	t.Parallel()
	v := setup(t, nil)
	r := signed(t, `{"event":"endpoint.url_validation","event_ts":1772366398000,"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}`)
	if m, err := v.Verify(r); err != nil || m.Secret != "b" {
		t.Fatalf("Verify: got %+v, %v", m, err)
	}
	answer, ok := v.(webhook.Answerer).Answer(r)
	if !ok || answer.Status != http.StatusOK || answer.ContentType != "application/json" {
		t.Fatalf("Answer: got %+v, %t", answer, ok)
	}
	var got struct{ PlainToken, EncryptedToken string }
	if err := json.Unmarshal(answer.Body, &got); err != nil {
		t.Fatal(err)
	}
	// printf qgg8vlvZRS6UYooatFL8Aw | openssl dgst -sha256 -hmac $secretA
	const encrypted = "8ae653dafe8a1eacbe6dbc5efa6f511426852402e9517a766dc8cae04f4516da"
	if got.PlainToken != "qgg8vlvZRS6UYooatFL8Aw" || got.EncryptedToken != encrypted {
		t.Errorf("Answer: got %s, want the token under the secret that signed the request, %s", answer.Body, encrypted)
	}
	if events := v.Events(r); len(events) != 0 {
		t.Errorf("Events: got %+v, want none", events)
	}
	r.Header.Set("x-zm-signature", "v0=00")
	if answer, ok := v.(webhook.Answerer).Answer(r); ok {
		t.Errorf("an unsigned challenge is answered with a signature: %s", answer.Body)
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f, nil), signed(f, body), "x-zm-signature")
}
