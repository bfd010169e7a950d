package ingress_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress"
	"github.com/pawlhq/pawl/ingress/discord"
	"github.com/pawlhq/pawl/ingress/github"
	hmacscheme "github.com/pawlhq/pawl/ingress/hmac"
	"github.com/pawlhq/pawl/ingress/intercom"
	"github.com/pawlhq/pawl/ingress/linear"
	"github.com/pawlhq/pawl/ingress/meta"
	"github.com/pawlhq/pawl/ingress/slack"
	"github.com/pawlhq/pawl/ingress/twilio"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/zoom"
	"github.com/pawlhq/pawl/schema/receipt"
)

const providerSecret = "0123456789abcdef0123456789abcdef"

// at starts a server with the source "shop" of a real provider.
func at(t *testing.T, p webhook.Provider, s webhook.Settings, change ...func(*ingress.Config, *ingress.Source)) *bench {
	t.Helper()
	if len(s.Secrets) == 0 {
		s.Secrets = []webhook.Secret{{Label: "main", Value: providerSecret}}
	}
	s.Source, s.URL = "shop", "https://pawl.example/hooks/shop"
	v, err := p.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return setup(t, append([]func(*ingress.Config, *ingress.Source){func(_ *ingress.Config, source *ingress.Source) {
		source.Provider, source.Verifier = p, v
	}}, change...)...)
}

// send posts a request that p signs.
func (b *bench) send(t *testing.T, p webhook.Provider, in webhook.SignInput) reply {
	t.Helper()
	if in.Secret == "" {
		in.Secret = providerSecret
	}
	in.At, in.URL = time.Now(), "https://pawl.example/hooks/shop"
	out, err := p.Sign(in)
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, http.MethodPost, b.url+"/hooks/shop", bytes.NewReader(out.Body))
	r.Header = out.Header
	return do(t, r)
}

func (b *bench) forged(t *testing.T, body string, header ...string) reply {
	t.Helper()
	return do(t, request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(body), header...))
}

func TestAnswer_Slack_ChallengeAfterTheSignature(t *testing.T) {
	t.Parallel()
	b := at(t, slack.Provider, webhook.Settings{})
	const body = `{"type":"url_verification","challenge":"<script>x</script>","token":"t"}`
	got := b.send(t, slack.Provider, webhook.SignInput{Body: []byte(body)})
	if got.status != http.StatusOK || got.body != "<script>x</script>" || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %q as %v, want the challenge as plain text", got.status, got.body, got.header)
	}
	if got := b.forged(t, body, "X-Slack-Signature", "v0=00", "X-Slack-Request-Timestamp", "1"); got.status != http.StatusUnauthorized || strings.Contains(got.body, "script") {
		t.Errorf("forged: got %d %q, want 401 without the challenge", got.status, got.body)
	}
	if n := b.count(t, `select count(*) from receipts`); n != 0 {
		t.Errorf("%d receipts of handshakes, want none", n)
	}
}

func TestAnswer_Discord(t *testing.T) {
	t.Parallel()
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	public := hex.EncodeToString(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	b := at(t, discord.Provider, webhook.Settings{Secrets: []webhook.Secret{{Label: "main", Value: public}}})
	send := func(body string) reply {
		return b.send(t, discord.Provider, webhook.SignInput{Secret: hex.EncodeToString(seed), Body: []byte(body)})
	}
	if got := send(`{"version":1,"application_id":"1","type":0}`); got.status != http.StatusNoContent || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("ping of events: got %d %v, want 204 with a content type", got.status, got.header)
	}
	if got := send(`{"version":1,"id":"9","token":"t","application_id":"1","type":1}`); got.status != http.StatusOK || got.body != `{"type":1}` {
		t.Errorf("ping of interactions: got %d %s, want 200", got.status, got.body)
	}
	const event = `{"version":1,"application_id":"1","type":1,"event":{"type":"APPLICATION_AUTHORIZED","timestamp":"2026-03-01T12:00:00Z","data":{"user":{"id":"2"}}}}`
	for _, name := range []string{"event", "the same again"} {
		if got := send(event); got.status != http.StatusNoContent || got.body != "" {
			t.Errorf("%s: got %d %q, want 204", name, got.status, got.body)
		}
	}
	if n := b.count(t, `select count(*) from receipts`); n != 1 {
		t.Errorf("%d receipts, want one", n)
	}
	for name, header := range map[string][]string{
		"no headers":      nil,
		"no time":         {"X-Signature-Ed25519", strings.Repeat("00", 64)},
		"false signature": {"X-Signature-Ed25519", strings.Repeat("00", 64), "X-Signature-Timestamp", "1"},
		"nonsense":        {"X-Signature-Ed25519", "nonsense", "X-Signature-Timestamp", "yesterday"},
	} {
		if got := b.forged(t, event, header...); got.status != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401", name, got.status)
		}
	}
}

func TestAnswer_Zoom_EncryptedToken(t *testing.T) {
	t.Parallel()
	b := at(t, zoom.Provider, webhook.Settings{})
	got := b.send(t, zoom.Provider, webhook.SignInput{Body: []byte(`{"event":"endpoint.url_validation","payload":{"plainToken":"abc"}}`)})
	mac := hmac.New(sha256.New, []byte(providerSecret))
	mac.Write([]byte("abc"))
	if want := `{"encryptedToken":"` + hex.EncodeToString(mac.Sum(nil)) + `","plainToken":"abc"}`; got.status != http.StatusOK || got.body != want {
		t.Errorf("got %d %s, want %s", got.status, got.body, want)
	}
}

func TestAnswer_Meta_OnlyForTheToken(t *testing.T) {
	t.Parallel()
	b := at(t, meta.Provider, webhook.Settings{Options: map[string]string{"verify_token": "a-token-of-more-than-24-bytes"}})
	get := func(token string) reply {
		return do(t, request(t, http.MethodGet, b.url+"/hooks/shop?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="+token, nil))
	}
	if got := get("a-token-of-more-than-24-bytes"); got.status != http.StatusOK || got.body != "1158201444" {
		t.Errorf("got %d %s, want the challenge", got.status, got.body)
	}
	if got := get("guessed"); got.status != http.StatusUnauthorized || strings.Contains(got.body, "1158201444") {
		t.Errorf("wrong token: got %d %s, want 401 without the challenge", got.status, got.body)
	}
	if got := do(t, request(t, http.MethodGet, b.url+"/hooks/shop", nil)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("no handshake: got %d, want 405", got.status)
	}
}

func TestAnswer_Pings(t *testing.T) {
	t.Parallel()
	chat := at(t, intercom.Provider, webhook.Settings{})
	if got := chat.send(t, intercom.Provider, webhook.SignInput{Body: []byte(`{"type":"notification_event","topic":"ping","id":null}`)}); got.status != http.StatusOK {
		t.Errorf("Intercom: got %d, want 200", got.status)
	}
	hub := at(t, github.Provider, webhook.Settings{})
	if got := hub.send(t, github.Provider, webhook.SignInput{ID: "d-1", Type: "ping", Body: []byte(`{"zen":"Keep it.","hook_id":1}`)}); got.status != http.StatusAccepted {
		t.Errorf("GitHub: got %d, want 202: its ping is an event", got.status)
	}
}

// Intercom accepts an endpoint's URL only if it answers an unsigned HEAD request.
func TestAnswer_Intercom_Head(t *testing.T) {
	t.Parallel()
	b := at(t, intercom.Provider, webhook.Settings{})
	for _, path := range []string{"/hooks/shop", "/hooks/shop/"} {
		if got := do(t, request(t, http.MethodHead, b.url+path, nil)); got.status != http.StatusOK {
			t.Errorf("HEAD %s: got %d, want 200", path, got.status)
		}
	}
	if got := do(t, request(t, http.MethodGet, b.url+"/hooks/shop", nil)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: got %d, want 405", got.status)
	}
	if n := b.count(t, `select count(*) from receipts`); n != 0 {
		t.Errorf("%d receipts of questions, want none", n)
	}
	other := at(t, slack.Provider, webhook.Settings{})
	if got := do(t, request(t, http.MethodHead, other.url+"/hooks/shop", nil)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD, of a provider that does not ask so: got %d, want 405", got.status)
	}
}

// WooCommerce checks a URL with an unsigned form. No other request is accepted because it looks like this form.
func TestAnswer_WooCommerce_Ping(t *testing.T) {
	t.Parallel()
	b := at(t, hmacscheme.WooCommerce, webhook.Settings{})
	post := func(body string, header ...string) int {
		r := request(t, http.MethodPost, b.url+"/hooks/shop", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, h := range header {
			r.Header.Set(h, "bm90IGEgc2lnbmF0dXJl")
		}
		return do(t, r).status
	}
	if got := post("webhook_id=17"); got != http.StatusOK {
		t.Errorf("a ping: got %d, want 200", got)
	}
	for _, body := range []string{"", "webhook_id=", "webhook_id=17&more", "webhook_id=abc", `{"id":17}`, "webhook_id=" + strings.Repeat("1", 21)} {
		if got := post(body); got != http.StatusBadRequest {
			t.Errorf("%q: got %d, want 400", body, got)
		}
	}
	if got := post("webhook_id=17", "X-WC-Webhook-Signature"); got != http.StatusUnauthorized {
		t.Errorf("with a signature that does not fit: got %d, want 401", got)
	}
	if n := b.count(t, `select count(*) from receipts`); n != 0 {
		t.Errorf("%d receipts of pings, want none", n)
	}
	other := at(t, slack.Provider, webhook.Settings{})
	if got := do(t, request(t, http.MethodPost, other.url+"/hooks/shop", strings.NewReader("webhook_id=17"))); got.status != http.StatusBadRequest {
		t.Errorf("a provider without such a ping: got %d, want 400", got.status)
	}
}

// Linear and Paddle count only 200 as success, also for a new event.
func TestAnswer_Exactly200(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider webhook.Provider
		in       webhook.SignInput
	}{
		"linear": {linear.Provider, webhook.SignInput{ID: "d-1", Type: "Issue", Body: []byte(`{"action":"create","type":"Issue","webhookId":"w","webhookTimestamp":1,"data":{"id":"i"}}`)}},
		"paddle": {hmacscheme.Paddle, webhook.SignInput{Body: []byte(`{"event_id":"evt_1","event_type":"transaction.completed","occurred_at":"2026-03-01T12:00:00Z","data":{"id":"txn_1"}}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := at(t, c.provider, webhook.Settings{})
			if got := b.send(t, c.provider, c.in); got.status != http.StatusOK {
				t.Errorf("got %d %s, want 200", got.status, got.body)
			}
			if n := b.count(t, `select count(*) from receipts where status = 'received'`); n != 1 {
				t.Errorf("%d receipts, want one", n)
			}
			if got := b.forged(t, "{}"); got.status != http.StatusBadRequest {
				t.Errorf("forged: got %d, want 400", got.status)
			}
		})
	}
}

// If the source's template signs the ID, equal bytes under another ID are another event: a sender that only signals a
// change sends the same text each time. If the ID is unsigned, equal bytes under another ID may be a replay.
func TestDeliver_ConfiguredSender_IDSignedOrNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options map[string]string
		want    receipt.Status
	}{
		"signed":                   {map[string]string{"template": "{id}.{body}"}, receipt.Received},
		"not signed":               {map[string]string{}, receipt.NeedsReview},
		"an account in the header": {map[string]string{"template": "{id}.{body}", "account": "header:X-Account"}, receipt.NeedsReview},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options["header"], c.options["id"] = "X-Sig", "header:X-Id"
			b := at(t, hmacscheme.Provider, webhook.Settings{Options: c.options})
			for _, id := range []string{"a", "b", "b"} {
				b.send(t, hmacscheme.Provider, webhook.SignInput{ID: id, Body: []byte(`{"changed":true}`), Options: c.options})
			}
			if r := b.only(t, "a"); r.Status != receipt.Received {
				t.Errorf("the first is %s (%s)", r.Status, r.Reason)
			}
			if r := b.only(t, "b"); r.Status != c.want || r.Duplicates != 1 {
				t.Errorf("the second is %s (%s) with %d duplicates, want %s with one", r.Status, r.Reason, r.Duplicates, c.want)
			}
		})
	}
}

// A sender that accepts only one status as success gets this status, for a new event and for a duplicate.
func TestAnswer_Acknowledge_OfTheSource(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]int{"200": http.StatusOK, "204": http.StatusNoContent} {
		options := map[string]string{"header": "X-Signature", "acknowledge": status}
		b := at(t, hmacscheme.Provider, webhook.Settings{Options: options})
		for _, name := range []string{"event", "the same again"} {
			if got := b.send(t, hmacscheme.Provider, webhook.SignInput{Options: options, Body: []byte(`{"id":"1"}`)}); got.status != want || got.body != "" {
				t.Errorf("%s: got %d %q, want %d", name, got.status, got.body, want)
			}
		}
		if n := b.count(t, `select count(*) from receipts`); n != 1 {
			t.Errorf("%d receipts, want one", n)
		}
	}
	if _, err := hmacscheme.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Value: providerSecret}},
		Options: map[string]string{"header": "X-Signature", "acknowledge": "500"}}); err == nil || !strings.Contains(err.Error(), "options.acknowledge") {
		t.Errorf("status 500: %v, want it refused", err)
	}
}

// A callback that Twilio sends as GET is stored with its query as a form. A GET without a query is not a delivery.
func TestDeliver_TwilioByGET_Kept(t *testing.T) {
	t.Parallel()
	b := at(t, twilio.Provider, webhook.Settings{})
	const query = "AccountSid=AC1&MessageSid=SM1&MessageStatus=delivered"
	out, err := twilio.Provider.Sign(webhook.SignInput{Secret: providerSecret, URL: "https://pawl.example/hooks/shop?" + query})
	if err != nil {
		t.Fatal(err)
	}
	signature := out.Header.Get("X-Twilio-Signature")
	for i, want := range []int{http.StatusAccepted, http.StatusOK} {
		if got := do(t, request(t, http.MethodGet, b.url+"/hooks/shop?"+query, nil, "X-Twilio-Signature", signature)); got.status != want {
			t.Errorf("delivery %d: got %d %s, want %d", i, got.status, got.body, want)
		}
	}
	if got := do(t, request(t, http.MethodGet, b.url+"/hooks/shop?"+query+"x", nil, "X-Twilio-Signature", signature)); got.status != http.StatusUnauthorized {
		t.Errorf("another query: got %d, want 401", got.status)
	}
	if got := do(t, request(t, http.MethodGet, b.url+"/hooks/shop", nil)); got.status != http.StatusMethodNotAllowed {
		t.Errorf("no query: got %d, want 405", got.status)
	}
	if n := b.count(t, `select count(*) from receipts where type = 'message.delivered' and status = 'received' and duplicates = 1`); n != 1 {
		t.Errorf("%d receipts with one duplicate, want one", n)
	}
	if n := b.count(t, `select count(*) from receipt_bodies where body = '`+query+`' and headers->>'Content-Type' like '%x-www-form-urlencoded%'`); n != 1 {
		t.Errorf("%d bodies, want the query as a form", n)
	}
}
