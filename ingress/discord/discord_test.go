package discord_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/discord"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const body = `{"version":1, "application_id":"123","type":1,"event":{"type":"ENTITLEMENT_CREATE",` +
	`"timestamp":"2024-10-18T14:42:53.064834","data":{"id":"ent-1"}}}`

var (
	at   = time.Unix(1_772_366_400, 0)
	keyA = key(1)
	keyB = key(2)
)

// key returns the same key pair in each run.
func key(n byte) webhooktest.Key {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	private := ed25519.NewKeyFromSeed(seed)
	return webhooktest.Key{Verify: hex.EncodeToString(private[ed25519.SeedSize:]), Sign: hex.EncodeToString(seed)}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: discord.Provider,
		Keys:     [2]webhooktest.Key{keyA, keyB},
		Input:    webhook.SignInput{Body: []byte(body)},
		Want: webhook.Event{
			ID: webhook.HashID([]byte(body)), IDOrigin: webhook.FromHash, Type: "ENTITLEMENT_CREATE", Account: "123", Object: "ent-1",
			OccurredAt: time.Date(2024, 10, 18, 14, 42, 53, 64_834_000, time.UTC),
		},
		Headers:   []string{"X-Signature-Ed25519", "X-Signature-Timestamp"},
		Signature: "X-Signature-Ed25519",
	})
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := discord.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: keyA.Verify}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, body string) *webhook.Request {
	t.Helper()
	out, err := discord.Provider.Sign(webhook.SignInput{Secret: keyA.Sign, At: at, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Method: http.MethodPost, Header: out.Header, Body: out.Body, ReceivedAt: at}
}

// Discord probes endpoints with invalid signatures and requires 401 for each.
func TestVerify_FalseSignature_NeverMalformed(t *testing.T) {
	t.Parallel()
	v := setup(t)
	good := signed(t, body).Header.Get("X-Signature-Ed25519")
	for name, signature := range map[string]string{
		"zeros":      strings.Repeat("0", 128),
		"short":      good[:126],
		"long":       good + "00",
		"odd length": good[1:],
		"no hex":     "not a signature",
	} {
		for _, stamp := range []string{"1772366400", "yesterday"} {
			r := signed(t, body)
			r.Header.Set("X-Signature-Ed25519", signature)
			r.Header.Set("X-Signature-Timestamp", stamp)
			_, err := v.Verify(r)
			if class, ok := webhook.ClassOf(err); !ok || class.Malformed() {
				t.Errorf("%s, timestamp %s: got %v, want a class that is answered with 401", name, stamp, err)
			}
		}
	}
	upper := signed(t, body)
	upper.Header.Set("X-Signature-Ed25519", strings.ToUpper(good))
	if _, err := v.Verify(upper); err != nil {
		t.Errorf("upper-case hex: %v", err)
	}
}

func TestNew_PublicKeyForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value string
		ok    bool
	}{
		"hex":        {keyA.Verify, true},
		"upper case": {strings.ToUpper(keyA.Verify), true},
		"31 bytes":   {keyA.Verify[2:], false},
		"64 bytes":   {keyA.Verify + keyA.Verify, false},
		"no hex":     {strings.Repeat("g", 64), false},
	} {
		_, err := discord.Provider.New(webhook.Settings{Source: "bot", Secrets: []webhook.Secret{{Label: "a", Value: c.value}}})
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted=%t", name, err, c.ok)
		}
		if err != nil && !strings.Contains(err.Error(), "bot") {
			t.Errorf("%s: %q does not name the source", name, err)
		}
	}
}

func TestAnswer_Ping(t *testing.T) {
	t.Parallel()
	v := setup(t)
	for name, c := range map[string]struct {
		body   string
		status int
		answer string
	}{
		"webhook event": {`{"version":1,"application_id":"123","type":0}`, http.StatusNoContent, ""},
		"interaction":   {`{"id":"9","application_id":"123","token":"t","version":1,"type":1}`, http.StatusOK, `{"type":1}`},
		"bare":          {`{"type":1}`, http.StatusOK, `{"type":1}`},
	} {
		r := signed(t, c.body)
		answer, ok := v.(webhook.Answerer).Answer(r)
		if !ok || answer.Status != c.status || string(answer.Body) != c.answer || answer.ContentType != "application/json" {
			t.Errorf("%s: got %+v, %t, want %d %s", name, answer, ok, c.status, c.answer)
		}
		if events := v.Events(r); len(events) != 0 {
			t.Errorf("%s: got %+v, want no event for a ping", name, events)
		}
	}
	if _, ok := v.(webhook.Answerer).Answer(signed(t, body)); ok {
		t.Error("an event is answered as a ping")
	}
	if got := discord.Provider.Contract.Acknowledge; got.Status != http.StatusNoContent {
		t.Errorf("Acknowledge: got %d, want 204", got.Status)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const (
		command = `{"id":"9","application_id":"123","token":"t","version":1,"type":2}`
		unknown = `{"application_id":"123"}`
	)
	v := setup(t)
	for body, want := range map[string]webhook.Event{
		command: {Type: "interaction.2", Account: "123", Object: "9"},
		unknown: {Account: "123", Problem: "unknown_envelope"},
	} {
		want.ID, want.IDOrigin = webhook.HashID([]byte(body)), webhook.FromHash
		webhooktest.SameEvents(t, v.Events(signed(t, body)), []webhook.Event{want})
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f), signed(f, body), "X-Signature-Ed25519")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, body))
}
