package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/dev/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/report"
	"github.com/pawlhq/pawl/cmd/internal/sinkcheck"
	"github.com/pawlhq/pawl/schema/schematest"
)

// For a sink that is down, the output contains the time since when it is down, the reason, and the number of waiting
// runs. All other sinks are up.
func TestSinks(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+`
destinations:
  crm: {url: "https://crm.example/in", max_concurrency: 3, sources: [billing], secrets: [{value: "env:SECRET"}]}
`)
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into breakers (sink, open, since, reason, probes, probe_at) values ('destinations:crm', true, now(), 'crm.example answered 503', 4, now())`); err != nil {
		t.Fatal(err)
	}
	reports := commandtest.Decode[[]report.Sink](t, s.Pawl(t, "sinks", "--json"))
	found := false
	for _, r := range reports {
		switch {
		case r.Name == "destinations:crm":
			found = r.State == "down" && r.Since != nil && r.Reason == "crm.example answered 503" && r.Probes == 4 && r.MaxConcurrency == 3
		case r.State != "up" || r.Since != nil:
			t.Errorf("report %+v", r)
		}
	}
	if !found {
		t.Errorf("reports %+v, want crm out", reports)
	}
	if screen := s.Pawl(t, "sinks"); screen.Code != 0 || !strings.Contains(screen.Out, "crm.example answered 503") {
		t.Errorf("screen:\n%s%s", screen.Out, screen.Err)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe", "code": "github"})
	commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "provider: github,", "provider: github, url: 'https://us:hush@hooks.example/in?token=hush',", 1))
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into source_counts values ('billing', 'admitted', 'secret-1', now(), 7, now())`); err != nil {
		t.Fatal(err)
	}
	r := s.Pawl(t, "sources", "--json")
	reports := commandtest.Decode[[]report.Source](t, r)
	if len(reports) != 2 || reports[0].Name != "billing" || reports[0].Secrets[0].Uses != 7 || reports[0].Secrets[0].Verdict != "in use" || reports[0].Path != "/hooks/billing" {
		t.Errorf("report %+v", reports)
	}
	screen := s.Pawl(t, "sources")
	if screen.Code != 0 || !strings.Contains(screen.Out, "in use") || !strings.Contains(screen.Out, "github") {
		t.Errorf("screen:\n%s%s", screen.Out, screen.Err)
	}
	if !strings.Contains(screen.Out, "https://hooks.example/in ") {
		t.Errorf("the URL is not shown:\n%s", screen.Out)
	}
	if strings.Contains(r.Out+screen.Out, commandtest.Secret) || strings.Contains(r.Out+screen.Out, "hush") {
		t.Error("a secret is shown")
	}
}

// systemUser matches the prefix that precedes the name from --as.
var systemUser = regexp.MustCompile(`uid:\d+(\([^)]*\))? `)

// A paused sink or source stays paused until a person resumes it. All lists of sinks and sources show the pause, and
// the audit trail records it.
func TestPause_Resume(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"billing": "stripe"})
	commandtest.Write(t, s.File, commandtest.Read(t, s.File)+`
destinations:
  crm: {url: "https://crm.example/in", sources: [billing], secrets: [{value: "env:SECRET"}]}
`)
	paused := func() string {
		t.Helper()
		var names []string
		for _, r := range commandtest.Decode[[]report.Sink](t, s.Pawl(t, "sinks", "--json")) {
			if r.State == "paused" {
				names = append(names, r.Name+" "+r.Reason[strings.Index(r.Reason, "by "):])
			}
		}
		for _, r := range commandtest.Decode[[]report.Source](t, s.Pawl(t, "sources", "--json")) {
			if r.Paused != "" {
				names = append(names, r.Name+" "+r.Paused[strings.Index(r.Paused, "by "):])
			}
		}
		return systemUser.ReplaceAllString(strings.Join(names, ", "), "")
	}
	for _, tt := range []struct {
		args string
		code int
		says string
		then string
	}{
		{"sources pause billing", 2, "needs --reason", ""},
		{"sources pause billing --reason x --dry-run", 0, "would be done: it affects billing; 0 events wait now", ""},
		{"sources pause nosuch --reason x", 1, `unknown source "nosuch": write one of billing`, ""},
		{"sinks pause destinations:nosuch --reason x", 1, `unknown sink "destinations:nosuch": write one of workspaces, finance, email, destinations:crm`, ""},
		{"sources resume billing --reason x", 1, "billing is not paused", ""},
		{"sources pause billing --as ada --reason plans --request-id one", 0, "billing is paused; 0 events wait now", "billing by ada: plans"},
		{"sources pause billing --as ada --reason plans --request-id one", 0, "was already decided, by uid:", "billing by ada: plans"},
		{"sources pause billing --as eve --reason other", 1, "billing is paused since ", "billing by ada: plans"},
		{"sinks pause destinations:crm --as ada --reason moves", 0, "destinations:crm is paused; 0 runs wait now", "destinations:crm by ada: moves, billing by ada: plans"},
		{"sources resume billing --as eve --reason mended", 0, "billing is resumed", "destinations:crm by ada: moves"},
		{"sinks resume destinations:crm --as eve --reason moved", 0, "destinations:crm is resumed", ""},
		{"sources resume gone --reason x", 1, `unknown source "gone"`, ""},
	} {
		got := s.Pawl(t, strings.Fields(tt.args)...)
		if got.Code != tt.code || !strings.Contains(got.Out+got.Err, tt.says) {
			t.Errorf("%s: code %d\n%s%s", tt.args, got.Code, got.Out, got.Err)
		}
		if now := paused(); now != tt.then {
			t.Errorf("after %s: paused %q, want %q", tt.args, now, tt.then)
		}
	}
	// A paused sink that is no longer configured can be resumed, because runs still wait for it.
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into pauses (kind, name, who, why) values ('source', 'gone', 'ada', 'moved')`); err != nil {
		t.Fatal(err)
	}
	if got := s.Pawl(t, "sources", "resume", "gone", "--as", "eve", "--reason", "tidy"); got.Code != 0 || !strings.Contains(got.Out, "gone is resumed") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Err)
	}
	if got := s.Pawl(t, "sinks"); got.Code != 0 || strings.Contains(got.Out, "paused since") {
		t.Errorf("screen:\n%s%s", got.Out, got.Err)
	}
	rows, err := commandtest.Connect(t, dsn).Query(t.Context(), `select action || ' ' || target || ' ' || actor || ' ' || reason from operator_actions order by id`)
	if err != nil {
		t.Fatal(err)
	}
	var trail []string
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		trail = append(trail, row)
	}
	if want := "[pause-source billing ada plans pause-sink destinations:crm ada moves resume-source billing eve mended resume-sink destinations:crm eve moved resume-source gone eve tidy]"; systemUser.ReplaceAllString(fmt.Sprint(trail), "") != want {
		t.Errorf("audit trail %v, want %s", trail, want)
	}
}

// withSinks returns a configuration with sinks at these URLs, with a token.
func withSinks(t *testing.T, workspaces, finance, destination, smtp string) commandtest.Stack {
	t.Helper()
	s := commandtest.Stack{Program: program(), File: filepath.Join(t.TempDir(), "pawl.yaml"), Env: map[string]string{"DSN": "postgres://localhost/none", "SECRET": commandtest.Secret, "TOKEN": "right"}}
	commandtest.Write(t, s.File, fmt.Sprintf(`
database: env:DSN
plans: {prices: {price_pro: pro}, features: {pro: [api]}}
sources:
  stripe: {provider: stripe, mode: test, secrets: [{value: env:SECRET}]}
sinks:
  workspaces: {url: %q, token: "env:TOKEN"}
  finance: {url: %q, token: "env:TOKEN"}
  email: {address: %q, from: "billing@pawl.test", tls: none}
destinations: {crm: {url: %q, events: ["*"]}}
`, workspaces, finance, smtp, destination))
	return s
}

// withSandbox is withSinks with the sandbox behind every sink. dir is the directory of the sandbox.
func withSandbox(t *testing.T) (s commandtest.Stack, world *sandbox.Sandbox, dir string) {
	t.Helper()
	dir = t.TempDir()
	world, err := sandbox.Start(context.Background(), sandbox.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = world.Close() })
	return withSinks(t, world.URL(), world.URL(), world.URL()+"/events", world.SMTPAddr()), world, dir
}

// The sandbox meets all requirements for sinks, so every check passes, and its journals stay empty.
func TestSinksCheck_Sandbox_PassesAndKeepsNothing(t *testing.T) {
	t.Parallel()
	s, _, dir := withSandbox(t)
	r := s.Pawl(t, "sinks", "check", "--yes", "--json")
	checks := map[string]string{}
	for _, f := range commandtest.Decode[[]sinkcheck.Finding](t, r) {
		checks[f.Sink+" "+f.Check] = f.Result
		if f.Result == sinkcheck.Fails {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range []string{"workspaces repeat", "workspaces conflict", "finance repeat", "finance conflict", "email reach", "destinations:crm repeat"} {
		if checks[want] != sinkcheck.OK {
			t.Errorf("%s is %q, want ok", want, checks[want])
		}
	}
	if r.Code != 0 {
		t.Errorf("exit %d: %s", r.Code, r.Err)
	}
	for _, service := range []string{"workspaces", "finance", "events", "email"} {
		if content, err := os.ReadFile(filepath.Join(dir, service+".jsonl")); err != nil || len(content) > 0 {
			t.Errorf("the journal of %s holds %s (%v)", service, content, err)
		}
	}
	if r := s.Pawl(t, "sinks", "check"); r.Code != 0 || !strings.Contains(r.Out, "not checked") || !strings.Contains(r.Err, "an entry of 0") {
		t.Errorf("without an answer: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}

// demanding simulates a sink with at most one defect.
type demanding struct {
	mu    sync.Mutex
	fault string
	keys  map[string]string
	sent  int
	wrong []error
	// checked counts the requests with the header, requests counts the requests by key, and version is the highest one.
	checked  int
	requests map[string]int
	version  int
}

func (p *demanding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	p.wrong = append(p.wrong, activitiestest.Conforms(r))
	p.sent++
	key := r.Header.Get("Idempotency-Key")
	before, known := p.keys[key]
	if r.Header.Get(sinkcheck.Header) != "" {
		p.checked++
	}
	if p.requests == nil {
		p.requests = map[string]int{}
	}
	p.requests[key]++
	version, _ := strconv.Atoi(r.Header.Get("Pawl-Target-Version"))
	many := p.requests[key] > 4 // only concurrent requests have a key so often
	switch {
	case many && p.fault == "never ends", version < p.version && p.fault == "late":
		w.WriteHeader(http.StatusConflict)
	case many && p.fault == "breaks":
		w.WriteHeader(http.StatusInternalServerError)
	case r.Header.Get("Authorization") != "Bearer right" && p.fault != "open", p.fault == "denied":
		w.WriteHeader(http.StatusUnauthorized)
	case p.fault == "missing":
		w.WriteHeader(http.StatusNotFound)
	case p.fault == "strict" && strings.Contains(string(body), "pawl_check"):
		w.WriteHeader(http.StatusBadRequest)
	case known && before != string(body) && p.fault != "any body":
		w.WriteHeader(http.StatusConflict)
	default:
		p.keys[key], p.version = string(body), max(p.version, version)
		id := key
		if p.fault == "forgets" || many && p.fault == "races" {
			id = fmt.Sprint(p.sent)
		}
		fmt.Fprintf(w, `{"id":%q}`, id)
	}
}

// The check reports exactly the defect of the sink, with the action to take.
func TestSinksCheck_Faults_Told(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ check, result, do string }{
		"":         {"strangers", sinkcheck.OK, ""},
		"denied":   {"token", sinkcheck.Fails, "check sinks.finance.token"},
		"missing":  {"token", sinkcheck.Fails, "check the path behind sinks.finance.url"},
		"forgets":  {"repeat", sinkcheck.Fails, "answer a repeated key with the remembered answer"},
		"any body": {"conflict", sinkcheck.Fails, "answer 409"},
		"open":     {"strangers", sinkcheck.Note, "have the API check the token"},
		"gone":     {"reach", sinkcheck.Fails, "check sinks.finance.url"},
	} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			good, bad := &demanding{keys: map[string]string{}}, &demanding{keys: map[string]string{}, fault: fault}
			at, of := httptest.NewServer(good), httptest.NewServer(bad)
			crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			t.Cleanup(crm.Close)
			t.Cleanup(at.Close)
			t.Cleanup(of.Close)
			if fault == "gone" {
				of.Close()
			}
			r := withSinks(t, at.URL, of.URL, crm.URL, "127.0.0.1:1").Pawl(t, "sinks", "check", "--yes", "--json")
			found := false
			for _, f := range commandtest.Decode[[]sinkcheck.Finding](t, r) {
				switch {
				case f.Sink == "finance" && f.Check == want.check:
					found = f.Result == want.result && strings.HasPrefix(f.Do, want.do)
					if !found {
						t.Errorf("%+v, want %+v", f, want)
					}
				case f.Sink == "finance" && f.Result != sinkcheck.OK, f.Sink == "workspaces" && f.Result != sinkcheck.OK:
					t.Errorf("%+v", f)
				}
			}
			if !found {
				t.Errorf("%s was not checked: %s", want.check, r.Out)
			}
			for _, err := range append(good.wrong, bad.wrong...) {
				if err != nil {
					t.Errorf("pawl sends no such request: %v", err)
				}
			}
			if r.Code != 1 { // no mail server listens
				t.Errorf("exit %d", r.Code)
			}
		})
	}
}

// The sandbox executes the requests of --write, and the state afterwards is the described state.
func TestSinksCheck_Write_Sandbox_EachOnce(t *testing.T) {
	t.Parallel()
	s, world, dir := withSandbox(t)
	r := s.Pawl(t, "sinks", "check", "finance", "workspaces", "--write", "--yes", "--json")
	checks := map[string]bool{}
	for _, f := range commandtest.Decode[[]sinkcheck.Finding](t, r) {
		checks[f.Sink+" "+f.Check] = f.Result == sinkcheck.OK
		if f.Result == sinkcheck.Fails {
			t.Errorf("%+v", f)
		}
	}
	if !checks["finance concurrent"] || !checks["workspaces concurrent"] || !checks["workspaces late"] || r.Code != 0 {
		t.Errorf("exit %d, checks %v", r.Code, checks)
	}
	entries, err := os.ReadFile(filepath.Join(dir, "finance.jsonl"))
	if n := strings.Count(string(entries), `"first":true`); err != nil || n != 2 {
		t.Errorf("%d entries, want 2: %s (%v)", n, entries, err)
	}
	answer, err := http.Get(world.URL() + "/workspaces/" + sinkcheck.Account)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), `"quantity":0`) || !strings.Contains(string(body), `"state":"released"`) {
		t.Errorf("the workspace is %s (%v)", body, err)
	}
}

// With --write, the named sinks execute the requests. The check reports exactly the defect of the sink, with the action
// to take, and the state that the sink must have.
func TestSinksCheck_Write_FaultsTold(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ sink, check, found, do string }{
		"":           {"finance", "effects", "exactly two new entries of 0 must exist for account pawl-check", "look at it in the sink"},
		"forgets":    {"finance", "repeat", "another answer to the same key", "answer a repeated key with the remembered answer"},
		"any body":   {"finance", "conflict", "answered 200 to another body under the key", "answer 409"},
		"races":      {"finance", "concurrent", "14 different answers to 16 concurrent requests", "claim the key in a unique index"},
		"breaks":     {"finance", "concurrent", "answered 500 to one of 16 concurrent requests", "claim the key in a unique index"},
		"never ends": {"finance", "concurrent", "answered 409 to a key after its 16 concurrent requests had ended", "answer with the remembered answer when the first request has ended"},
		"late":       {"workspaces", "late", "answered 409 to a late request with an older version", "store the highest Pawl-Target-Version"},
		"denied":     {"finance", "token", "answered 401", "check sinks.finance.token"},
	} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			bad := &demanding{keys: map[string]string{}, fault: fault}
			at := httptest.NewServer(bad)
			t.Cleanup(at.Close)
			s := withSinks(t, at.URL, at.URL, at.URL, "127.0.0.1:1")
			r := s.Pawl(t, "sinks", "check", want.sink, "--write", "--yes", "--json")
			faults, checks := 0, ""
			for _, f := range commandtest.Decode[[]sinkcheck.Finding](t, r) {
				checks += f.Check + " "
				if f.Check == want.check && (!strings.Contains(f.Found, want.found) || !strings.HasPrefix(f.Do, want.do)) {
					t.Errorf("%+v, want %+v", f, want)
				}
				if f.Result != sinkcheck.Fails {
					continue
				}
				if faults++; f.Check != want.check && !(fault == "forgets" && f.Check == "concurrent") {
					t.Errorf("%+v", f)
				}
			}
			if (faults > 0) != (fault != "") || !strings.Contains(checks, want.check) || (r.Code == 1) != (fault != "") {
				t.Errorf("%d faults, exit %d, checks %s", faults, r.Code, checks)
			}
			if bad.checked > 0 {
				t.Errorf("%d requests have the header of a check", bad.checked)
			}
			for _, err := range bad.wrong {
				if err != nil {
					t.Errorf("pawl sends no such request: %v", err)
				}
			}
			for _, args := range [][]string{{"--write"}, {"email", "--write"}, {"destinations:crm", "--write"}} {
				if r := s.Pawl(t, append([]string{"sinks", "check", "--yes"}, args...)...); r.Code != 2 || !strings.Contains(r.Err, "--write") {
					t.Errorf("%v: exit %d: %s", args, r.Code, r.Err)
				}
			}
			sent := bad.sent
			if r := s.Pawl(t, "sinks", "check", "finance", "--write"); !strings.Contains(r.Err, "execute these requests") || r.Code != 1 || bad.sent != sent {
				t.Errorf("without an answer: exit %d, %d requests, %s", r.Code, bad.sent-sent, r.Err)
			}
		})
	}
}

// A sink that only flows use gets the request of the user. The API executes it twice.
func TestSinksCheck_OwnRequest_FaultsTold(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ check, result, found string }{
		"":         {"effects", sinkcheck.Note, "the sink must have executed exactly two requests POST /reservations"},
		"forgets":  {"repeat", sinkcheck.Fails, "another answer to the same key"},
		"any body": {"conflict", sinkcheck.Fails, "answered 200 to another body under the key"},
		"strict":   {"conflict", sinkcheck.Note, "answered 400 to the same key with the additional field pawl_check"},
		"races":    {"concurrent", sinkcheck.Fails, "14 different answers"},
	} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			stock := &demanding{keys: map[string]string{}, fault: fault}
			at := httptest.NewServer(stock)
			t.Cleanup(at.Close)
			s := commandtest.Stack{Program: program(), File: filepath.Join(t.TempDir(), "none.yaml"), Env: map[string]string{"TOKEN": "right"}}
			body := filepath.Join(t.TempDir(), "body.json")
			commandtest.Write(t, body, `{"order": 7}`)
			r := s.Pawl(t, "sinks", "check", "stock", "--url", at.URL, "--token", "env:TOKEN", "--write", "--yes",
				"--path", "/reservations", "--body", body, "--json")
			found := false
			for _, f := range commandtest.Decode[[]sinkcheck.Finding](t, r) {
				found = found || f.Check == want.check && f.Result == want.result && strings.Contains(f.Found, want.found)
				if f.Result == sinkcheck.Fails && f.Check != want.check && (fault != "forgets" || f.Check != "concurrent") {
					t.Errorf("%+v", f)
				}
			}
			if !found {
				t.Errorf("no finding %+v: %s%s", want, r.Out, r.Err)
			}
			executed := map[string]bool{}
			for _, body := range stock.keys {
				executed[body] = true
			}
			if fault == "" && (len(stock.keys) != 2 || !executed[`{"order":7}`] || len(executed) != 1) {
				t.Errorf("the sink executed %v", stock.keys)
			}
		})
	}
}

// Wrong combinations of flags are refused with the correct command, and nothing is sent.
func TestSinksCheck_OwnRequest_WrongFlags(t *testing.T) {
	t.Parallel()
	stock := &demanding{keys: map[string]string{}}
	at := httptest.NewServer(stock)
	t.Cleanup(at.Close)
	s := withSinks(t, at.URL, at.URL, at.URL, "127.0.0.1:1")
	list := filepath.Join(t.TempDir(), "list.json")
	commandtest.Write(t, list, `[1]`)
	for line, want := range map[string]string{
		"finance --token env:TOKEN":                          "--token needs --url",
		"--url " + at.URL:                                    "--url needs the name of the sink",
		"finance --url localhost:9000":                       "--url must be a URL",
		"finance --url " + at.URL + " --token secret":        "write env:NAME or file:PATH, not the secret",
		"finance --url " + at.URL + " --token env:GONE":      "the variable GONE is not set",
		"stock --url " + at.URL + " --write":                 "add --path and --body",
		"finance --path /x --body " + list:                   "your own request needs one sink, --write",
		"finance --write --path x --body " + list:            "a leading /",
		"finance --write --path /x --body " + list:           "is not a JSON object",
		"finance --write --path /x --body " + list + ".gone": "no such file",
	} {
		if r := s.Pawl(t, append([]string{"sinks", "check", "--yes"}, strings.Fields(line)...)...); r.Code != 2 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit %d: %s, want %s", line, r.Code, r.Err, want)
		}
	}
	if stock.sent > 0 {
		t.Errorf("%d requests were sent", stock.sent)
	}
}
