//go:build !nodev

package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/scenario"
	"github.com/pawlhq/pawl/cmd/internal/dev/send"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// receiver is a server that counts the received requests.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies map[string]int
}

func receive(t *testing.T, status func(n int) int) *receiver {
	t.Helper()
	rec := &receiver{bodies: map[string]int{}}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.bodies[string(body)]++
		n := 0
		for _, c := range rec.bodies {
			n += c
		}
		w.WriteHeader(status(n))
	}))
	t.Cleanup(rec.Close)
	return rec
}

var eventID = regexp.MustCompile(`^evt_[A-Z2-7]{24}$`)

func TestSend_CountAndDuplicates_Summary(t *testing.T) {
	t.Parallel()
	rec := receive(t, func(int) int { return http.StatusAccepted })
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	r := s.Pawl(t, "send", "--source", "stripe", "--type", "invoice.paid", "--url", rec.URL, "--count", "3", "--duplicates", "2", "--concurrency", "4", "--json")
	got := commandtest.Decode[send.Result](t, r)
	if r.Code != 0 || got.Sent != 9 || got.Statuses["202"] != 9 || len(got.Events) != 3 {
		t.Fatalf("exit %d, %+v; want nine deliveries of three events", r.Code, got)
	}
	for _, e := range got.Events {
		if !eventID.MatchString(e.EventID) || len(e.Statuses) != 3 {
			t.Errorf("event %+v, want an evt_ ID and three answers", e)
		}
	}
	if len(rec.bodies) != 3 {
		t.Errorf("received %d different bodies, want 3", len(rec.bodies))
	}
	for body, n := range rec.bodies {
		if n != 3 {
			t.Errorf("a body came %d times, want 3: %.60s", n, body)
		}
	}
}

func TestSend_Refused_ExitOneWithStatus(t *testing.T) {
	t.Parallel()
	rec := receive(t, func(n int) int {
		if n == 2 {
			return http.StatusUnauthorized
		}
		return http.StatusOK
	})
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	r := s.Pawl(t, "send", "--source", "stripe", "--event-id", "evt_mine", "--duplicates", "2", "--url", rec.URL)
	if r.Code != 1 || !strings.Contains(r.Err, "1 of 3 deliveries") || !strings.Contains(r.Err, "401 Unauthorized") {
		t.Errorf("exit %d, stderr %q", r.Code, r.Err)
	}
	if strings.Count(r.Out, "evt_mine") != 3 || strings.Count(r.Out, "\n") != 3 {
		t.Errorf("stdout %q, want a line per delivery", r.Out)
	}
}

func TestSend_NobodyListens_ExitOne(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	r := s.Pawl(t, "send", "--source", "stripe", "--url", "http://127.0.0.1:1/hooks/stripe", "--json")
	if got := commandtest.Decode[send.Result](t, r); r.Code != 1 || got.Statuses["error"] != 1 {
		t.Errorf("exit %d, %+v; want exit 1 and one error", r.Code, got)
	}
	if !strings.Contains(r.Err, "connection refused: does the ingress run?") {
		t.Errorf("stderr %q", r.Err)
	}
	// The simulated Stripe API runs in pawl dev.
	commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "mode: live", "mode: live, api_key: env:KEY, api_url: 'http://127.0.0.1:1/stripe'", 1))
	if r := s.With("KEY", "rk_dev").Pawl(t, "send", "--source", "stripe"); r.Code != 1 || !strings.Contains(r.Err, "connection refused: does `pawl dev` run?") {
		t.Errorf("exit %d, stderr %q", r.Code, r.Err)
	}
}

func TestSend_Choices(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe", "gh-a": "github", "gh-b": "github"})
	for _, tt := range []struct {
		says string
		args []string
	}{
		{`no source "nope" is configured`, []string{"--source", "nope"}},
		{"gh-a, gh-b", []string{"--provider", "github"}},
		{"no source of provider", []string{"--provider", "shopify"}},
		{"is of provider stripe", []string{"--source", "stripe", "--provider", "github"}},
		{"invoice.paid", []string{"--source", "stripe", "--type", "no.such.type"}},
		{"--template", []string{"--source", "stripe", "--template", filepath.Join(t.TempDir(), "none")}},
		{"--key", []string{"--source", "stripe", "--key", filepath.Join(t.TempDir(), "none")}},
	} {
		r := s.Pawl(t, append([]string{"send"}, tt.args...)...)
		if r.Code != 1 || !strings.Contains(r.Err, tt.says) {
			t.Errorf("send %v: exit %d, stderr %q; want exit 1 and %q", tt.args, r.Code, r.Err, tt.says)
		}
	}
}

// If the source has only a public key, the error names the flag for the private key.
func TestSend_PublicKeyOnly_NamesFlag(t *testing.T) {
	t.Parallel()
	rec := receive(t, func(int) int { return http.StatusOK })
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := setup(t, "postgres://localhost/none", map[string]string{"chat": "discord", "pay": "paypal", "mail": "sendgrid", "std": "standardwebhooks"})
	for source, secret := range map[string]string{
		"chat": hex.EncodeToString(public), "pay": commandtest.Secret, "mail": commandtest.Secret, "std": "whpk_" + base64.StdEncoding.EncodeToString(public),
	} {
		r := s.With("SECRET", secret).Pawl(t, "send", "--source", source, "--url", rec.URL)
		if r.Code != 1 || !strings.Contains(r.Err, "--key FILE") || !strings.Contains(r.Err, source) {
			t.Errorf("%s: exit %d, stderr %q; want 1 and --key", source, r.Code, r.Err)
		}
	}
	key := filepath.Join(t.TempDir(), "key")
	commandtest.Write(t, key, hex.EncodeToString(private))
	if r := s.With("SECRET", hex.EncodeToString(public)).Pawl(t, "send", "--source", "chat", "--url", rec.URL, "--key", key); r.Code != 0 {
		t.Errorf("with the key: exit %d, stderr %q", r.Code, r.Err)
	}
	if len(rec.bodies) != 1 {
		t.Errorf("received %d bodies, want only the signed one", len(rec.bodies))
	}
}

func TestCountsOf(t *testing.T) {
	t.Parallel()
	if got, want := countsOf(map[string]int{"202": 1, "200": 200}), "200 × 200, 1 × 202"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScenario_Unclear_Usage(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	for _, tt := range []struct{ args, want string }{
		{"--scenario nonsense", "pawl send --list prints all stories"},
		{"--scenario upgrade --type invoice.paid", "--type cannot be combined with --scenario"},
		{"--scenario upgrade --shuffle x", "is not a whole number"},
		{"--scenario upgrade --drop 1", "--drop: 1 is not between 0 and 0.9"},
		{"--scenario upgrade --duplicate NaN", "--duplicate: NaN is not between 0 and 0.9"},
		{"--scenario upgrade --delay=-1s", "--delay: -1s is negative"},
		{"--shuffle 1", "need --scenario NAME"},
	} {
		r := s.Pawl(t, append([]string{"send"}, strings.Fields(tt.args)...)...)
		if r.Code != command.ExitUsage || !strings.Contains(r.Err, tt.want) {
			t.Errorf("send %s: code %d, %q; want %d and %q", tt.args, r.Code, r.Err, command.ExitUsage, tt.want)
		}
	}
	// This configuration sells only one plan with one price.
	for _, story := range []string{"upgrade", "refused-upgrade"} {
		r := s.Pawl(t, "send", "--scenario", story)
		if r.Code != command.ExitFailed || !strings.Contains(r.Err, "plans.prices") {
			t.Errorf("%s: code %d, %q; want the missing part of the shop", story, r.Code, r.Err)
		}
	}
}

func TestScenario_List(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "send", "--list")
	for _, s := range scenario.All {
		if !strings.Contains(r.Out, s.Name) || !strings.Contains(r.Out, s.About) {
			t.Errorf("%s is not listed:\n%s", s.Name, r.Out)
		}
	}
	if r.Code != 0 {
		t.Errorf("exit %d: %s", r.Code, r.Err)
	}
}

// keys returns a secret to verify with, a secret to sign with, and the options of a source of the provider.
func keys(t *testing.T, provider string) (verify, sign string, options map[string]string) {
	t.Helper()
	sample := providers()[provider].Sample
	k, err := sample.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k.Verify, k.Sign, sample.Options
}

// delivered returns the request that a source receives.
func delivered(t *testing.T, to forge.Target, event forge.Event) *webhook.Request {
	t.Helper()
	req, err := to.Request(t.Context(), event, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Request{Method: http.MethodPost, URL: req.URL.String(), Header: req.Header, Body: body, ReceivedAt: time.Now()}
}

// An event that is generated for a type has this type, and its content is consistent with the type.
func TestForge_TypesGiven_AreTheEventsTypes(t *testing.T) {
	t.Parallel()
	for name, types := range map[string][]string{
		"github": {
			"issues.opened", "issues.closed", "issue_comment.created", "push", "ping", "pull_request.synchronize", "pull_request_review.submitted",
			"pull_request_review_comment.created", "pull_request_review_thread.resolved", "commit_comment.created", "discussion.created",
			"discussion_comment.created", "create", "delete", "fork", "status", "release.published", "installation.created",
			"installation_repositories.added", "check_run.completed", "check_suite.completed", "deployment.created",
			"deployment_status.created", "workflow_job.queued", "member.added", "label.created", "milestone.created", "marketplace_purchase.purchased",
			"security_advisory.published", "sponsorship.created", "star.created",
		},
		"stripe":  {forge.ThinType, "v2.core.account.updated"},
		"shopify": {"orders/paid", "products/update", "customers/create", "refunds/create", "customers/redact", "app/uninstalled"},
		"linear":  {"Issue.create", "Comment.update"},
		"adyen":   {"AUTHORISATION", "REFUND", "balancePlatform.transfer.updated"},
		"meta":    {"page.feed", "whatsapp_business_account.messages"},
		"twilio":  {"message.delivered", "call.completed"},
	} {
		provider := providers()[name]
		verify, sign, options := keys(t, name)
		const url = "https://pawl.test/hooks/source"
		verifier, err := provider.New(webhook.Settings{Source: "source", URL: url, Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range types {
			event, err := forge.New(forge.Params{Provider: provider, Type: typ}, "")
			if err != nil {
				t.Errorf("%s %s: %v", name, typ, err)
				continue
			}
			events := verifier.Events(delivered(t, forge.Target{URL: url, Secret: sign, Options: options, Sign: provider.Sign}, event))
			if len(events) != 1 || events[0].Type != typ || events[0].Problem != "" {
				t.Errorf("%s %s: events = %+v, want one of that type without a problem", name, typ, events)
			}
		}
	}
}

// Without a type, the event satisfies the options of its source.
func TestForge_NoType_FitsTheOptions(t *testing.T) {
	t.Parallel()
	asked := 0
	for name, p := range providers() {
		for option, typ := range p.Sample.TypeWith {
			asked++
			verify, sign, options := keys(t, name)
			options = maps.Clone(options)
			if options == nil {
				options = map[string]string{}
			}
			key, value, _ := strings.Cut(option, "=")
			options[key] = value
			verifier, err := p.New(webhook.Settings{Source: "source", Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
			if err != nil {
				t.Fatal(err)
			}
			event, err := forge.New(forge.Params{Provider: p, Options: options}, "")
			if err != nil {
				t.Fatal(err)
			}
			r := delivered(t, forge.Target{URL: "https://pawl.test", Secret: sign, Options: options, Sign: p.Sign}, event)
			if _, err := verifier.Verify(r); err != nil {
				t.Errorf("%s with %v: %v", name, options, err)
			}
			if events := verifier.Events(r); len(events) != 1 || events[0].Type != typ || events[0].Object == "" || events[0].Problem != "" {
				t.Errorf("%s with %v: events = %+v, want one of type %s with an object and without a problem", name, options, events, typ)
			}
		}
	}
	if asked < 2 {
		t.Errorf("%d options require a type, want at least the options of Stripe and Adyen", asked)
	}
}

// If a source accepts only some accounts, an event of one of them can be sent to it.
func TestForge_ConnectedAccount_IsTheEventsAccount(t *testing.T) {
	t.Parallel()
	for name, provider := range providers() {
		if provider.Contract.Generic || provider.Contract.Account == "" {
			continue
		}
		verify, sign, options := keys(t, name)
		const url, account = "https://pawl.test/hooks/source", "acct_7"
		verifier, err := provider.New(webhook.Settings{Source: "source", URL: url, Options: options, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
		if err != nil {
			t.Fatal(err)
		}
		event, err := forge.New(forge.Params{Provider: provider, ConnectedAccount: account}, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := delivered(t, forge.Target{URL: url, Secret: sign, Options: options, Sign: provider.Sign}, event)
		if events := verifier.Events(r); len(events) != 1 || events[0].Account != account || events[0].Problem != "" {
			t.Errorf("%s: events = %+v, want one of %s", name, events, account)
		}
	}
}

// A provider's verifier accepts an event that is generated for the provider. The event is readable, and it is a
// duplicate when it is sent again.
func TestForge_EveryProvider_AdmittedAndDeduped(t *testing.T) {
	t.Parallel()
	for name, provider := range providers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verify, sign, options := keys(t, name)
			const url = "https://pawl.test/hooks/source"
			verifier, err := provider.New(webhook.Settings{
				Source: "source", URL: url, Options: options,
				Secrets: []webhook.Secret{{Label: "a", Value: verify}},
			})
			if err != nil {
				t.Fatal(err)
			}
			target := forge.Target{URL: url, Secret: sign, Options: options, Sign: provider.Sign}
			event, err := forge.New(forge.Params{Provider: provider}, "")
			if err != nil {
				t.Fatal(err)
			}
			if event.ID == "" || event.Type == "" || len(event.Body) == 0 || event.ContentType == "" {
				t.Errorf("event %q of type %q, %d bytes of %q; want all", event.ID, event.Type, len(event.Body), event.ContentType)
			}
			var first string
			for range 2 {
				r := delivered(t, target, event)
				if _, err := verifier.Verify(r); err != nil {
					t.Fatalf("refused: %v\n%s", err, r.Body)
				}
				events := verifier.Events(r)
				if len(events) != 1 || events[0].Problem != "" || events[0].ID == "" {
					t.Fatalf("events = %+v, want one without a problem", events)
				}
				if first != "" && events[0].ID != first {
					t.Errorf("sent again, the event has ID %s, and had %s", events[0].ID, first)
				}
				first = events[0].ID
				if events[0].Type == "" {
					t.Errorf("the event has no type: %s", r.Body)
				}
			}
		})
	}
}
