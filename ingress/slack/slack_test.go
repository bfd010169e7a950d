package slack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/slack"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA = "8f742231b10e8888abcd99yyyzzz85a5"
	secretB = "e6b19c573432dcc6b075501d51b51bb8"
	body    = `{"token":"t", "team_id":"T1","api_app_id":"A1","event":{"type":"app_mention","channel":"C1"},` +
		`"type":"event_callback","event_id":"Ev1","event_time":1531431954}`
)

var at = time.Unix(1_772_366_400, 0)

func TestConformance(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider: slack.Provider,
		Keys:     [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:    webhook.SignInput{Body: []byte(body)},
		Want: webhook.Event{
			ID: "Ev1", IDOrigin: webhook.FromBody, Type: "app_mention", Account: "T1", OccurredAt: time.Unix(1531431954, 0),
		},
		Headers:   []string{"X-Slack-Signature", "X-Slack-Request-Timestamp"},
		Signature: "X-Slack-Signature",
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, slack.Provider, nil)
}

func setup(t testing.TB) webhook.Verifier {
	t.Helper()
	v, err := slack.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, contentType, body string) *webhook.Request {
	t.Helper()
	out, err := slack.Provider.Sign(webhook.SignInput{Secret: secretA, At: at, ContentType: contentType, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Method: http.MethodPost, Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_Header(t *testing.T) {
	t.Parallel()
	v := setup(t)
	good := signed(t, "", body).Header.Get("X-Slack-Signature")
	for name, c := range map[string]struct {
		signature, timestamp string
		want                 webhook.Class // "" admits
	}{
		"plain":            {good, "1772366400", ""},
		"upper-case hex":   {"v0=" + strings.ToUpper(good[3:]), "1772366400", ""},
		"no version":       {good[3:], "1772366400", webhook.MalformedHeader},
		"other version":    {"v1=" + good[3:], "1772366400", webhook.MalformedHeader},
		"no hex":           {"v0=zz", "1772366400", webhook.NoMatchingSignature},
		"empty signature":  {"v0=", "1772366400", webhook.NoMatchingSignature},
		"one byte short":   {good[:len(good)-2], "1772366400", webhook.NoMatchingSignature},
		"other time":       {good, "1772366401", webhook.NoMatchingSignature},
		"time with a sign": {good, "+1772366400", webhook.MalformedHeader},
		"time with a zero": {good, "01772366400", webhook.MalformedHeader},
		"time in ms":       {good, "1772366400000", webhook.MalformedHeader},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, "", body)
			r.Header.Set("X-Slack-Signature", c.signature)
			r.Header.Set("X-Slack-Request-Timestamp", c.timestamp)
			_, err := v.Verify(r)
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

func TestAnswer_URLVerification(t *testing.T) {
	t.Parallel()
	v := setup(t)
	r := signed(t, "", `{"token":"t","challenge":"3eZbrw1aB10<script>","type":"url_verification"}`)
	if _, err := v.Verify(r); err != nil {
		t.Fatal(err)
	}
	answer, ok := v.(webhook.Answerer).Answer(r)
	if !ok || answer.Status != http.StatusOK || string(answer.Body) != "3eZbrw1aB10<script>" {
		t.Errorf("Answer: got %+v, %t, want the challenge", answer, ok)
	}
	if answer.ContentType != "text/plain; charset=utf-8" {
		t.Errorf("ContentType: got %q: anything a browser renders would be reflected", answer.ContentType)
	}
	if events := v.Events(r); len(events) != 0 {
		t.Errorf("Events: got %+v, want none for a handshake", events)
	}
	r.Header.Set("X-Slack-Signature", "v0=00")
	if _, err := v.Verify(r); err == nil {
		t.Error("an unsigned handshake is admitted")
	}
	if _, ok := v.(webhook.Answerer).Answer(signed(t, "", body)); ok {
		t.Error("an event is answered as a handshake")
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	hash := func(body string) string { return webhook.HashID([]byte(body)) }
	const (
		command     = "team_id=T1&command=%2Fdeploy&trigger_id=1.2"
		interaction = "payload=%7B%22type%22%3A%22block_actions%22%2C%22team%22%3A%7B%22id%22%3A%22T1%22%7D%7D"
		limited     = `{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820}`
		unknown     = `{"type":"something_new"}`
		noID        = `{"type":"event_callback","event":{"type":"x"}}`
	)
	v := setup(t)
	for name, c := range map[string]struct {
		contentType, body string
		want              webhook.Event
	}{
		"slash command": {form, command, webhook.Event{ID: hash(command), IDOrigin: webhook.FromHash, Type: "slash_command", Account: "T1"}},
		"interaction":   {form, interaction, webhook.Event{ID: hash(interaction), IDOrigin: webhook.FromHash, Type: "block_actions", Account: "T1"}},
		"rate limited": {"", limited, webhook.Event{ID: hash(limited), IDOrigin: webhook.FromHash, Type: "app_rate_limited", Account: "T1",
			OccurredAt: time.Unix(1518467820, 0)}},
		"unknown envelope": {"", unknown, webhook.Event{ID: hash(unknown), IDOrigin: webhook.FromHash, Type: "something_new", Problem: "unknown_envelope"}},
		"event without ID": {"", noID, webhook.Event{ID: hash(noID), IDOrigin: webhook.FromHash, Type: "x", Problem: "missing_event_id: event_id"}},
		"other form":       {form, "a=b", webhook.Event{ID: hash("a=b"), IDOrigin: webhook.FromHash, Problem: "unknown_envelope"}},
		"broken form":      {form, "a=%zz", webhook.Event{ID: hash("a=%zz"), IDOrigin: webhook.FromHash, Problem: "not_a_form"}},
		"empty form":       {form, "", webhook.Event{ID: hash(""), IDOrigin: webhook.FromHash, Problem: "empty_body"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, c.contentType, c.body)
			if _, err := v.Verify(r); err != nil {
				t.Fatalf("Verify: %v", err)
			}
			webhooktest.SameEvents(t, v.Events(r), []webhook.Event{c.want})
			answer, own := v.(webhook.Answerer).Answer(r)
			if own != (c.contentType == form) || own && (answer.Status != http.StatusOK || len(answer.Body) != 0) {
				t.Errorf("Answer: got %+v, %t; want an empty 200 for what Slack shows to its user, the usual answer else", answer, own)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f), signed(f, "", body), "X-Slack-Signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, "", body))
}

func FuzzFormEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f), signed(f, "application/x-www-form-urlencoded", "payload=%7B%7D"))
}
