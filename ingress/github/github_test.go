package github_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/github"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	secretA  = "github-secret-0123456789-a"
	secretB  = "github-secret-0123456789-b"
	delivery = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
	body     = `{"action":"opened", "issue":{"id":7,"updated_at":"2026-03-01T11:59:59Z"},"repository":{"full_name":"a/b"}}`
)

func TestConformance(t *testing.T) {
	t.Parallel()
	want := webhook.Event{
		ID: delivery, IDOrigin: webhook.FromHeader, Type: "issues.opened", Account: "a/b", Object: "7",
		OccurredAt: time.Date(2026, 3, 1, 11, 59, 59, 0, time.UTC),
	}
	suite := webhooktest.Suite{
		Provider:  github.Provider,
		Keys:      [2]webhooktest.Key{{Verify: secretA}, {Verify: secretB}},
		Input:     webhook.SignInput{ID: delivery, Type: "issues.opened", Body: []byte(body)},
		Want:      want,
		Headers:   []string{"X-Hub-Signature-256"},
		Signature: "X-Hub-Signature-256",
	}
	t.Run("JSON", func(t *testing.T) { webhooktest.Run(t, suite) })
	suite.Input.ContentType = "application/x-www-form-urlencoded"
	suite.Input.Body = []byte("payload=" + url.QueryEscape(body))
	t.Run("form", func(t *testing.T) { webhooktest.Run(t, suite) })
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, github.Provider, func(v webhooktest.Vector) (webhook.Settings, webhook.Request) {
		s := v.Settings()
		if v.LegacySHA1 {
			s.Options[github.LegacySHA1Option] = "true"
		}
		return s, v.Request()
	})
}

func setup(t testing.TB, options map[string]string) webhook.Verifier {
	t.Helper()
	v, err := github.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}}, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, event, body string) *webhook.Request {
	t.Helper()
	out, err := github.Provider.Sign(webhook.SignInput{Secret: secretA, ID: delivery, Type: event, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body}
}

func TestVerify_Header(t *testing.T) {
	t.Parallel()
	v := setup(t, nil)
	good := signed(t, "issues", body).Header.Get("X-Hub-Signature-256")
	sig := strings.TrimPrefix(good, "sha256=")
	for name, c := range map[string]struct {
		header string
		class  webhook.Class
	}{
		"upper-case hex":    {"sha256=" + strings.ToUpper(sig), ""},
		"no prefix":         {sig, webhook.MalformedHeader},
		"upper-case prefix": {"SHA256=" + sig, webhook.MalformedHeader},
		"other hash":        {"sha512=" + sig, webhook.MalformedHeader},
		"sha1":              {"sha1=" + sig, webhook.MalformedHeader},
		"quoted":            {`"` + good + `"`, webhook.MalformedHeader},
		"trailing space":    {good + " ", webhook.NoMatchingSignature},
		"prefix twice":      {"sha256=" + good, webhook.NoMatchingSignature},
		"prefix only":       {"sha256=", webhook.NoMatchingSignature},
		"list":              {good + "," + good, webhook.NoMatchingSignature},
		"short":             {good[:len(good)-2], webhook.NoMatchingSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, "issues", body)
			r.Header.Set("X-Hub-Signature-256", c.header)
			_, err := v.Verify(r)
			if class, _ := webhook.ClassOf(err); class != c.class || (err == nil) != (c.class == "") {
				t.Errorf("got %v, want class %q", err, c.class)
			}
		})
	}
}

func TestVerify_SHA1Only_NeedsOption(t *testing.T) {
	t.Parallel()
	r := signed(t, "issues", body)
	r.Header.Del("X-Hub-Signature-256")
	if _, err := setup(t, nil).Verify(r); !isClass(err, webhook.MissingHeader) {
		t.Errorf("without the option: got %v, want missing_header", err)
	}
	legacy := setup(t, map[string]string{github.LegacySHA1Option: "true"})
	if _, err := legacy.Verify(r); err != nil {
		t.Errorf("with the option: %v", err)
	}
	// A valid SHA-1 signature does not override an invalid SHA-256 signature.
	r.Header.Set("X-Hub-Signature-256", "sha256=00")
	if _, err := legacy.Verify(r); !isClass(err, webhook.NoMatchingSignature) {
		t.Errorf("wrong SHA-256 beside a right SHA-1: got %v, want no_matching_signature", err)
	}
	if _, err := github.Provider.New(webhook.Settings{Source: "s", Secrets: []webhook.Secret{{Label: "a", Value: secretA}},
		Options: map[string]string{github.LegacySHA1Option: "yes"}}); err == nil {
		t.Error("option legacy_sha1=yes is accepted")
	}
}

func isClass(err error, want webhook.Class) bool {
	class, ok := webhook.ClassOf(err)
	return ok && class == want
}

// TestEvents_Examples reads GitHub's example of each event type.
func TestEvents_Examples(t *testing.T) {
	t.Parallel()
	v := setup(t, nil)
	files, err := filepath.Glob(filepath.Join("testdata", "payloads", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no payloads: %v", err)
	}
	for _, file := range files {
		want := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			e := v.Events(signed(t, want, string(data)))[0]
			if e.Problem != "" || e.Type != want || e.ID != delivery || e.IDOrigin != webhook.FromHeader {
				t.Errorf("got %+v, want type %s and no problem", e, want)
			}
			if e.Object == "" && want != "github_app_authorization.revoked" {
				t.Error("no object")
			}
		})
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	v := setup(t, nil)
	comment := `{"action":"created","issue":{"id":1},"comment":{"id":2,"updated_at":"2026-01-01T00:00:00Z"},"organization":{"login":"o"}}`
	header := webhook.Event{ID: delivery, IDOrigin: webhook.FromHeader}
	with := func(f func(*webhook.Event)) webhook.Event { e := header; f(&e); return e }
	for name, c := range map[string]struct {
		event, body string
		change      func(*webhook.Request)
		want        webhook.Event
	}{
		"comment": {event: "issue_comment", body: comment, want: with(func(e *webhook.Event) {
			e.Type, e.Account, e.Object, e.OccurredAt = "issue_comment.created", "o", "2", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		})},
		"comment as issue": {event: "issues", body: comment, want: with(func(e *webhook.Event) {
			e.Type, e.Account, e.Object = "issues.created", "o", "1"
			e.Problem = "header_disagrees: X-GitHub-Event does not match the body"
		})},
		"issue as push": {event: "push", body: comment, want: with(func(e *webhook.Event) {
			e.Type, e.Account = "push.created", "o"
			e.Problem = "header_disagrees: X-GitHub-Event does not match the body"
		})},
		"event that GitHub adds": {event: "teleport", body: `{"teleport":{"id":"x"},"installation":{"id":3},"organization":{"login":"o"}}`, want: with(func(e *webhook.Event) {
			e.Type, e.Account, e.Object = "teleport", "3", "x"
		})},
		"no event header": {body: `{}`, want: with(func(e *webhook.Event) { e.Problem = "missing_event_type: header X-GitHub-Event" })},
		"no delivery header": {event: "a", body: `{}`, change: func(r *webhook.Request) { r.Header.Del("X-GitHub-Delivery") },
			want: webhook.Event{ID: webhook.HashID([]byte("{}")), IDOrigin: webhook.FromHash, Type: "a"}},
		"two delivery headers": {event: "a", body: `{}`, change: func(r *webhook.Request) { r.Header.Add("X-GitHub-Delivery", "b") },
			want: webhook.Event{ID: webhook.HashID([]byte("{}")), IDOrigin: webhook.FromHash, Type: "a",
				Problem: "invalid_event_id: header X-GitHub-Delivery has several values"}},
		"delivery of 10 KB": {event: "a", body: `{}`, change: func(r *webhook.Request) { r.Header.Set("X-GitHub-Delivery", strings.Repeat("x", 10<<10)) },
			want: webhook.Event{ID: webhook.HashID([]byte(strings.Repeat("x", 10<<10))), IDOrigin: webhook.FromHash, Type: "a",
				Problem: "invalid_event_id: longer than 200 bytes"}},
		"form without payload": {event: "a", body: `a=b`, change: func(r *webhook.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		},
			want: with(func(e *webhook.Event) { e.Type, e.Problem = "a", "not_a_form: no single field payload" })},
		"not JSON": {event: "a", body: `Hello, World!`, want: with(func(e *webhook.Event) { e.Type, e.Problem = "a", "not_json" })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, c.event, c.body)
			if c.change != nil {
				c.change(r)
			}
			webhooktest.SameEvents(t, v.Events(r), []webhook.Event{c.want})
		})
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f, nil), signed(f, "issues", body), "X-Hub-Signature-256")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, nil), signed(f, "issues", body))
}

// FuzzForms parses forms, whose payload is decoded twice.
func FuzzForms(f *testing.F) {
	r := signed(f, "issues", "payload="+url.QueryEscape(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	webhooktest.FuzzEvents(f, setup(f, nil), r)
}
