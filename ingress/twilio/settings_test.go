package twilio_test

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const settingsHeader = "X-Twilio-Webhooks-Signature-Settings"

// signedWithSHA256 is the form with the signature that Twilio makes for a Webhooks Rule.
func signedWithSHA256(t *testing.T) *webhook.Request {
	t.Helper()
	r := signed(t, endpoint, "", form)
	mac := webhook.MAC(sha256.New, []byte(secretA), []byte(endpoint+"AccountSidAC1MessageSidSM1MessageStatusdeliveredTo+14158675309"))
	r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac))
	r.Header.Set(settingsHeader, "key=SK0123456789abcdef0123456789abcdef,algorithm=HMAC_SHA256")
	return r
}

// The settings header selects the hash algorithm; the source's secrets are the keys.
func TestVerify_SignatureSettings(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for name, c := range map[string]struct {
		request  *webhook.Request
		settings string
		want     webhook.Class
	}{
		"SHA-256":                  {signedWithSHA256(t), "key=SK1,algorithm=HMAC_SHA256", ""},
		"SHA-256, other order":     {signedWithSHA256(t), "algorithm=HMAC_SHA256, key=SK1", ""},
		"SHA-256 without header":   {signedWithSHA256(t), "", webhook.NoMatchingSignature},
		"SHA-256 called SHA-1":     {signedWithSHA256(t), "key=SK1,algorithm=HMAC_SHA1", webhook.NoMatchingSignature},
		"SHA-1":                    {signed(t, endpoint, "", form), "key=SK1,algorithm=HMAC_SHA1", ""},
		"SHA-1 called SHA-256":     {signed(t, endpoint, "", form), "key=SK1,algorithm=HMAC_SHA256", webhook.NoMatchingSignature},
		"an algorithm of tomorrow": {signedWithSHA256(t), "key=SK1,algorithm=ED25519", webhook.MalformedHeader},
		"no algorithm":             {signedWithSHA256(t), "key=SK1", webhook.MalformedHeader},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.request.Header.Del(settingsHeader)
			if c.settings != "" {
				c.request.Header.Set(settingsHeader, c.settings)
			}
			_, err := v.Verify(c.request)
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

// The diagnosis distinguishes a request with an unsupported algorithm from a request with a wrong secret.
func TestHints_SignatureSettings(t *testing.T) {
	t.Parallel()
	hinter := setup(t).(webhook.Hinter)
	if got := hinter.Hints(signed(t, endpoint, "", form)); len(got) != 0 {
		t.Errorf("hints %v without the header", got)
	}
	got := hinter.Hints(signedWithSHA256(t))
	if len(got) != 1 || got[0].Code != webhook.UnknownScheme || !strings.Contains(got[0].Text, "algorithm=HMAC_SHA256") {
		t.Errorf("hints %v, want one with the header's words", got)
	}
}

// get is a status callback that Twilio sends as GET.
func get(t *testing.T, query string) *webhook.Request {
	t.Helper()
	r := signed(t, "https://hooks.example.com/hooks/twilio?"+query, "", "")
	r.Method, r.Body = "GET", nil
	r.Header.Del("Content-Type")
	return r
}

// A callback by GET has its parameters in the query, so the query is its event and its body.
func TestEvents_GET(t *testing.T) {
	t.Parallel()
	v := setup(t)
	query := "tenant=7&" + form
	r := get(t, query)
	webhooktest.CheckAuthentic(t, v, r)
	e := v.Events(r)[0]
	if e.Type != "message.delivered" || e.Object != "SM1" || e.Account != "AC1" || e.Problem != "" || string(e.Body) != query {
		t.Errorf("got %+v (body %s)", e, e.Body)
	}
	if other := v.Events(get(t, strings.Replace(query, "delivered", "sent", 1)))[0]; other.ID == e.ID {
		t.Error("another status has the same ID")
	}
	r.URL += "0"
	if _, err := v.Verify(r); err == nil {
		t.Error("a changed query is admitted")
	}
}

// An attacker with a form can move its parameters into the URL, so that the text of a message becomes parameters.
func TestEvents_FormMovedIntoTheQuery_Parked(t *testing.T) {
	t.Parallel()
	v := setup(t)
	captured := signed(t, endpoint, "", "AccountSid=AC0123456789abcdef0123456789abcdef&Body=%26MessageSid%3DSM9%26AccountSid%3DAC9%26MessageStatus%3Dfailed")
	moved := *captured
	moved.Method, moved.Body = "GET", nil
	moved.URL = endpoint + "AccountSidAC0123456789abcdef0123456789abcdefBody&MessageSid=SM9&AccountSid=AC9&MessageStatus=failed"
	webhooktest.CheckAuthentic(t, v, &moved)
	if e := v.Events(&moved)[0]; e.Problem != string(webhook.UnknownEnvelope) {
		t.Errorf("got %+v, want it parked", e)
	}
}

// Twilio's own parsers keep an invalid escape unchanged, and sign it in this form.
func TestVerify_BrokenEscape_Admitted(t *testing.T) {
	t.Parallel()
	v := setup(t)
	r := signed(t, endpoint, "", "AccountSid=AC1&Body=100%&MessageSid=SM1&SmsStatus=received")
	webhooktest.CheckAuthentic(t, v, r)
	if e := v.Events(r)[0]; e.Problem != "" || e.Type != "message.received" {
		t.Errorf("got %+v", e)
	}
}
