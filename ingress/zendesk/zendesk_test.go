package zendesk_test

import (
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
	"github.com/pawlhq/pawl/ingress/zendesk"
)

const (
	secretA = "HRkRd4BeOAoUkfZr-mhauJT64rvBASlJRoIyPsd3zeA="
	secretB = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ=="
	body    = `{"account_id":12514403, "id":"ev-1","type":"zen:event-type:ticket.created","time":"2026-03-01T11:59:58.75Z",` +
		`"subject":"zen:ticket:7","detail":{"id":"7"},"event":{}}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: zendesk.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{ID: "inv-1", Account: "1", Body: []byte(body)},
		Want: webhook.Event{
			ID: "ev-1", IDOrigin: webhook.FromBody, Type: "zen:event-type:ticket.created", Account: "12514403", Object: "7",
			OccurredAt: time.Date(2026, 3, 1, 11, 59, 58, 750_000_000, time.UTC),
		},
		Headers:   []string{"X-Zendesk-Webhook-Signature", "X-Zendesk-Webhook-Signature-Timestamp"},
		Signature: "X-Zendesk-Webhook-Signature",
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, zendesk.Provider, nil)
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := zendesk.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, in webhook.SignInput) *webhook.Request {
	t.Helper()
	in.Secret, in.At = secretA, at
	out, err := zendesk.Provider.Sign(in)
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_Timestamp(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for stamp, want := range map[string]webhook.Class{
		"2026-03-01T12:00:00Z":      "",
		"2026-03-01T12:00:01Z":      webhook.NoMatchingSignature,
		"2026-03-01T13:00:00+01:00": webhook.NoMatchingSignature, // the same time in another text
		"2026-03-01T12:00:00+0000":  webhook.NoMatchingSignature,
		"2026-03-01T12:00:00.5Z":    webhook.NoMatchingSignature,
		"2026-03-01T12:00:00":       webhook.MalformedHeader,
		"1772366400":                webhook.MalformedHeader,
		"2026-03-01 12:00:00":       webhook.MalformedHeader,
	} {
		r := signed(t, webhook.SignInput{Body: []byte(body)})
		r.Header.Set("X-Zendesk-Webhook-Signature-Timestamp", stamp)
		_, err := v.Verify(r)
		if got, _ := webhook.ClassOf(err); got != want || (err == nil) != (want == "") {
			t.Errorf("%s: got %v, want class %q", stamp, err, want)
		}
	}
}

func TestEvents_WrittenByAnAuthor(t *testing.T) {
	t.Parallel()
	const triggered = `{"id":"whatever","type":"mine"}`
	v := setup(t)
	for name, c := range map[string]struct {
		in   webhook.SignInput
		want webhook.Event
	}{
		"invocation ID": {webhook.SignInput{ID: "inv-1", Account: "9", Body: []byte(triggered)},
			webhook.Event{ID: "inv-1", IDOrigin: webhook.FromHeader, Account: "9"}},
		"no invocation ID": {webhook.SignInput{Body: []byte(triggered)},
			webhook.Event{ID: webhook.HashID([]byte(triggered)), IDOrigin: webhook.FromHash}},
		"XML": {webhook.SignInput{ID: "inv-1", ContentType: "application/xml", Body: []byte("<a/>")},
			webhook.Event{ID: "inv-1", IDOrigin: webhook.FromHeader}},
		"broken JSON": {webhook.SignInput{ID: "inv-1", Body: []byte("{")},
			webhook.Event{ID: "inv-1", IDOrigin: webhook.FromHeader, Problem: "not_json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, c.in)
			if _, err := v.Verify(r); err != nil {
				t.Fatalf("Verify: %v", err)
			}
			webhooktest.SameEvents(t, v.Events(r), []webhook.Event{c.want})
		})
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f), signed(f, webhook.SignInput{Body: []byte(body)}), "X-Zendesk-Webhook-Signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, webhook.SignInput{Body: []byte(body)}))
}
