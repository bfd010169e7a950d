package meta_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/meta"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "0123456789abcdef0123456789abcdef0123456789abcdef"
	secretB = "fedcba9876543210fedcba9876543210fedcba9876543210"
	url     = "https://hooks.example.com/hooks/meta"
	body    = `{"object":"whatsapp_business_account", "entry":[{"id":"WABA","time":1772366398,"changes":[` +
		`{"field":"messages","value":{"messages":[{"id":"wamid.1"}]}}]}]}`
)

var at = time.Unix(1_772_366_400, 0)

func setup(t testing.TB, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := meta.Provider.New(webhook.Settings{Source: "s", Options: options, Secrets: []webhook.Secret{
		{Label: "a", Value: secretB}, {Label: "b", Value: secretA},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, body string) *webhook.Request {
	t.Helper()
	out, err := meta.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider:  meta.Provider,
		Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:     webhook.SignInput{Body: []byte(body)},
		Want:      webhook.Event{IDOrigin: webhook.FromHash, Type: "whatsapp_business_account.messages", Account: "WABA", Object: "wamid.1", OccurredAt: time.Unix(1772366398, 0)},
		Headers:   []string{"X-Hub-Signature-256"},
		Signature: "X-Hub-Signature-256",
	})
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	const token = "a-verify-token-of-some-length"
	with := setup(t, map[string]string{"verify_token": token})
	for name, c := range map[string]struct {
		v     webhook.Verifier
		query string
		want  webhook.Class // "" admits
	}{
		"right token":    {with, "?hub.mode=subscribe&hub.challenge=115&hub.verify_token=" + token, ""},
		"wrong token":    {with, "?hub.mode=subscribe&hub.challenge=115&hub.verify_token=x", webhook.NoMatchingSignature},
		"no token":       {with, "?hub.mode=subscribe&hub.challenge=115", webhook.NoMatchingSignature},
		"no handshake":   {with, "", webhook.MissingSignature},
		"no challenge":   {with, "?hub.mode=subscribe&hub.verify_token=" + token, webhook.MissingSignature},
		"not configured": {setup(t, nil), "?hub.mode=subscribe&hub.challenge=115&hub.verify_token=", webhook.NoMatchingSignature},
	} {
		r := &webhook.Request{Method: http.MethodGet, URL: url + c.query, Header: http.Header{}, ReceivedAt: at}
		_, err := c.v.Verify(r)
		if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: got %v, want class %q", name, err, c.want)
			continue
		}
		if err != nil {
			continue
		}
		answer, ok := c.v.(webhook.Answerer).Answer(r)
		if !ok || string(answer.Body) != "115" || answer.ContentType != "text/plain; charset=utf-8" {
			t.Errorf("%s: Answer: got %+v, %t, want the challenge as plain text", name, answer, ok)
		}
		if events := c.v.Events(r); len(events) != 0 {
			t.Errorf("%s: Events: got %+v, want none", name, events)
		}
	}
	// A POST request cannot be accepted as a handshake.
	post := &webhook.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body), ReceivedAt: at,
		URL: url + "?hub.mode=subscribe&hub.challenge=115&hub.verify_token=" + token}
	if _, err := with.Verify(post); err == nil {
		t.Error("an unsigned POST is admitted by the handshake's token")
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	const (
		one   = `{"field":"feed","value":{"a":1}}`
		two   = `{"field":"likes","value":{"b":2}}`
		whole = `{"object":"page","entry":[{"id":"P1","time":1772366398,"changes":[` + one + `,` + two + `]},` +
			`{"id":"P2","time":1772366398123,"messaging":[{"message":{"mid":"m1"}}]},{"id":"P3","time":1,"changed_fields":["x"]}]}`
		cut = `{"object":"page","entry":[{"id":"P1","time":1772366398,"changes":[` + two + `]}]}`
	)
	v := setup(t, nil)
	events := v.Events(signed(t, whole))
	var types []string
	for _, e := range events {
		types = append(types, e.Account+" "+e.Type)
	}
	if got, want := strings.Join(types, ", "), "P1 page.feed, P1 page.likes, P2 page.messaging, P3 page.entry"; got != want {
		t.Fatalf("Events: got %s, want %s", got, want)
	}
	if string(events[1].Body) != two || events[2].Object != "m1" || !events[2].OccurredAt.Equal(time.UnixMilli(1772366398123)) {
		t.Errorf("Events: got %+v", events)
	}
	again := v.Events(signed(t, cut))
	if len(again) != 1 || again[0].ID != events[1].ID || again[0].ID == events[0].ID {
		t.Errorf("a batch retried with another cut: got %+v, want the ID %s", again, events[1].ID)
	}
	later := v.Events(signed(t, strings.Replace(cut, "1772366398", "1772366399", 1)))
	if later[0].ID == events[1].ID {
		t.Error("an equal change at another time has the same ID")
	}
	// The time of an entry is its time of sending, so it may differ if Meta divides the batch differently.
	for _, list := range []string{
		`"changes":[{"field":"messages","value":{"messages":[{"id":"wamid.1"}]}}]`,
		`"changes":[{"field":"messages","value":{"statuses":[{"id":"wamid.1","status":"read"}]}}]`,
		`"messaging":[{"message":{"mid":"m1"}}]`,
	} {
		first := v.Events(signed(t, `{"object":"x","entry":[{"id":"1","time":1772366398,`+list+`}]}`))
		again := v.Events(signed(t, `{"object":"x","entry":[{"id":"1","time":1772366458,`+list+`}]}`))
		if len(first) != 1 || len(again) != 1 || first[0].ID != again[0].ID {
			t.Errorf("a message sent again a minute later: got %+v, want the ID %s", again, first[0].ID)
		}
	}
	for body, problem := range map[string]string{
		`{"object":"page"}`:           "unknown_envelope: entry is no array",
		`{"object":"page","entry":1}`: "unknown_envelope: entry is no array",
		`{`:                           "not_json",
	} {
		if got := v.Events(signed(t, body)); len(got) != 1 || got[0].Problem != problem {
			t.Errorf("%s: got %+v, want one event with problem %s", body, got, problem)
		}
	}
	if got := v.Events(signed(t, `{"object":"page","entry":[]}`)); len(got) != 0 {
		t.Errorf("an empty batch: got %+v, want no event", got)
	}
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, nil), signed(f, body))
}
