package standardwebhooks_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/standardwebhooks"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="
	secretB = "whsec_dnV0c3JxcG9ubWxramloZ2ZlZGNiYTk4NzY1NDMyMTA="
	// polarSecret is a key that is used as text.
	polarSecret = "polar_whs_0123456789abcdefghijklmnopqrstuv"
	body        = `{"type":"user.created", "timestamp":"2026-03-01T11:59:59Z","data":{"id":"u-1"}}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	join := func(values ...string) string { return strings.Join(values, " ") }
	suite := webhooktest.Suite{
		Provider: standardwebhooks.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{ID: "msg_1", Body: []byte(body)},
		Want: webhook.Event{
			ID: "msg_1", IDOrigin: webhook.FromHeader, Type: "user.created", Object: "u-1", OccurredAt: at.Add(-time.Second),
		},
		Headers:   []string{"webhook-id", "webhook-timestamp", "webhook-signature"},
		Signature: "webhook-signature",
		Join:      join,
	}
	t.Run("v1", func(t *testing.T) { webhooktest.Run(t, suite) })
	suite.Keys = [2]webhooktest.Key{newKeys(t), newKeys(t)}
	t.Run("v1a", func(t *testing.T) { webhooktest.Run(t, suite) })

	suite.Provider = standardwebhooks.Svix
	suite.Headers, suite.Signature = []string{"svix-id", "svix-timestamp", "svix-signature"}, "svix-signature"
	t.Run("svix v1a", func(t *testing.T) { webhooktest.Run(t, suite) })
	suite.Keys[0] = webhooktest.Key{Verify: secretA}
	t.Run("svix v1 and v1a", func(t *testing.T) { webhooktest.Run(t, suite) })

	suite.Headers, suite.Signature = []string{"webhook-id", "webhook-timestamp", "webhook-signature"}, "webhook-signature"
	suite.Sign = standardwebhooks.Provider.Sign
	t.Run("svix, white label", func(t *testing.T) { webhooktest.Run(t, suite) })
}

func newKeys(t *testing.T) webhooktest.Key {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return webhooktest.Key{Verify: "whpk_" + base64.StdEncoding.EncodeToString(public), Sign: "whsk_" + base64.StdEncoding.EncodeToString(private)}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	t.Run("standardwebhooks", func(t *testing.T) { webhooktest.Vectors(t, standardwebhooks.Provider, nil) })
	t.Run("svix", func(t *testing.T) { webhooktest.Vectors(t, standardwebhooks.Svix, nil) })
}

func verifier(t testing.TB, p webhook.Provider, secret string) webhook.Verifier {
	t.Helper()
	v, err := p.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secret}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, p webhook.Provider, secret, body string) *webhook.Request {
	t.Helper()
	out, err := p.Sign(webhook.SignInput{Secret: secret, At: at, ID: "msg_1", Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_Headers(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	v1 := verifier(t, standardwebhooks.Provider, secretA)
	v1a := verifier(t, standardwebhooks.Provider, keys.Verify)
	either := verifier(t, standardwebhooks.Svix, secretA)
	good := signed(t, standardwebhooks.Provider, secretA, body).Header.Get("webhook-signature")
	goodA := signed(t, standardwebhooks.Provider, keys.Sign, body).Header.Get("webhook-signature")
	wrong := "v1,AAAA"
	relabel := func(s, version string) string { _, text, _ := strings.Cut(s, ","); return version + "," + text }
	for name, c := range map[string]struct {
		v       webhook.Verifier
		headers map[string]string // added to the valid headers of msg_1, signed with v1
		class   webhook.Class
	}{
		"as sent":                  {v1, nil, ""},
		"both versions":            {v1, map[string]string{"webhook-signature": goodA + " " + good}, ""},
		"both versions, v1a key":   {v1a, map[string]string{"webhook-signature": goodA + " " + good}, ""},
		"unknown version":          {v1, map[string]string{"webhook-signature": "v2,x v3 " + good}, ""},
		"double space":             {v1, map[string]string{"webhook-signature": wrong + "  " + good}, ""},
		"svix, white label":        {either, nil, ""},
		"svix, same twice":         {either, map[string]string{"svix-id": "msg_1", "svix-timestamp": "1772366400", "svix-signature": good}, ""},
		"v1a against an HMAC key":  {v1, map[string]string{"webhook-signature": goodA}, webhook.NoMatchingSignature},
		"v1a as v1, HMAC key":      {v1, map[string]string{"webhook-signature": relabel(goodA, "v1")}, webhook.NoMatchingSignature},
		"v1 against a public key":  {v1a, map[string]string{"webhook-signature": good}, webhook.NoMatchingSignature},
		"v1 as v1a, public key":    {v1a, map[string]string{"webhook-signature": relabel(good, "v1a")}, webhook.NoMatchingSignature},
		"v1a as v1, public key":    {v1a, map[string]string{"webhook-signature": relabel(goodA, "v1")}, webhook.NoMatchingSignature},
		"tab between":              {v1, map[string]string{"webhook-signature": wrong + "\t" + good}, webhook.NoMatchingSignature},
		"comma between":            {v1, map[string]string{"webhook-signature": wrong + "," + good}, webhook.NoMatchingSignature},
		"no version":               {v1, map[string]string{"webhook-signature": good[3:]}, webhook.NoMatchingSignature},
		"500 entries":              {v1, map[string]string{"webhook-signature": strings.Repeat(wrong+" ", 500)}, webhook.NoMatchingSignature},
		"padding missing":          {v1, map[string]string{"webhook-signature": strings.TrimRight(good, "=")}, webhook.NoMatchingSignature},
		"key offered":              {v1, map[string]string{"webhook-signature": goodA, "webhook-public-key": keys.Verify}, webhook.NoMatchingSignature},
		"other ID":                 {v1, map[string]string{"webhook-id": "msg_2"}, webhook.NoMatchingSignature},
		"dot in ID":                {v1, map[string]string{"webhook-id": "msg_1.1"}, webhook.NoMatchingSignature},
		"fraction":                 {v1, map[string]string{"webhook-timestamp": "1772366400.0"}, webhook.MalformedHeader},
		"negative":                 {v1, map[string]string{"webhook-timestamp": "-1772366400"}, webhook.MalformedHeader},
		"milliseconds":             {v1, map[string]string{"webhook-timestamp": "1772366400000"}, webhook.MalformedHeader},
		"Arabic digits":            {v1, map[string]string{"webhook-timestamp": "١٧٧٢٣٦٦٤٠٠"}, webhook.MalformedHeader},
		"empty timestamp":          {v1, map[string]string{"webhook-timestamp": ""}, webhook.MissingHeader},
		"GetHook's or Stripe's":    {v1, map[string]string{"webhook-signature": "t=1772366400,v1=00"}, webhook.NoMatchingSignature},
		"both families differ":     {either, map[string]string{"svix-id": "msg_2", "svix-timestamp": "1772366400", "svix-signature": good}, webhook.MalformedHeader},
		"the same, not Svix":       {v1, map[string]string{"svix-id": "msg_2"}, webhook.MalformedHeader},
		"signatures differ":        {either, map[string]string{"svix-id": "msg_1", "svix-timestamp": "1772366400", "svix-signature": wrong}, webhook.MalformedHeader},
		"family is not completed":  {either, map[string]string{"svix-id": "msg_1"}, webhook.MissingHeader},
		"times differ":             {v1, map[string]string{"svix-timestamp": "1772366401"}, webhook.MalformedHeader},
		"unsigned header, v1 only": {v1, map[string]string{"x-webhook-id": "other"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, standardwebhooks.Provider, secretA, body)
			for header, value := range c.headers {
				r.Header.Set(header, value)
			}
			_, err := c.v.Verify(r)
			if class, _ := webhook.ClassOf(err); class != c.class || (err == nil) != (c.class == "") {
				t.Errorf("got %v, want class %q", err, c.class)
			}
		})
	}
}

// The signed texts of "a.1" with "2" and of "a" with "1.2" are equal, so an event whose ID contains a dot does not
// run.
func TestEvents_ShiftedFields_Parked(t *testing.T) {
	t.Parallel()
	r := signed(t, standardwebhooks.Provider, secretA, "1772366400."+body)
	r.Header.Set("webhook-id", "msg_1.1772366400")
	r.Body = []byte(body)
	v := verifier(t, standardwebhooks.Provider, secretA)
	webhooktest.CheckAuthentic(t, v, r)
	if got := v.Events(r)[0].Problem; got != "invalid_event_id: header webhook-id contains a dot" {
		t.Errorf("problem %q, want it to name the dot", got)
	}
}

func TestNew_Secrets(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	for name, c := range map[string]struct {
		value string
		ok    bool
	}{
		"without prefix":        {strings.TrimPrefix(secretA, "whsec_"), true},
		"public key":            {keys.Verify, true},
		"spare bits":            {"whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZW" + "B=", true},
		"newline":               {secretA + "\n", false},
		"Supabase's form":       {"v1," + secretA, true},
		"Polar's form":          {polarSecret, true},
		"Polar's prefix only":   {"polar_whs_", false},
		"another version":       {"v2," + secretA, false},
		"padding missing":       {"whsec_" + strings.Repeat("A", 43), false},
		"newline inside":        {secretA[:20] + "\n" + secretA[20:], false},
		"eight bytes":           {"whsec_MDEyMzQ1Njc=", false},
		"prefix only":           {"whsec_", false},
		"public prefix only":    {"whpk_", false},
		"public key of 8 bytes": {"whpk_MDEyMzQ1Njc=", false},
		"private key":           {keys.Sign, false},
		"hex":                   {"whsec_~", false},
	} {
		_, err := standardwebhooks.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: c.value}}})
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok=%t", name, err, c.ok)
		}
	}
}

func TestVerify_PolarSecret_TextIsKey(t *testing.T) {
	t.Parallel()
	r := signed(t, standardwebhooks.Provider, base64.StdEncoding.EncodeToString([]byte(polarSecret)), body)
	if _, err := verifier(t, standardwebhooks.Provider, polarSecret).Verify(r); err != nil {
		t.Error(err)
	}
	if _, err := verifier(t, standardwebhooks.Provider, secretA).Verify(r); err == nil {
		t.Error("another secret verifies it, too")
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	v := verifier(t, standardwebhooks.Svix, secretA)
	want := webhook.Event{ID: "msg_1", IDOrigin: webhook.FromHeader}
	typed, broken := want, want
	typed.Type, broken.Problem = "ping", "not_json"
	for name, c := range map[string]struct {
		provider webhook.Provider
		body     string
		want     webhook.Event
	}{
		"svix headers":    {standardwebhooks.Svix, `{"event_type":"ping"}`, typed},
		"white label":     {standardwebhooks.Provider, `{"eventType":"ping"}`, typed},
		"nothing but ID":  {standardwebhooks.Svix, `{}`, want},
		"body of no JSON": {standardwebhooks.Svix, `ping`, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			webhooktest.SameEvents(t, v.Events(signed(t, c.provider, secretA, c.body)), []webhook.Event{c.want})
		})
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, verifier(f, standardwebhooks.Provider, secretA),
		signed(f, standardwebhooks.Provider, secretA, body), "webhook-signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, verifier(f, standardwebhooks.Svix, secretA), signed(f, standardwebhooks.Svix, secretA, body))
}

// A secret that is used as text is rejected by default, and the error names the setting.
func TestNew_KeyEncoding(t *testing.T) {
	t.Parallel()
	settings := webhook.Settings{Source: "polar", Secrets: []webhook.Secret{{Label: "a", Value: "whsec_this_is_no_base64_but_its_text"}}}
	_, err := standardwebhooks.Provider.New(settings)
	if err == nil || !strings.Contains(err.Error(), "set options.key_encoding: text") {
		t.Errorf("got %v, want the way on", err)
	}
	settings.Options = map[string]string{"key_encoding": "text"}
	v, err := standardwebhooks.Provider.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	out, err := standardwebhooks.Provider.Sign(webhook.SignInput{Secret: settings.Secrets[0].Value, ID: "msg_1", At: at, Options: settings.Options, Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	webhooktest.CheckAuthentic(t, v, &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at})
	settings.Options["key_encoding"] = "rot13"
	if _, err := standardwebhooks.Provider.New(settings); err == nil || !strings.Contains(err.Error(), "options.key_encoding") {
		t.Errorf("an unknown encoding: %v", err)
	}
}
