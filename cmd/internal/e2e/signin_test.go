package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/oauth2-proxy/mockoidc"

	"github.com/pawlhq/pawl/schema/schematest"
)

// signedIn is a console in a separate process with its own database role and an identity provider.
type signedIn struct {
	*browser
	home     string
	db       *pgxpool.Pool
	provider *mockoidc.MockOIDC
}

func newSignedIn(t *testing.T) *signedIn {
	t.Helper()
	s := &signedIn{browser: newBrowser(t), db: schematest.New(t)}
	var err error
	if s.provider, err = mockoidc.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.provider.Shutdown() })
	dsn, err := url.Parse(s.db.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	dsn.User = url.UserPassword(schematest.Console, schematest.Console)
	w := &world{t: t, dir: t.TempDir()}
	listen := schematest.FreeAddr(t)
	s.home = "http://" + listen
	w.write("database.url", dsn.String())
	w.write("temporal.toml", "[profile.default]\naddress = \"127.0.0.1:1\"\n")
	w.write("pawl.yaml", fmt.Sprintf(`
database: file:database.url
temporal: {config_file: temporal.toml}
sources: {stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}]}}
sinks: {finance: {url: "http://finance.test"}, workspaces: {url: "http://workspaces.test"}, email: {address: "mail.test:25", from: "a@b.test"}}
ops: {console: "127.0.0.1:0"}
console:
  listen: %q
  url: %q
  oidc: {issuer: %q, client_id: %q, client_secret: env:OIDC, scopes: [openid, email, groups]}
  roles: {oncall: admin}
`, listen, s.home, s.provider.Issuer(), s.provider.ClientID))
	p := startPawl(t, "console", func(cmd *exec.Cmd) {
		cmd.Env = append(plainEnv(), "SECRET="+secret, "OIDC="+s.provider.ClientSecret)
	}, "--config", filepath.Join(w.dir, "pawl.yaml"), "--log-format", "json", "console")
	p.awaitLog("console listens")
	if role := p.awaitLog("the console has its own database role")["role"]; role != schematest.Console {
		t.Errorf("the console works as %v", role)
	}
	return s
}

// worker starts a worker, which executes the decisions that the console requests.
func (s *signedIn) worker() {
	s.t.Helper()
	server, _ := temporal(s.t)
	w := &world{t: s.t, dir: s.t.TempDir()}
	w.write("database.url", s.db.Config().ConnString())
	w.write("temporal.toml", fmt.Sprintf("[profile.default]\naddress = %q\nnamespace = \"default\"\n", server.Addr()))
	w.write("pawl.yaml", fmt.Sprintf(`
database: file:database.url
temporal: {config_file: temporal.toml, task_queue: %q}
sources: {stripe: {provider: stripe, mode: live, secrets: [{value: env:SECRET}]}}
sinks: {finance: {url: "http://finance.test"}, workspaces: {url: "http://workspaces.test"}, email: {address: "mail.test:25", from: "a@b.test"}}
ops: {worker: "127.0.0.1:0"}
`, "e2e-"+filepath.Base(filepath.Dir(w.dir))))
	w.worker("")
}

// signIn follows a link to the console until the provider has signed the person in.
func (s *signedIn) signIn(path string) {
	s.t.Helper()
	s.provider.QueueUser(&mockoidc.MockUser{Subject: "1", Email: "ada@acme.example", EmailVerified: true, Groups: []string{"oncall"}})
	s.look(s.home+path, "light", 1440)
	s.click("Sign in with your identity provider")
	await(s.t, patience, func() error {
		if at := get(s.browser, chromedp.Location()); at != s.home+path {
			return fmt.Errorf("the sign-in leads to %s, want %s", at, path)
		}
		return nil
	})
	// The redirects to the provider and back use other processes of Chromium, in which chromedp loses the page.
	s.look(s.home+path, "light", 1440)
	s.do(chromedp.WaitVisible(`//header//summary[normalize-space()="ada@acme.example"]`))
}

// session returns the session cookie of the browser.
func (s *signedIn) session() *http.Cookie {
	s.t.Helper()
	for _, c := range get(s.browser, func(ctx context.Context, t *chromedp.Target) ([]*network.Cookie, error) {
		found, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{URLs: []string{s.home}})
		return found.Cookies, err
	}) {
		if c.Name == "pawl" {
			return &http.Cookie{Name: c.Name, Value: c.Value}
		}
	}
	s.t.Fatal("the browser has no session")
	return nil
}

// asThief opens a page in another client with a copied cookie, and returns the status.
func (s *signedIn) asThief(cookie *http.Cookie) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.home+"/tokens", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.AddCookie(cookie)
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = got.Body.Close()
	return got.StatusCode
}

func (s *signedIn) menu(button string) {
	s.t.Helper()
	s.do(chromedp.Click(chromedp.CSS("header .who summary"), chromedp.NodeVisible),
		chromedp.Click(fmt.Sprintf(`//header//button[normalize-space()=%q]`, button), chromedp.NodeVisible))
	s.shows("Sign in")
}

// A person signs in with a real provider. A session ends when its person signs out; a second button ends all sessions
// of the person. A copied cookie is then invalid, and the browser's back button shows no content.
func TestConsole_OIDC_SignedOutEverywhere_CookieIsWorthNothing(t *testing.T) {
	s := newSignedIn(t)
	s.signIn("/audit")
	first := s.session()
	if seen := get(s.browser, chromedp.Evaluate[string](`document.cookie`)); seen != "" {
		t.Errorf("a script sees the cookies %q", seen)
	}
	if got := s.asThief(first); got != http.StatusOK {
		t.Fatalf("the cookie elsewhere, while the session lasts: %d", got)
	}
	s.menu("Sign out")
	if got := s.asThief(first); got != http.StatusSeeOther {
		t.Errorf("the cookie of a session that has ended: %d", got)
	}
	s.do(chromedp.NavigateBack())
	s.shows("Sign in with your identity provider")

	s.signIn("/tasks")
	one := s.session()
	if one.Value == first.Value {
		t.Error("the second sign-in has the first one's secret")
	}
	s.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) { // a separate browser context, as on another machine
		_, err := cdp.Call(ctx, target, network.ClearBrowserCookies, cdp.Empty{})
		return chromedp.Void{}, err
	})
	s.signIn("/tasks")
	s.menu("Sign out everywhere")
	if got := s.asThief(one); got != http.StatusSeeOther {
		t.Errorf("the session on the other machine: %d", got)
	}
	s.noFaults("signing in and out")
}

// A page of another origin cannot make decisions or read anything with forms and scripts, and cannot frame the
// console. The browser sends the cookie with requests from another origin of the same site, but even that origin can
// do nothing.
func TestConsole_PageOfAnotherOrigin_DecidesAndFramesNothing(t *testing.T) {
	s := newSignedIn(t)
	s.worker()
	s.signIn("/")
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/form":
			_, _ = fmt.Fprintf(w, `<form method=post action="%s/decide"><input name=verb value=pause-sink><input name=target value=finance>
				<input name=reason value=evil></form><script>document.forms[0].submit()</script>`, s.home)
		case "/fetch":
			_, _ = fmt.Fprintf(w, `<main>begun</main><script>
				const post = (path, type, body) => fetch("%s" + path, {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": type}, body});
				const read = fetch("%[1]s/tokens", {credentials: "include"}).then((r) => r.text());
				Promise.allSettled([post("/decide", "application/x-www-form-urlencoded", "verb=pause-sink&target=finance&reason=evil"),
					post("/api/v1/sinks/finance/pause", "text/plain", '{"reason":"evil"}'), post("/sign-out", "text/plain", ""), read])
					.then((all) => { document.querySelector("main").textContent = "ended: " + (all[3].status); });</script>`, s.home)
		case "/frame":
			_, _ = fmt.Fprintf(w, `<main>a game</main><iframe src="%s/decide?verb=pause-sink&target=finance"></iframe>`, s.home)
		}
	}))
	t.Cleanup(evil.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(evil.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for name, origin := range map[string]string{"the same site": evil.URL, "another site": "http://localhost:" + port} {
		s.do(chromedp.Navigate(origin + "/form"))
		await(t, patience, func() error {
			text := get(s.browser, chromedp.Text(chromedp.CSS("body")))
			if !strings.Contains(text, "another site has sent this request: pawl ignores it") {
				return fmt.Errorf("a form of %s: %s", name, text)
			}
			return nil
		})
		s.do(chromedp.Navigate(origin + "/fetch"))
		s.shows("ended: rejected")
		s.mu.Lock()
		s.faults = nil // the browser reports the blocked reads
		s.mu.Unlock()
		s.do(chromedp.Navigate(origin + "/frame"))
		await(t, patience, func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !strings.Contains(strings.Join(s.faults, "\n"), "frame-ancestors") {
				return fmt.Errorf("%s frames the console: %q", name, s.faults)
			}
			s.faults = nil
			return nil
		})
	}
	var decided int
	if err := s.db.QueryRow(t.Context(), `select (select count(*) from pauses) + (select count(*) from operator_actions)`).Scan(&decided); err != nil || decided != 0 {
		t.Errorf("%d decisions, %v", decided, err)
	}
	if got := s.asThief(s.session()); got != http.StatusOK {
		t.Errorf("the person is signed out: %d", got)
	}
	// In the same browser, the console accepts its own form.
	s.look(s.home+"/decide?verb=pause-sink&target=finance", "light", 1440)
	s.fill("reason", "the books are closed")
	s.click("Pause sink")
	s.shows("Decided")
	s.noFaults("the console's own form")
	var who string
	if err := s.db.QueryRow(t.Context(), `select who from pauses`).Scan(&who); err != nil || who != "ada@acme.example" {
		t.Errorf("paused by %q, %v", who, err)
	}
}
