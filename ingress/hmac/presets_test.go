package hmac_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// bodies are typical deliveries of the presets.
var bodies = map[string]string{
	"typeform":    `{"event_id":"01H", "event_type":"form_response","form_response":{"form_id":"f","token":"tok","submitted_at":"2026-03-01T11:59:58Z"}}`,
	"intercom":    `{"type":"notification_event", "id":"notif_1","topic":"user.created","app_id":"app1","created_at":1772366398,"data":{"item":{"id":"u1"}}}`,
	"calendly":    `{"event":"invitee.created", "created_at":"2026-03-01T11:59:58Z","created_by":"https://api.calendly.com/users/U","payload":{"uri":"https://api.calendly.com/i/1"}}`,
	"woocommerce": `{"id":42, "status":"processing"}`,
	"zoom":        `{"event":"meeting.started", "event_ts":1772366398000,"payload":{"account_id":"A","object":{"id":"111"}}}`,
	"meta": `{"object":"whatsapp_business_account", "entry":[{"id":"WABA","time":1772366398,"changes":[` +
		`{"field":"messages","value":{"messages":[{"id":"wamid.1"}]}}]}]}`,
}

func TestPresets_Conformance(t *testing.T) {
	t.Parallel()
	occurred := time.Unix(1772366398, 0)
	for _, c := range []struct {
		provider webhook.Provider
		headers  []string
		join     func(...string) string
		want     webhook.Event
	}{
		{hmac.Typeform, []string{"Typeform-Signature"}, nil,
			webhook.Event{ID: "01H", IDOrigin: webhook.FromBody, Type: "form_response", Object: "tok", OccurredAt: occurred}},
		{hmac.Intercom, []string{"X-Hub-Signature"}, nil,
			webhook.Event{ID: "notif_1", IDOrigin: webhook.FromBody, Type: "user.created", Account: "app1", Object: "u1", OccurredAt: occurred}},
		{hmac.Calendly, []string{"Calendly-Webhook-Signature"}, func(values ...string) string {
			joined := values[0]
			for _, v := range values[1:] {
				_, signature, _ := strings.Cut(v, ",")
				joined += "," + signature
			}
			return joined
		}, webhook.Event{IDOrigin: webhook.FromHash, Type: "invitee.created", Account: "https://api.calendly.com/users/U",
			Object: "https://api.calendly.com/i/1", OccurredAt: occurred}},
		{hmac.WooCommerce, []string{"X-WC-Webhook-Signature"}, nil,
			webhook.Event{ID: "d-1", IDOrigin: webhook.FromHeader, Type: "order.updated", Account: "https://shop.example/", Object: "42"}},
		{hmac.Zoom, []string{"x-zm-signature", "x-zm-request-timestamp"}, nil,
			webhook.Event{IDOrigin: webhook.FromHash, Type: "meeting.started", Account: "A", Object: "111", OccurredAt: occurred}},
		{hmac.Meta, []string{"X-Hub-Signature-256"}, nil,
			webhook.Event{IDOrigin: webhook.FromHash, Type: "whatsapp_business_account.messages", Account: "WABA", Object: "wamid.1", OccurredAt: occurred}},
	} {
		t.Run(c.provider.Name, func(t *testing.T) {
			t.Parallel()
			webhooktest.Run(t, webhooktest.Suite{
				Provider:  c.provider,
				Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
				Input:     webhook.SignInput{ID: "d-1", Type: "order.updated", Account: "https://shop.example/", Body: []byte(bodies[c.provider.Name])},
				Want:      c.want,
				Headers:   c.headers,
				Signature: c.headers[0],
				Join:      c.join,
			})
		})
	}
}

func newPreset(t testing.TB, p webhook.Provider, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := p.New(webhook.Settings{Source: "s", Options: options, Secrets: []webhook.Secret{
		{Label: "a", Value: secretB}, {Label: "b", Value: secretA},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestZoom_URLValidation(t *testing.T) {
	t.Parallel()
	v := newPreset(t, hmac.Zoom, nil)
	r := signed(t, hmac.Zoom, nil, `{"event":"endpoint.url_validation","event_ts":1772366398000,"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}`)
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
		t.Errorf("an unsigned challenge is signed for whoever asks: %s", answer.Body)
	}
}

func TestIntercom_Ping(t *testing.T) {
	t.Parallel()
	v := newPreset(t, hmac.Intercom, nil)
	ping := signed(t, hmac.Intercom, nil, `{"type":"notification_event","id":"notif_1","topic":"ping"}`)
	if _, err := v.Verify(ping); err != nil {
		t.Fatal(err)
	}
	if answer, ok := v.(webhook.Answerer).Answer(ping); !ok || answer.Status != http.StatusOK {
		t.Errorf("Answer: got %+v, %t, want 200", answer, ok)
	}
	if events := v.Events(ping); len(events) != 0 {
		t.Errorf("Events: got %+v, want none", events)
	}
	if _, ok := v.(webhook.Answerer).Answer(signed(t, hmac.Intercom, nil, bodies["intercom"])); ok {
		t.Error("an event is answered as a ping")
	}
}

func TestMeta_Handshake(t *testing.T) {
	t.Parallel()
	const token = "a-verify-token-of-some-length"
	with := newPreset(t, hmac.Meta, map[string]string{"verify_token": token})
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
		"not configured": {newPreset(t, hmac.Meta, nil), "?hub.mode=subscribe&hub.challenge=115&hub.verify_token=", webhook.NoMatchingSignature},
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
	// A delivery cannot pass as a handshake.
	post := &webhook.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(bodies["meta"]), ReceivedAt: at,
		URL: url + "?hub.mode=subscribe&hub.challenge=115&hub.verify_token=" + token}
	if _, err := with.Verify(post); err == nil {
		t.Error("an unsigned POST is admitted by the handshake's token")
	}
}

func TestMeta_Batch(t *testing.T) {
	t.Parallel()
	const (
		one   = `{"field":"feed","value":{"a":1}}`
		two   = `{"field":"likes","value":{"b":2}}`
		whole = `{"object":"page","entry":[{"id":"P1","time":1772366398,"changes":[` + one + `,` + two + `]},` +
			`{"id":"P2","time":1772366398123,"messaging":[{"message":{"mid":"m1"}}]},{"id":"P3","time":1,"changed_fields":["x"]}]}`
		cut = `{"object":"page","entry":[{"id":"P1","time":1772366398,"changes":[` + two + `]}]}`
	)
	v := newPreset(t, hmac.Meta, nil)
	events := v.Events(signed(t, hmac.Meta, nil, whole))
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
	again := v.Events(signed(t, hmac.Meta, nil, cut))
	if len(again) != 1 || again[0].ID != events[1].ID || again[0].ID == events[0].ID {
		t.Errorf("a batch retried with another cut: got %+v, want the ID %s", again, events[1].ID)
	}
	later := v.Events(signed(t, hmac.Meta, nil, strings.Replace(cut, "1772366398", "1772366399", 1)))
	if later[0].ID == events[1].ID {
		t.Error("an equal change at another time has the same ID")
	}
	// An entry's time is that of its sending, so it may be another in a batch that is cut otherwise.
	for _, list := range []string{
		`"changes":[{"field":"messages","value":{"messages":[{"id":"wamid.1"}]}}]`,
		`"changes":[{"field":"messages","value":{"statuses":[{"id":"wamid.1","status":"read"}]}}]`,
		`"messaging":[{"message":{"mid":"m1"}}]`,
	} {
		first := v.Events(signed(t, hmac.Meta, nil, `{"object":"x","entry":[{"id":"1","time":1772366398,`+list+`}]}`))
		again := v.Events(signed(t, hmac.Meta, nil, `{"object":"x","entry":[{"id":"1","time":1772366458,`+list+`}]}`))
		if len(first) != 1 || len(again) != 1 || first[0].ID != again[0].ID {
			t.Errorf("a message sent again a minute later: got %+v, want the ID %s", again, first[0].ID)
		}
	}
	for body, problem := range map[string]string{
		`{"object":"page"}`:           "unknown_envelope: entry is no array",
		`{"object":"page","entry":1}`: "unknown_envelope: entry is no array",
		`{`:                           "not_json",
	} {
		if got := v.Events(signed(t, hmac.Meta, nil, body)); len(got) != 1 || got[0].Problem != problem {
			t.Errorf("%s: got %+v, want one event with problem %s", body, got, problem)
		}
	}
	if got := v.Events(signed(t, hmac.Meta, nil, `{"object":"page","entry":[]}`)); len(got) != 0 {
		t.Errorf("an empty batch: got %+v, want no event", got)
	}
}

func FuzzMetaEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, newPreset(f, hmac.Meta, nil), signed(f, hmac.Meta, nil, bodies["meta"]))
}

func FuzzZoomVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, newPreset(f, hmac.Zoom, nil), signed(f, hmac.Zoom, nil, bodies["zoom"]), "x-zm-signature")
}
