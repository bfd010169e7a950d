package hmac_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

// bodies are typical deliveries of the presets.
var bodies = map[string]string{
	"calendly": `{"event":"invitee.created", "created_at":"2026-03-01T11:59:58Z","created_by":"https://api.calendly.com/users/U","payload":{"uri":"https://api.calendly.com/i/1"}}`,
	"paddle": `{"data":{"id":"ctm_1", "name":"x"},"event_id":"evt_1","event_type":"customer.created",` +
		`"occurred_at":"2026-03-01T11:59:58Z","notification_id":"ntf_1"}`,
	"square": `{"merchant_id":"M1", "type":"payment.updated","event_id":"ev-1",` +
		`"created_at":"2026-03-01T11:59:58Z","data":{"type":"payment","id":"pay_1"}}`,
	"typeform":    `{"event_id":"01H", "event_type":"form_response","form_response":{"form_id":"f","token":"tok","submitted_at":"2026-03-01T11:59:58Z"}}`,
	"woocommerce": `{"id":42, "status":"processing"}`,
}

// pairs joins several headers, each with a time and a signature, into one header with several signatures.
func pairs(separator string) func(...string) string {
	return func(values ...string) string {
		joined := values[0]
		for _, v := range values[1:] {
			_, signature, _ := strings.Cut(v, separator)
			joined += separator + signature
		}
		return joined
	}
}

func TestPresets_Conformance(t *testing.T) {
	t.Parallel()
	occurred := time.Unix(1772366398, 0)
	for _, c := range []struct {
		provider webhook.Provider
		header   string
		join     func(...string) string
		want     webhook.Event
	}{
		{hmac.Calendly, "Calendly-Webhook-Signature", pairs(","), webhook.Event{IDOrigin: webhook.FromHash, Type: "invitee.created",
			Account: "https://api.calendly.com/users/U", Object: "https://api.calendly.com/i/1", OccurredAt: occurred}},
		{hmac.Paddle, "Paddle-Signature", pairs(";"),
			webhook.Event{ID: "evt_1", IDOrigin: webhook.FromBody, Type: "customer.created", Object: "ctm_1", OccurredAt: occurred}},
		{hmac.Square, "X-Square-Hmacsha256-Signature", nil,
			webhook.Event{ID: "ev-1", IDOrigin: webhook.FromBody, Type: "payment.updated", Account: "M1", Object: "pay_1", OccurredAt: occurred}},
		{hmac.Typeform, "Typeform-Signature", nil,
			webhook.Event{ID: "01H", IDOrigin: webhook.FromBody, Type: "form_response", Object: "tok", OccurredAt: occurred}},
		{hmac.WooCommerce, "X-WC-Webhook-Signature", nil,
			webhook.Event{ID: "d-1", IDOrigin: webhook.FromHeader, Type: "order.updated", Account: "https://shop.example/", Object: "42"}},
	} {
		t.Run(c.provider.Name, func(t *testing.T) {
			t.Parallel()
			webhooktest.Run(t, webhooktest.Suite{
				Provider:  c.provider,
				Settings:  webhook.Settings{URL: url},
				Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
				Input:     webhook.SignInput{ID: "d-1", Type: "order.updated", Account: "https://shop.example/", Body: []byte(bodies[c.provider.Name])},
				Want:      c.want,
				Headers:   []string{c.header},
				Signature: c.header,
				Join:      c.join,
			})
		})
	}
}

func TestPresets_Vectors(t *testing.T) {
	t.Parallel()
	for _, p := range []webhook.Provider{hmac.Paddle, hmac.Square} {
		t.Run(p.Name, func(t *testing.T) { webhooktest.Vectors(t, p, nil) })
	}
}

func newPreset(t testing.TB, p webhook.Provider, url string) webhook.Verifier {
	t.Helper()
	v, err := p.New(webhook.Settings{Source: "s", URL: url, Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A header with time and signatures in Stripe's format.
func TestVerify_PairsInTheHeader(t *testing.T) {
	t.Parallel()
	v := newPreset(t, hmac.Paddle, url)
	_, h1, _ := strings.Cut(signed(t, hmac.Paddle, nil, bodies["paddle"]).Header.Get("Paddle-Signature"), "h1=")
	const ts = "ts=1772366400"
	for name, c := range map[string]struct {
		header string
		want   webhook.Class // "" admits
	}{
		"plain":            {ts + ";h1=" + h1, ""},
		"two h1":           {ts + ";h1=dummy;h1=" + h1, ""},
		"newer version":    {ts + ";h2=dummy;h1=" + h1, ""},
		"only a newer one": {ts + ";h2=" + h1, webhook.NoMatchingSignature},
		"upper-case hex":   {ts + ";h1=" + strings.ToUpper(h1), ""},
		"two ts":           {ts + ";ts=1;h1=" + h1, webhook.MalformedHeader},
		"no ts":            {"h1=" + h1, webhook.MalformedHeader},
		"ts no number":     {"ts=x;h1=y", webhook.MalformedHeader},
		"comma":            {ts + ",h1=" + h1, webhook.MalformedHeader},
		"other ts":         {"ts=1772366401;h1=" + h1, webhook.NoMatchingSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, hmac.Paddle, nil, bodies["paddle"])
			r.Header.Set("Paddle-Signature", c.header)
			_, err := v.Verify(r)
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

func TestSquare_URLExactlyAsRegistered(t *testing.T) {
	t.Parallel()
	out, err := hmac.Square.Sign(webhook.SignInput{Secret: secretA, At: at, URL: url, Body: []byte(bodies["square"])})
	if err != nil {
		t.Fatal(err)
	}
	r := &webhook.Request{URL: out.URL, Header: out.Header, Body: out.Body, ReceivedAt: at}
	for registered, want := range map[string]bool{
		url:          true,
		url + "/":    false,
		url + "?a=1": false,
		"https://hooks.example.com:443/hooks/acme": false,
		"http://hooks.example.com/hooks/acme":      false,
	} {
		if _, err := newPreset(t, hmac.Square, registered).Verify(r); (err == nil) != want {
			t.Errorf("registered as %s: got %v, want admitted=%t", registered, err, want)
		}
	}
	_, err = hmac.Square.New(webhook.Settings{Source: "shop", Secrets: []webhook.Secret{{Label: "a", Value: "short"}}})
	for _, want := range []string{"shop", "url", "secrets[0]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without a URL: %v does not name %s", err, want)
		}
	}
}

func FuzzPaddleVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, newPreset(f, hmac.Paddle, url), signed(f, hmac.Paddle, nil, bodies["paddle"]), "Paddle-Signature")
}

func FuzzPaddleEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, newPreset(f, hmac.Paddle, url), signed(f, hmac.Paddle, nil, bodies["paddle"]))
}
