package intercom_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/intercom"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "0123456789abcdef0123456789abcdef0123456789abcdef"
	secretB = "fedcba9876543210fedcba9876543210fedcba9876543210"
	body    = `{"type":"notification_event", "id":"notif_1","topic":"user.created","app_id":"app1","created_at":1772366398,"data":{"item":{"id":"u1"}}}`
)

var at = time.Unix(1_772_366_400, 0)

func setup(t testing.TB, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := intercom.Provider.New(webhook.Settings{Source: "s", Options: options, Secrets: []webhook.Secret{
		{Label: "a", Value: secretB}, {Label: "b", Value: secretA},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, body string) *webhook.Request {
	t.Helper()
	out, err := intercom.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider:  intercom.Provider,
		Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:     webhook.SignInput{Body: []byte(body)},
		Want:      webhook.Event{ID: "notif_1", IDOrigin: webhook.FromBody, Type: "user.created", Account: "app1", Object: "u1", OccurredAt: time.Unix(1772366398, 0)},
		Headers:   []string{"X-Hub-Signature"},
		Signature: "X-Hub-Signature",
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	v := setup(t, nil)
	ping := signed(t, `{"type":"notification_event","id":"notif_1","topic":"ping"}`)
	if _, err := v.Verify(ping); err != nil {
		t.Fatal(err)
	}
	if answer, ok := v.(webhook.Answerer).Answer(ping); !ok || answer.Status != http.StatusOK {
		t.Errorf("Answer: got %+v, %t, want 200", answer, ok)
	}
	if events := v.Events(ping); len(events) != 0 {
		t.Errorf("Events: got %+v, want none", events)
	}
	if _, ok := v.(webhook.Answerer).Answer(signed(t, body)); ok {
		t.Error("an event is answered as a ping")
	}
}
