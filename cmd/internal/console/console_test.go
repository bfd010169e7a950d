package console_test

import (
	"context"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/console"
	"github.com/pawlhq/pawl/cmd/internal/console/users"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/operatortest"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/schematest"
	"github.com/pawlhq/pawl/workflows"
)

func TestMain(m *testing.M) { schematest.Main(m) }

// stand is a console with a separate database and without Temporal. db is connected as the owner, and role as the
// console's database role.
type stand struct {
	t    *testing.T
	db   *pgxpool.Pool
	role *pgxpool.Pool
	cfg  *config.Config
	url  string
	auth *users.File
	// operator may be changed before the first request.
	operator *decide.Operator
}

const password = "correct horse battery"

// newStand starts a console. change may edit its configuration.
func newStand(t *testing.T, change func(*config.Config)) *stand {
	t.Helper()
	s := &stand{t: t, db: schematest.New(t), cfg: new(config.Config)}
	s.cfg.Console = config.Console{Listen: "127.0.0.1:0", Session: 3600e9,
		Users: filepath.Join(t.TempDir(), "users")}
	if change != nil {
		change(s.cfg)
	}
	s.auth = users.New(s.cfg.Console.Users)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s.role = schematest.As(t, s.db, schematest.Console)
	worker := schematest.As(t, s.db, schematest.Worker)
	o := &decide.Operator{Verbs: operator.Verbs, DB: worker, Audit: audit.New(worker, slog.New(slog.DiscardHandler)), Temporal: away{}, TaskQueue: "pawl",
		Outlook: func(context.Context) (workflows.Outlook, func(), error) { return nil, nil, errAway },
		Places:  map[string][]string{decide.Source: {"stripe"}, decide.Sink: {"finance"}}}
	s.operator = o
	operatortest.Serve(t, o)
	server, err := console.New(console.Options{Config: s.cfg, Operator: operatortest.Console(s.role), Log: log,
		Page: func(string, string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(server.Handler())
	t.Cleanup(front.Close)
	s.url = front.URL
	return s
}

// away simulates a Temporal that does not respond.
type away struct{ decide.Temporal }

var errAway = errors.New("temporal is away")

func (away) DescribeWorkflowExecution(context.Context, string,
	string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, errAway
}

func (away) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, errAway
}

// browser is an HTTP client that stores cookies and follows no redirect.
type browser struct {
	*stand
	http.Client
}

func (s *stand) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{s, http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// as returns a browser in which a person with these roles has signed in. It adds the person to the users file, unless
// the file contains this name.
func (s *stand) as(name string, roles ...role.Role) *browser {
	s.t.Helper()
	found, err := s.auth.Named(name)
	if err == nil && found == nil {
		err = s.auth.Add(decide.Person{Name: name, Roles: roles}, password)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	b := s.browser()
	if r := b.post("/sign-in", url.Values{"name": {name}, "password": {password}}); r.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("sign in as %s: %d", name, r.StatusCode)
	}
	return b
}

func (b *browser) do(method, path string, form url.Values, header map[string]string) *answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	got, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return &answer{got, string(body)}
}

type answer struct {
	*http.Response
	text string
}

func (b *browser) get(path string) *answer { b.t.Helper(); return b.do(http.MethodGet, path, nil, nil) }
func (b *browser) post(path string, form url.Values) *answer {
	b.t.Helper()
	return b.do(http.MethodPost, path, form, nil)
}

func (s *stand) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) count(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// The test covers all existing routes, including new ones.
func TestRoutes_RoleByRouteByMethod(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	routes := console.Routes(s.cfg)
	if len(routes) < 20 {
		t.Fatalf("only %d routes", len(routes))
	}
	fill := regexp.MustCompile(`:\w+`)
	browsers := map[role.Role]*browser{"": s.browser()}
	for _, named := range role.All() {
		browsers[named] = s.as("of "+string(named), named)
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	for named, b := range browsers {
		p := &decide.Person{Name: "x", Roles: []role.Role{named}}
		for _, r := range routes {
			path := fill.ReplaceAllString(r.Path, "x")
			if path == "/sign-out" { // signing out would end the session
				continue
			}
			for _, method := range methods {
				as := method
				if method == http.MethodHead { // the same as GET, without the body
					as = http.MethodGet
				}
				served := false
				for _, other := range routes {
					served = served || other.Path == r.Path && other.Method == as
				}
				got := b.do(method, path, nil, nil).StatusCode
				switch {
				case !served:
					if got != http.StatusMethodNotAllowed && got != http.StatusNotFound {
						t.Errorf("%s %s as %q: %d, and is no route", method, path, named, got)
					}
				case as != r.Method || r.Needs == "":
				case named == "":
					if got != http.StatusSeeOther {
						t.Errorf("%s %s without a sign-in: %d", method, path, got)
					}
				case p.May(r.Needs) == (got == http.StatusForbidden):
					t.Errorf("%s %s as %s: %d", method, path, named, got)
				}
			}
		}
	}
	// Each verb requires its own right, although all verbs share one route.
	for named, b := range browsers {
		if named == "" {
			continue
		}
		p := &decide.Person{Roles: []role.Role{named}}
		for _, v := range operator.Verbs {
			form := url.Values{"verb": {v.Name}, "target": {"x"}, "reason": {"walk"}}
			for _, f := range v.Flags {
				form.Set(f.Name, "x")
			}
			got := b.post("/decide", form).StatusCode
			if v.Command == "" {
				if got != http.StatusNotFound {
					t.Errorf("%s as %s: %d, and is not for a form", v.Name, named, got)
				}
			} else if p.May(v.Rights()...) == (got == http.StatusForbidden) {
				t.Errorf("%s as %s: %d", v.Name, named, got)
			}
		}
	}
}

// An ID may contain "%" and "/", and is decoded once.
func TestSegment_EscapedID_ReadOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	b := s.as("ada", role.Viewer)
	for _, id := range []string{"a%2Fb", "a%25b", "100%", "a/b", "a/b%41", "ä %zz"} {
		if got := b.get("/jobs/" + url.PathEscape(id)); got.StatusCode != http.StatusNotFound || !strings.Contains(got.text, html.EscapeString(strconv.Quote(id))) {
			t.Errorf("%q: %d: %s", id, got.StatusCode, got.text)
		}
	}
}

func TestSignIn_WrongNameAndWrongPassword_OneAnswer(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.as("ada", role.Viewer)
	token := regexp.MustCompile(`value="[^"]*"`)
	answers := map[string]bool{}
	for _, try := range [][2]string{{"ada", "wrong wrong wrong"}, {"eve", password}} {
		got := s.browser().post("/sign-in", url.Values{"name": {try[0]}, "password": {try[1]}})
		if got.StatusCode != http.StatusUnauthorized || len(got.Cookies()) > 0 {
			t.Errorf("%v: %d with %v", try, got.StatusCode, got.Cookies())
		}
		answers[token.ReplaceAllString(got.text, "")] = true
	}
	if len(answers) != 1 {
		t.Error("a known and an unknown name have different answers")
	}
}

func TestSignIn_TooManyTries_NotEvenTheRightOne(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.as("ada", role.Viewer)
	b := s.browser()
	for range 10 {
		b.post("/sign-in", url.Values{"name": {"ada"}, "password": {"wrong"}})
	}
	got := b.post("/sign-in", url.Values{"name": {"ada"}, "password": {password}})
	if got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the eleventh try: %d", got.StatusCode)
	}
}

func TestSignIn_LeadsNowhereElse(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	s.as("ada", role.Viewer)
	for next, want := range map[string]string{"/events?status=dead": "/events?status=dead", "/": "/",
		"https://evil.example": "/", "//evil.example": "/", `/\evil.example`: "/", "/x\r\nSet-Cookie: a=b": "/",
		"javascript:alert(1)": "/"} {
		got := s.browser().post("/sign-in", url.Values{"name": {"ada"}, "password": {password}, "next": {next}})
		if at := got.Header.Get("Location"); at != want {
			t.Errorf("next %q leads to %q, want %q", next, at, want)
		}
	}
	if at := s.browser().get("/events?status=dead").Header.Get("Location"); at != "/sign-in?next=%2Fevents%3Fstatus%3Ddead" {
		t.Errorf("a page without a person leads to %s", at)
	}
}

func TestSession_EndedOrStolenAfterwards_IsNobodys(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Viewer)
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	kept := ada.Jar.Cookies(at)
	if len(kept) != 1 || s.count(`select count(*) from sessions where position($1::bytea in id) > 0`, []byte(kept[0].Value)) != 0 {
		t.Fatalf("cookies %v; the database must not hold the secret", kept)
	}
	thief := s.browser()
	thief.Jar.SetCookies(at, kept)
	if got := thief.get("/").StatusCode; got != http.StatusOK {
		t.Fatalf("the same cookie: %d", got)
	}
	if got := ada.post("/sign-out", nil).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("sign out: %d", got)
	}
	if got := thief.get("/").StatusCode; got != http.StatusSeeOther {
		t.Errorf("the cookie of a session that has ended: %d", got)
	}
	first, second := s.as("ada", role.Viewer), s.as("ada", role.Viewer)
	first.post("/sign-out", url.Values{"everywhere": {"yes"}})
	if got := second.get("/").StatusCode; got != http.StatusSeeOther {
		t.Errorf("after signing out everywhere: %d", got)
	}
}

func TestSession_SignInAgain_NewSecretAndTheOldOneEnds(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Viewer)
	at, _ := url.Parse(s.url)
	before := ada.Jar.Cookies(at)[0]
	ada.post("/sign-in", url.Values{"name": {"ada"}, "password": {password}})
	if after := ada.Jar.Cookies(at)[0]; after.Value == before.Value || s.count(`select count(*) from sessions`) != 1 {
		t.Error("the secret has to be another one, and the old session over")
	}
}

func TestUsers_RemovedOrOtherRoles_AtOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Admin)
	pause := url.Values{"verb": {"pause-sink"}, "target": {"finance"}, "reason": {"test"}}
	s.edit("ada:admin:", "ada:viewer:")
	if got := ada.post("/decide", pause).StatusCode; got != http.StatusForbidden {
		t.Errorf("with the role taken: %d", got)
	}
	if removed, err := s.auth.Remove("ada"); !removed || err != nil {
		t.Fatal(removed, err)
	}
	if got := ada.get("/").StatusCode; got != http.StatusSeeOther {
		t.Errorf("removed: %d", got)
	}
}

// edit replaces a text in the users file.
func (s *stand) edit(old, new string) {
	s.t.Helper()
	content, err := os.ReadFile(s.cfg.Console.Users)
	if err != nil || !strings.Contains(string(content), old) {
		s.t.Fatalf("%v: %s", err, content)
	}
	if err := os.WriteFile(s.cfg.Console.Users, []byte(strings.ReplaceAll(string(content), old, new)), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// A session ends when the person's password is replaced, even with the same password, and it stays ended if the name
// is removed and added again.
func TestUsers_OtherPassword_SessionEnds(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	add := func(password string) {
		if err := s.auth.Add(decide.Person{Name: "ada", Roles: []role.Role{role.Viewer}}, password); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(){
		"another password":  func() { add(password + " 2") },
		"the same password": func() { add(password) },
		"removed and added": func() { _, _ = s.auth.Remove("ada"); add(password) },
	} {
		_, _ = s.auth.Remove("ada")
		ada := s.as("ada", role.Viewer)
		if got := ada.get("/").StatusCode; got != http.StatusOK {
			t.Fatalf("%s: signed in, and got %d", name, got)
		}
		change()
		if got := ada.get("/").StatusCode; got != http.StatusSeeOther {
			t.Errorf("%s: got %d, want the session ended", name, got)
		}
	}
}

func TestRequests_OfOtherSitesAndHosts_Refused(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Admin)
	form := url.Values{"verb": {"pause-sink"}, "target": {"finance"}, "reason": {"test"}}
	for name, header := range map[string]map[string]string{
		"another origin":   {"Origin": "https://evil.example"},
		"a cross-site one": {"Sec-Fetch-Site": "cross-site"},
		"a sister's":       {"Sec-Fetch-Site": "same-site"},
		"null":             {"Origin": "null"},
	} {
		if got := ada.do(http.MethodPost, "/decide", form, header).StatusCode; got != http.StatusForbidden {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := ada.do(http.MethodGet, "/", nil, map[string]string{"Host": "rebound.example"}).StatusCode; got != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d", got)
	}
	if n := s.count(`select count(*) from pauses`); n != 0 {
		t.Errorf("%d pauses", n)
	}
	own := map[string]string{"Origin": s.url, "Sec-Fetch-Site": "same-origin"}
	if got := ada.do(http.MethodPost, "/decide", form, own).StatusCode; got != http.StatusOK {
		t.Errorf("its own: %d", got)
	}
}

func TestAnswers_HeadersAndSize(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *config.Config) { c.Console.URL = "https://pawl.example" })
	if err := s.auth.Add(decide.Person{Name: "ada", Roles: []role.Role{role.Viewer}}, password); err != nil {
		t.Fatal(err)
	}
	host := map[string]string{"Host": "pawl.example"}
	got := s.browser().do(http.MethodPost, "/sign-in", url.Values{"name": {"ada"}, "password": {password}}, host)
	c := got.Cookies()
	if len(c) != 1 || c[0].Name != "__Host-pawl" || !c[0].Secure || !c[0].HttpOnly || c[0].SameSite != http.SameSiteLaxMode || c[0].Path != "/" || c[0].Domain != "" {
		t.Errorf("cookie %v", c)
	}
	policy := got.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "script-src 'self'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cache-Control": "no-store", "Strict-Transport-Security": "max-age=31536000"} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if got := s.browser().do(http.MethodPost, "/sign-in", url.Values{"name": {strings.Repeat("x", 2<<20)}}, host).StatusCode; got != http.StatusRequestEntityTooLarge && got != http.StatusUnauthorized {
		t.Errorf("a form of 2 MiB: %d", got)
	}
}

func TestProxy_BelievedFromItsNetworksAlone(t *testing.T) {
	t.Parallel()
	for network, want := range map[string]int{"127.0.0.0/8": http.StatusOK, "10.0.0.0/8": http.StatusUnauthorized} {
		s := newStand(t, func(c *config.Config) {
			c.Console.Users = ""
			c.Console.Proxy = config.Proxy{Header: "X-Forwarded-User", Groups: "X-Forwarded-Groups",
				From: []config.Network{{Prefix: netip.MustParsePrefix(network)}}}
			c.Console.Roles = map[string]role.Role{"oncall": "operator"}
		})
		b := s.browser()
		named := map[string]string{"X-Forwarded-User": "ada", "X-Forwarded-Groups": "staff, oncall"}
		if got := b.do(http.MethodGet, "/", nil, named).StatusCode; got != want {
			t.Errorf("from %s: %d, want %d", network, got, want)
		}
		for name, headers := range map[string]map[string]string{
			"without a group": {"X-Forwarded-User": "ada"},
			"as the command line": {"X-Forwarded-User": "uid:0(root)",
				"X-Forwarded-Groups": "oncall"},
		} {
			if got := b.do(http.MethodGet, "/", nil, headers).StatusCode; got == http.StatusOK {
				t.Errorf("%s: %d", name, got)
			}
		}
	}
}

func TestDecide_PreviewChangesNothing_TwiceIsOnce_NameIsVerified(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Operator)
	shown := ada.get("/decide?verb=pause-sink&target=finance")
	request := regexp.MustCompile(`name="request" value="([^"]+)"`).FindStringSubmatch(shown.text)
	if shown.StatusCode != http.StatusOK || request == nil || s.count(`select count(*) from operator_actions`) != 0 {
		t.Fatalf("preview: %d, %s", shown.StatusCode, shown.text)
	}
	form := url.Values{"verb": {"pause-sink"}, "target": {"finance"}, "request": {request[1]}, "who": {"uid:0(root)"}, "reason": {"x"}}
	if got := ada.post("/decide", form); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.text, "there is no parameter") {
		t.Errorf("with another name: %d", got.StatusCode)
	}
	form.Del("who")
	form.Del("reason")
	if got := ada.post("/decide", form).StatusCode; got != http.StatusBadRequest {
		t.Errorf("without a reason: %d", got)
	}
	form.Set("reason", "the books are closed")
	for i := range 2 {
		got := ada.post("/decide", form)
		if got.StatusCode != http.StatusOK || i == 1 && !strings.Contains(got.text, "was already decided") {
			t.Errorf("time %d: %d %s", i, got.StatusCode, got.text)
		}
	}
	if n := s.count(`select count(*) from operator_actions where actor = 'ada' and reason = 'the books are closed'`); n != 1 {
		t.Errorf("the audit trail has %d such decisions by ada, want 1", n)
	}
	if n := s.count(`select count(*) from operator_actions`); n != 1 {
		t.Errorf("the audit trail has %d decisions, want 1", n)
	}
	if got := ada.get("/audit").text; !strings.Contains(got, "the books are closed") {
		t.Error("the page of the audit trail does not show it")
	}
}

func TestTokens_MadeOnAPage_ShownOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	root := s.as("root", role.Admin)
	form := url.Values{"verb": {"new-token"}, "target": {"shop"}, "role": {"viewer"}, "expires": {"90d"}, "networks": {"all"}, "reason": {"the shop asks"},
		"request": {"one"}}
	made := regexp.MustCompile(`pawl_[A-Za-z0-9]{40,}`)
	first := made.FindString(root.post("/decide", form).text)
	if first == "" {
		t.Fatal("the page does not show the token")
	}
	if again := root.post("/decide", form); again.StatusCode != http.StatusOK || made.MatchString(again.text) {
		t.Errorf("the same form once more: %d, or it shows the token again", again.StatusCode)
	}
	list := root.get("/tokens").text
	if !strings.Contains(list, "shop") || strings.Contains(list, first) {
		t.Error("the list lacks the token's name, or has its text")
	}
	if got := root.post("/decide", url.Values{"verb": {"revoke-token"}, "target": {"shop"}, "reason": {"it leaked"}}).StatusCode; got != http.StatusOK {
		t.Errorf("revoked: %d", got)
	}
	if !strings.Contains(root.get("/tokens").text, "revoked") {
		t.Error("the list does not show that it is revoked")
	}
}

func TestPages_WhatComesFromOutside_IsText(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	ada := s.as("ada", role.Admin)
	schematest.Plant(t, s.db)
	const planted = schematest.Planted
	of := url.PathEscape(planted)
	query := url.QueryEscape(planted)
	paths := []string{"/events/" + schematest.PlantedID, "/find?q=" + query, "/find?q=x" + query, "/accounts/live/" + of, "/tasks/" + of, "/jobs/job-1",
		"/jobs/" + of, "/nowhere" + of, "/decide?verb=retry&target=" + query, "/decide?verb=hold-account&target=" + query,
		"/decide?verb=" + of, "/decide/many?verb=retry&status=dead", "/decide/many?verb=retry&status=dead&preview=effects", "/sign-in?next=" + of + "&name=" + of, "/events?status=dead&type=" + query}
	for _, r := range console.Routes(s.cfg) {
		if r.Method == http.MethodGet && !strings.Contains(r.Path, ":") {
			paths = append(paths, r.Path)
		}
	}
	seen := 0
	for _, path := range paths {
		got := ada.get(path)
		if got.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
		for _, raw := range []string{"<script>alert", "<img src=x"} {
			if strings.Contains(got.text, raw) {
				t.Errorf("%s shows %q as it came", path, raw)
			}
		}
		// "\r" may occur in HTML
		if at := strings.IndexAny(got.text, strings.TrimRight(schematest.HiddenIn, "\r")); at >= 0 {
			t.Errorf("%s has a hidden character: %q", path, got.text[max(0, at-60):at+10])
		}
		if strings.Contains(got.text, "&lt;script&gt;alert(1)") {
			seen++
		}
	}
	if seen < 12 {
		t.Errorf("%d of %d pages show the planted text: the test does not reach the others", seen, len(paths))
	}
}

func TestReveal_ByRight_AndAudited(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	const id = "01890000-0000-7000-8000-000000000001"
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status)
		values ($1, 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'processed')`, id)
	s.exec(`insert into receipt_bodies (receipt_id, body, headers) values ($1, $2, '{}')`, id,
		[]byte(`{"data":{"object":{"customer_email":"ada@customer.example"}}}`))
	why := url.Values{"reason": {"she asked"}}
	finance, reveal := s.as("fin", role.Finance), s.as("rev", role.Reveal)
	for _, b := range []*browser{finance, reveal} {
		if got := b.get("/events/" + id); got.StatusCode != http.StatusOK || strings.Contains(got.text, "ada@customer.example") {
			t.Errorf("the page: %d, or it shows an address", got.StatusCode)
		}
	}
	if got := finance.post("/events/"+id+"/reveal", why).StatusCode; got != http.StatusForbidden {
		t.Errorf("finance: %d", got)
	}
	if got := reveal.post("/events/"+id+"/reveal", nil).StatusCode; got == http.StatusOK {
		t.Errorf("without a reason: %d", got)
	}
	if got := reveal.post("/events/"+id+"/reveal", why); got.StatusCode != http.StatusOK || !strings.Contains(got.text, "ada@customer.example") {
		t.Errorf("revealed: %d", got.StatusCode)
	}
	if n := s.count(`select count(*) from operator_actions where action = 'reveal' and actor = 'rev' and reason = 'she asked'`); n != 1 {
		t.Errorf("%d in the audit trail", n)
	}
	if page := finance.get("/events/" + id).text; !strings.Contains(page, `href="/audit?action=reveal&amp;target=evt_1"`) {
		t.Errorf("the event's page does not lead to who was shown its payload: %s", page)
	}
	if got := finance.get("/audit?action=reveal&target=evt_1").text; !strings.Contains(got, "she asked") || !strings.Contains(got, ">rev<") || strings.Contains(got, ">fin</span></span></td>") {
		t.Errorf("the audit trail does not record that only rev saw the payload: %s", got)
	}
}

// While the database is down, each page reports this, and what it means for webhooks. No page then reports an event
// as unknown.
func TestPages_DatabaseAway_SaySo(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *config.Config) { c.Dev.Enabled = true })
	b := s.browser()
	s.role.Close()
	for _, path := range []string{"/", "/events", "/events/evt_1", "/find?q=evt_1", "/accounts/live/acme"} {
		if got := b.get(path); got.StatusCode < http.StatusInternalServerError || strings.Contains(got.text, "Nothing was found") {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
}

// A decision with a required field is previewed first: the first form requests the fields with GET, and the form
// after the preview sends the same values.
func TestDecide_RequiredField_AskedBeforeThePreview(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	root := s.as("root", role.Admin)
	s.exec(`insert into receipts (id, source, provider, mode, event_id, identity, type, received_at, body_hash, status, reason)
		values (gen_random_uuid(), 'stripe', 'stripe', 'live', 'evt_1', 'id', 'invoice.paid', now(), '\x01', 'dead', 'effect_failed: x')`)
	asks := func(path string) bool {
		t.Helper()
		got := root.get(path)
		_, form, _ := strings.Cut(got.text, `<form class="stack"`)
		asks, decides := strings.Contains(form, `method="get"`), strings.Contains(form, `name="reason"`)
		if got.StatusCode != http.StatusOK || asks == decides {
			t.Errorf("%s: %d, a form by GET is %t, a form with a reason is %t", path, got.StatusCode, asks, decides)
		}
		return asks
	}
	walked := 0
	for _, v := range operator.Verbs {
		if !slices.ContainsFunc(v.Flags, func(f decide.Flag) bool { return f.Required }) {
			continue
		}
		walked++
		if path := "/decide?verb=" + v.Name + "&target=x"; !asks(path) {
			t.Errorf("%s can be made without a preview", path)
		}
		if len(v.Many) > 0 {
			if path := "/decide/many?status=dead&verb=" + v.Name; !asks(path) {
				t.Errorf("%s can be made without a preview", path)
			}
		}
	}
	if walked < 3 {
		t.Errorf("walked over %d verbs", walked)
	}
	for path, field := range map[string]string{
		"/decide?verb=new-token&target=shop&role=viewer&expires=90d&networks=all": "role",
		"/decide/many?status=dead&verb=done&reference=journal+7":                  "reference",
	} {
		if asks(path) || asks(path+"&preview=effects") {
			t.Errorf("%s does not show the preview", path)
		}
		fixed := regexp.MustCompile(`<input name="` + field + `" value="[^"]+" required readonly`)
		if page := root.get(path).text; !fixed.MatchString(page) || !strings.Contains(page, "preview=later") {
			t.Errorf("%s: after the preview %s can be changed, or no link asks for it again: %s", path, field, page)
		}
		if !asks(path + "&preview=later") {
			t.Errorf("%s: the fields cannot be changed", path)
		}
	}
	if n := s.count(`select count(*) from operator_actions`); n != 0 {
		t.Errorf("%d decisions are in the trail", n)
	}
}
