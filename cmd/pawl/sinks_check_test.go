package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/activities/activitiestest"
	"github.com/pawlhq/pawl/cmd/internal/devstack/sandbox"
	"github.com/pawlhq/pawl/cmd/internal/sinkcheck"
)

// withSinks is a configuration whose sinks are at these URLs, with a token.
func withSinks(t *testing.T, workspaces, finance, subscriber, smtp string) stack {
	t.Helper()
	s := stack{filepath.Join(t.TempDir(), "pawl.yaml"), map[string]string{"DSN": "postgres://localhost/none", "SECRET": testSecret, "TOKEN": "right"}}
	write(t, s.file, fmt.Sprintf(`
database: env:DSN
plans: {prices: {price_pro: pro}, features: {pro: [api]}}
sources:
  stripe: {provider: stripe, mode: test, secrets: [{value: env:SECRET}]}
sinks:
  workspaces: {url: %q, token: "env:TOKEN"}
  finance: {url: %q, token: "env:TOKEN"}
  email: {address: %q, from: "billing@pawl.test", tls: none}
  subscribers: [{name: crm, url: %q}]
`, workspaces, finance, smtp, subscriber))
	return s
}

// The sandbox does what is asked of a sink: every check passes, and nothing is in its journals afterwards.
func TestSinksCheck_Sandbox_PassesAndKeepsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world, err := sandbox.Start(context.Background(), sandbox.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = world.Close() })
	s := withSinks(t, world.URL(), world.URL(), world.URL()+"/events", world.SMTPAddr())
	r := s.pawl(t, "sinks", "check", "--yes", "--json")
	checks := map[string]string{}
	for _, f := range decode[[]sinkcheck.Finding](t, r) {
		checks[f.Sink+" "+f.Check] = f.Result
		if f.Result == sinkcheck.Fails {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range []string{"workspaces repeat", "workspaces conflict", "finance repeat", "finance conflict", "email reach", "subscribers:crm repeat"} {
		if checks[want] != sinkcheck.OK {
			t.Errorf("%s is %q, want ok", want, checks[want])
		}
	}
	if r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	for _, service := range []string{"workspaces", "finance", "events", "email"} {
		if content, err := os.ReadFile(filepath.Join(dir, service+".jsonl")); err != nil || len(content) > 0 {
			t.Errorf("the journal of %s holds %s (%v)", service, content, err)
		}
	}
	if r := s.pawl(t, "sinks", "check"); r.code != 0 || !strings.Contains(r.out, "not asked") || !strings.Contains(r.err, "an entry of 0") {
		t.Errorf("without an answer: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// api is a sink with one fault, or none.
type api struct {
	mu    sync.Mutex
	fault string
	keys  map[string]string
	sent  int
	wrong []error
}

func (p *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	p.wrong = append(p.wrong, activitiestest.Conforms(r))
	p.sent++
	key := r.Header.Get("Idempotency-Key")
	before, known := p.keys[key]
	switch {
	case r.Header.Get("Authorization") != "Bearer right" && p.fault != "open", p.fault == "denied":
		w.WriteHeader(http.StatusUnauthorized)
	case p.fault == "missing":
		w.WriteHeader(http.StatusNotFound)
	case known && before != string(body) && p.fault != "any body":
		w.WriteHeader(http.StatusConflict)
	default:
		p.keys[key] = string(body)
		id := key
		if p.fault == "forgets" {
			id = fmt.Sprint(p.sent)
		}
		fmt.Fprintf(w, `{"id":%q}`, id)
	}
}

// Each fault of a sink is told, with what to do about it, and no other.
func TestSinksCheck_Faults_Told(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ check, result, do string }{
		"":         {"strangers", sinkcheck.OK, ""},
		"denied":   {"token", sinkcheck.Fails, "check sinks.finance.token"},
		"missing":  {"token", sinkcheck.Fails, "check the path behind sinks.finance.url"},
		"forgets":  {"repeat", sinkcheck.Fails, "answer a key that comes again with the remembered answer"},
		"any body": {"conflict", sinkcheck.Fails, "answer 409"},
		"open":     {"strangers", sinkcheck.Note, "have the API check the token"},
		"gone":     {"reach", sinkcheck.Fails, "check sinks.finance.url"},
	} {
		t.Run("fault "+fault, func(t *testing.T) {
			t.Parallel()
			good, bad := &api{keys: map[string]string{}}, &api{keys: map[string]string{}, fault: fault}
			at, of := httptest.NewServer(good), httptest.NewServer(bad)
			crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			t.Cleanup(crm.Close)
			t.Cleanup(at.Close)
			t.Cleanup(of.Close)
			if fault == "gone" {
				of.Close()
			}
			r := withSinks(t, at.URL, of.URL, crm.URL, "127.0.0.1:1").pawl(t, "sinks", "check", "--yes", "--json")
			found := false
			for _, f := range decode[[]sinkcheck.Finding](t, r) {
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
				t.Errorf("%s was not checked: %s", want.check, r.out)
			}
			for _, err := range append(good.wrong, bad.wrong...) {
				if err != nil {
					t.Errorf("pawl sends no such request: %v", err)
				}
			}
			if r.code != 1 { // nobody listens for mail
				t.Errorf("exit %d", r.code)
			}
		})
	}
}
