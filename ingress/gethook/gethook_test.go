package gethook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/gethook"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "gethook-secret-0123456789-a"
	secretB = "gethook-secret-0123456789-b"
	body    = `{"id":"evt_1", "event_type":"order.created","received_at":"2026-03-01T11:59:59Z"}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	suite := webhooktest.Suite{
		Provider:  gethook.Provider,
		Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:     webhook.SignInput{Body: []byte(body)},
		Want:      webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "order.created", OccurredAt: at.Add(-time.Second)},
		Headers:   []string{"Webhook-Signature"},
		Signature: "Webhook-Signature",
		Join: func(values ...string) string {
			for i := range values[1:] {
				_, values[i+1], _ = strings.Cut(values[i+1], ",")
			}
			return strings.Join(values, ",")
		},
	}
	t.Run("ID in body", func(t *testing.T) { webhooktest.Run(t, suite) })
	suite.Settings.Options = map[string]string{gethook.IDHeaderOption: "X-Webhook-Id"}
	suite.Input.ID, suite.Want.ID, suite.Want.IDOrigin = "wh_1", "wh_1", webhook.FromHeader
	t.Run("ID in header", func(t *testing.T) { webhooktest.Run(t, suite) })
}

func setup(t testing.TB, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := gethook.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, body string) *webhook.Request {
	t.Helper()
	out, err := gethook.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_StandardWebhooksForm_Refused(t *testing.T) {
	t.Parallel()
	r := signed(t, body)
	r.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	_, err := setup(t, nil).Verify(r)
	if class, _ := webhook.ClassOf(err); class != webhook.MalformedHeader {
		t.Errorf("got %v, want malformed_header", err)
	}
}

func TestEvents_ID(t *testing.T) {
	t.Parallel()
	named := map[string]string{gethook.IDHeaderOption: "X-Webhook-Id"}
	hash := func(body string) webhook.Event {
		return webhook.Event{ID: webhook.HashID([]byte(body)), IDOrigin: webhook.FromHash}
	}
	noJSON := hash("a,b")
	noJSON.Problem = "not_json"
	for name, c := range map[string]struct {
		options      map[string]string
		header, body string
		want         webhook.Event
	}{
		"header wins":           {named, "wh_1", `{"id":"x"}`, webhook.Event{ID: "wh_1", IDOrigin: webhook.FromHeader}},
		"header not configured": {nil, "wh_1", `{"id":"x","type":"t"}`, webhook.Event{ID: "x", IDOrigin: webhook.FromBody, Type: "t"}},
		"header missing":        {named, "", `{"id":"x"}`, hash(`{"id":"x"}`)},
		"neither":               {named, "", `{"a":1}`, hash(`{"a":1}`)},
		"not JSON":              {nil, "", "a,b", noJSON},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, c.body)
			r.Header.Set("X-Webhook-Id", c.header)
			webhooktest.SameEvents(t, setup(t, c.options).Events(r), []webhook.Event{c.want})
		})
	}
}

func TestNew_SignatureAsIDHeader_Refused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"webhook-signature", "X Id", "X-Id:"} {
		_, err := gethook.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}},
			Options: map[string]string{gethook.IDHeaderOption: name}})
		if err == nil || !strings.Contains(err.Error(), gethook.IDHeaderOption) {
			t.Errorf("id_header %q: got %v, want an error that names the option", name, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f, nil), signed(f, body), "Webhook-Signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, nil), signed(f, body))
}
