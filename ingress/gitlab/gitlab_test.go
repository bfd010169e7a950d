package gitlab_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/ingress/gitlab"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/ingress/webhook/webhooktest"
)

const (
	tokenA   = "glwt-0123456789abcdefghijkl"
	tokenB   = "glwt-lkjihgfedcba9876543210"
	signingA = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3A="
	signingB = "whsec_cG9ubWxramloZ2ZlZGNiYTk4NzY1NDMyMTA="
	body     = `{"object_kind":"issue", "project":{"id":1},"object_attributes":{"id":301,"updated_at":"2013-12-03 17:15:43 UTC"}}`
)

var (
	at   = time.Unix(1_772_366_400, 0)
	want = webhook.Event{
		ID: "d-1", IDOrigin: webhook.FromHeader, Type: "Issue Hook", Account: "1", Object: "301",
		OccurredAt: time.Date(2013, 12, 3, 17, 15, 43, 0, time.UTC),
	}
)

func TestConformance_Token(t *testing.T) {
	t.Parallel()
	provider := gitlab.Provider
	provider.Contract.Tolerance = 0 // a token has no timestamp
	webhooktest.Run(t, webhooktest.Suite{
		Provider:     provider,
		Keys:         [2]webhooktest.Key{{Verify: tokenA}, {Verify: tokenB}},
		Input:        webhook.SignInput{ID: "d-1", Type: "Issue Hook", Body: []byte(body)},
		Want:         want,
		Headers:      []string{"X-Gitlab-Token"},
		Signature:    "X-Gitlab-Token",
		BodyUnsigned: true,
	})
}

func TestConformance_SigningToken(t *testing.T) {
	t.Parallel()
	webhooktest.Run(t, webhooktest.Suite{
		Provider:  gitlab.Provider,
		Keys:      [2]webhooktest.Key{{Verify: signingA}, {Verify: signingB}},
		Input:     webhook.SignInput{ID: "d-1", Type: "Issue Hook", Body: []byte(body)},
		Want:      want,
		Headers:   []string{"webhook-id", "webhook-timestamp", "webhook-signature"},
		Signature: "webhook-signature",
		Join:      func(values ...string) string { return strings.Join(values, " ") },
	})
}

func TestVectors(t *testing.T) {
	t.Parallel()
	webhooktest.Vectors(t, gitlab.Provider, nil)
}

func setup(t testing.TB, options map[string]string, secrets ...string) webhook.Verifier {
	t.Helper()
	s := webhook.Settings{Source: "s", Options: options}
	for _, value := range secrets {
		s.Secrets = append(s.Secrets, webhook.Secret{Label: value[:6], Value: value})
	}
	v, err := gitlab.Provider.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func signed(t testing.TB, secret string, options map[string]string) *webhook.Request {
	t.Helper()
	out, err := gitlab.Provider.Sign(webhook.SignInput{Secret: secret, At: at, ID: "d-1", Type: "Issue Hook", Body: []byte(body), Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Header: out.Header, Body: out.Body, ReceivedAt: at}
}

func TestVerify_BothSchemes(t *testing.T) {
	t.Parallel()
	signing := map[string]string{"scheme": "signing"}
	both := signed(t, signingA, nil)
	both.Header.Set("X-Gitlab-Token", tokenA)
	forged := &webhook.Request{Header: both.Header.Clone(), Body: both.Body, ReceivedAt: at}
	forged.Header.Set("webhook-signature", "v1,AAAA")
	for name, c := range map[string]struct {
		v    webhook.Verifier
		r    *webhook.Request
		want webhook.Class // "" admits
	}{
		"token on a source with both":               {setup(t, nil, tokenA, signingA), signed(t, tokenA, nil), ""},
		"signature on a source with both":           {setup(t, nil, tokenA, signingA), signed(t, signingA, nil), ""},
		"right token beside a false signature":      {setup(t, nil, tokenA, signingA), forged, webhook.NoMatchingSignature},
		"signature unread on a source with a token": {setup(t, nil, tokenA), both, ""},
		"token on a source that signs":              {setup(t, nil, signingA), signed(t, tokenA, nil), webhook.MissingHeader},
		"signing token sent as token": {setup(t, nil, signingA), signed(t, signingA, map[string]string{"scheme": "token"}),
			webhook.MissingHeader},
		"scheme by its long name": {setup(t, map[string]string{"scheme": "signing_token"}, tokenA),
			signed(t, tokenA, map[string]string{"scheme": "signing_token"}), ""},
		"signing token without prefix": {setup(t, signing, tokenA), signed(t, tokenA, signing), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := c.v.Verify(c.r)
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

// With a signed ID, equal bodies are different events, for example when a branch is pushed back and forth.
func TestEvents_IDSigned(t *testing.T) {
	t.Parallel()
	withoutID := signed(t, tokenA, nil)
	withoutID.Header.Del("Idempotency-Key")
	beside := signed(t, tokenA, nil)
	beside.Header.Set("webhook-id", "d-2")
	for name, c := range map[string]struct {
		v    webhook.Verifier
		r    *webhook.Request
		want bool
	}{
		"signing token":                 {setup(t, nil, signingA), signed(t, signingA, nil), true},
		"signature on a source of both": {setup(t, nil, tokenA, signingA), signed(t, signingA, nil), true},
		"token on a source of both":     {setup(t, nil, tokenA, signingA), signed(t, tokenA, nil), false},
		"token, with the signed header": {setup(t, nil, tokenA, signingA), beside, false},
		"signature that nobody reads":   {setup(t, nil, tokenA), signed(t, signingA, nil), false},
		"token, no ID":                  {setup(t, nil, tokenA), withoutID, false},
	} {
		if got := c.v.Events(c.r)[0]; (got.Identity == webhook.ByID) != c.want {
			t.Errorf("%s: ID %s from the %s: identity %q, want it signed %t", name, got.ID, got.IDOrigin, got.Identity, c.want)
		}
	}
}

func TestVerify_SigningHeader(t *testing.T) {
	t.Parallel()
	v := setup(t, nil, signingA)
	good := signed(t, signingA, nil).Header.Get("webhook-signature")
	for name, c := range map[string]struct {
		header, value string
		want          webhook.Class // "" admits
	}{
		"other version beside":  {"webhook-signature", "v1a,AAAA " + good, ""},
		"only another version":  {"webhook-signature", "v1a," + good[3:], webhook.MalformedHeader},
		"no version":            {"webhook-signature", good[3:], webhook.MalformedHeader},
		"dot in the ID":         {"webhook-id", "d.1", webhook.NoMatchingSignature},
		"other ID":              {"webhook-id", "d-2", webhook.NoMatchingSignature},
		"timestamp no integer":  {"webhook-timestamp", "1772366400.0", webhook.MalformedHeader},
		"timestamp in ms":       {"webhook-timestamp", "1772366400000", webhook.MalformedHeader},
		"timestamp other bytes": {"webhook-timestamp", "1772366401", webhook.NoMatchingSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, signingA, nil)
			r.Header.Set(c.header, c.value)
			_, err := v.Verify(r)
			if got, _ := webhook.ClassOf(err); got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want class %q", err, c.want)
			}
		})
	}
}

func TestNew_NamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := gitlab.Provider.New(webhook.Settings{
		Source:    "repo",
		Secrets:   []webhook.Secret{{Label: "old", Value: "short"}, {Label: "new", Value: "whsec_!"}},
		Tolerance: -1,
	})
	if err == nil {
		t.Fatal("New: no error")
	}
	for _, want := range []string{"repo", "(old)", "(new)", "tolerance"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New: %q does not name %s", err, want)
		}
	}
	if _, err := gitlab.Provider.New(webhook.Settings{
		Source: "repo", Secrets: []webhook.Secret{{Label: "a", Value: tokenA}}, Options: map[string]string{"scheme": "basic"},
	}); err == nil {
		t.Error("an unknown scheme is accepted")
	}
}

func TestEvents_Samples(t *testing.T) {
	t.Parallel()
	v := setup(t, nil, tokenA)
	for file, want := range map[string]webhook.Event{
		"gitlab-push-event.json":     {Type: "push", Account: "15"},
		"gitlab-issue-event.json":    {Type: "issue", Account: "14", Object: "301", OccurredAt: time.Date(2013, 12, 3, 17, 15, 43, 0, time.UTC)},
		"gitlab-pipeline-event.json": {Type: "pipeline", Account: "1", Object: "31"},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", "payloads", file))
		if err != nil {
			t.Fatal(err)
		}
		want.ID, want.IDOrigin = webhook.HashID(raw), webhook.FromHash
		webhooktest.SameEvents(t, v.Events(&webhook.Request{Body: raw}), []webhook.Event{want})
	}
}

func TestEvents_TypeAndAccount(t *testing.T) {
	t.Parallel()
	v := setup(t, nil, tokenA)
	for name, c := range map[string]struct{ header, body, wantType, wantAccount, wantProblem string }{
		"header leads":               {"Push Hook", `{"object_kind":"push","event_name":"push"}`, "Push Hook", "", ""},
		"system hook":                {"System Hook", `{"event_name":"project_create","project_id":74}`, "project_create", "74", ""},
		"system hook with a kind":    {"System Hook", `{"object_kind":"merge_request","event_name":"x"}`, "merge_request", "", ""},
		"system hook without either": {"System Hook", `{}`, "System Hook", "", ""},
		"no header, event_name":      {"", `{"event_name":"project_create"}`, "project_create", "", ""},
		"nothing":                    {"", `{}`, "", "", "missing_event_type: object_kind"},
		"project of the object":      {"Note Hook", `{"object_attributes":{"project_id":5}}`, "Note Hook", "5", ""},
		"own project first":          {"Note Hook", `{"project_id":4,"object_attributes":{"project_id":5}}`, "Note Hook", "4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &webhook.Request{Header: http.Header{}, Body: []byte(c.body)}
			if c.header != "" {
				r.Header.Set("X-Gitlab-Event", c.header)
			}
			got := v.Events(r)[0]
			if got.Type != c.wantType || got.Account != c.wantAccount || got.Problem != c.wantProblem {
				t.Errorf("got type %q, account %q, problem %q; want %q, %q, %q", got.Type, got.Account, got.Problem, c.wantType, c.wantAccount, c.wantProblem)
			}
		})
	}
}

func TestEvents_IDHeaders(t *testing.T) {
	t.Parallel()
	v := setup(t, nil, tokenA)
	r := signed(t, tokenA, nil)
	r.Header.Set("X-Gitlab-Event-UUID", "uuid-1")
	if got := v.Events(r)[0]; got.ID != "d-1" {
		t.Errorf("ID: got %s, want the Idempotency-Key", got.ID)
	}
	r.Header.Del("Idempotency-Key")
	if got := v.Events(r)[0]; got.ID != "uuid-1" || got.IDOrigin != webhook.FromHeader {
		t.Errorf("ID: got %s (%s), want the event's UUID", got.ID, got.IDOrigin)
	}
}

func FuzzVerify(f *testing.F) {
	webhooktest.FuzzVerify(f, setup(f, nil, signingA), signed(f, signingA, nil), "webhook-signature")
}

func FuzzEvents(f *testing.F) {
	webhooktest.FuzzEvents(f, setup(f, nil, tokenA), signed(f, tokenA, nil))
}
