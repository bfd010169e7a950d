package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/stripe"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// provider simulates an identity provider that signs in the next person of its queue.
func provider(t *testing.T) *mockoidc.MockOIDC {
	t.Helper()
	p, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

func withProvider(t *testing.T, p *mockoidc.MockOIDC) *stand {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(file, []byte(`
database: env:DATABASE
sources:
  stripe: {provider: stripe, mode: test, secrets: [{value: env:SECRET}]}
console:
  listen: 127.0.0.1:0
  url: http://127.0.0.1
  oidc: {issuer: "`+p.Issuer()+`", client_id: "`+p.ClientID+`", client_secret: env:SECRET, scopes: [openid, email, groups]}
  roles: {oncall: operator}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"DATABASE": "postgres://unused", "SECRET": p.ClientSecret}
	loaded, err := config.LoadToAsk(file, func(name string) (string, bool) {
		value, set := environment[name]
		return value, set
	}, map[string]webhook.Provider{"stripe": stripe.Provider})
	if err != nil {
		t.Fatal(err)
	}
	return newStand(t, func(c *config.Config) { c.Console = loaded.Console })
}

// signIn follows the redirects to the provider and back, and returns the console's response.
func (b *browser) signIn(next string) *answer {
	b.t.Helper()
	to := b.get("/sign-in/oidc?next=" + url.QueryEscape(next))
	if to.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("to the provider: %d %s", to.StatusCode, to.text)
	}
	return b.get(b.back(to.Header.Get("Location")))
}

// back returns the URL to which the provider redirects the browser.
func (b *browser) back(to string) string {
	b.t.Helper()
	r, err := b.Get(to)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = r.Body.Close()
	at := r.Header.Get("Location")
	_, path, found := strings.Cut(at, "http://127.0.0.1/")
	if !found {
		b.t.Fatalf("the provider sends to %q (%d)", at, r.StatusCode)
	}
	return "/" + path
}

func ada(groups ...string) *mockoidc.MockUser {
	return &mockoidc.MockUser{Subject: "1", Email: "ada@acme.example", EmailVerified: true, Groups: groups}
}

func TestOIDC_GroupsGiveRoles(t *testing.T) {
	t.Parallel()
	p := provider(t)
	s := withProvider(t, p)
	b := s.browser()
	p.QueueUser(ada("staff", "oncall"))
	got := b.signIn("/events")
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/events" {
		t.Fatalf("%d to %q: %s", got.StatusCode, got.Header.Get("Location"), got.text)
	}
	form := url.Values{"verb": {"pause-sink"}, "target": {"finance"}, "reason": {"test"}}
	if got := b.post("/decide", form).StatusCode; got != http.StatusOK {
		t.Errorf("a decision of an operator: %d", got)
	}
	of := ` where issuer = $1 and subject = '1'`
	if n := s.count(`select count(*) from operator_actions`+of+` and actor = 'ada@acme.example'`, p.Issuer()); n != 1 {
		t.Errorf("%d in the audit trail", n)
	}
}

func TestOIDC_NoRoleOrNoVerifiedAddress_NotLetIn(t *testing.T) {
	t.Parallel()
	p := provider(t)
	s := withProvider(t, p)
	unverified := ada("oncall")
	unverified.EmailVerified = false
	for name, c := range map[string]struct {
		user *mockoidc.MockUser
		want int
	}{"no group with a role": {ada("staff"), http.StatusForbidden},
		"an address that is not verified": {unverified, http.StatusUnauthorized}} {
		p.QueueUser(c.user)
		b := s.browser()
		if got := b.signIn("/"); got.StatusCode != c.want {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
		if got := b.get("/").StatusCode; got != http.StatusSeeOther {
			t.Errorf("%s: is signed in", name)
		}
	}
}

// The callback URL of another person's sign-in does not sign in the visitor. A code is valid only once.
func TestOIDC_CallbackOfAnotherBrowser_Refused(t *testing.T) {
	t.Parallel()
	p := provider(t)
	s := withProvider(t, p)
	eve, victim := s.browser(), s.browser()
	p.QueueUser(ada("oncall"))
	back := eve.back(eve.get("/sign-in/oidc").Header.Get("Location"))
	if got := victim.get(back).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("a browser that has begun nothing: %d", got)
	}
	victim.get("/sign-in/oidc")
	if got := victim.get(back).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("a browser that has begun another one: %d", got)
	}
	if got := eve.get(back).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("the browser that has begun it: %d", got)
	}
	if got := eve.get(back).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("a second time: %d", got)
	}
	if n := s.count(`select count(*) from sessions`); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

func TestOIDC_ProviderAway_SaysSo(t *testing.T) {
	t.Parallel()
	p := provider(t)
	s := withProvider(t, p)
	if err := p.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if got := s.browser().get("/sign-in/oidc"); got.StatusCode != http.StatusBadGateway {
		t.Errorf("%d", got.StatusCode)
	}
}
