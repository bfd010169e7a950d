package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/doctor"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/schematest"
)

// finding is the one of a check, and fails the test where there is none.
func finding(t *testing.T, found []doctor.Finding, area, check string) doctor.Finding {
	t.Helper()
	i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Area == area && f.Check == check })
	if i < 0 {
		t.Fatalf("nothing is said of %s %s: %+v", area, check, found)
	}
	return found[i]
}

// examined runs doctor on the stack.
func (s stack) examined(t *testing.T, args ...string) (found []doctor.Finding, ok bool) {
	t.Helper()
	r := s.pawl(t, append([]string{"doctor", "--json"}, args...)...)
	result := decode[doctor.Report](t, r)
	if (r.code == 0) != result.OK {
		t.Errorf("exit %d, ok %t", r.code, result.OK)
	}
	for _, f := range result.Findings {
		if (f.Level == doctor.OK) != (f.Do == "") {
			t.Errorf("%+v: what is ok asks for nothing, and everything else for something", f)
		}
		if strings.Contains(f.Found+f.Do, testSecret) {
			t.Errorf("%+v shows a secret", f)
		}
	}
	return result.Findings, result.OK
}

// away is a Temporal that is not there.
const away = "127.0.0.1:1"

// Temporal is away, and the database is well: each says so in its own line, and nothing waits for the other.
func TestDoctor_TemporalAway_Said(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"}).at(t, away)
	begin := time.Now()
	found, ok := s.examined(t)
	if took := time.Since(begin); took > doctor.Within+5*time.Second {
		t.Errorf("it took %s", took)
	}
	if f := finding(t, found, "temporal", "reachable"); ok || f.Level != doctor.Fail || !strings.Contains(f.Do, "TEMPORAL_ADDRESS") {
		t.Errorf("ok %t, %+v; want it to have failed", ok, f)
	}
	for _, check := range []string{"reachable", "migrations", "size", "oldest transaction", "connections", "session"} {
		if f := finding(t, found, "database", check); f.Level != doctor.OK {
			t.Errorf("%+v, want it well", f)
		}
	}
	if f := finding(t, found, "sinks", "finance"); f.Found != "in; no token is set" {
		t.Errorf("%+v, want the sink in", f)
	}
	r := s.pawl(t, "doctor")
	if r.code != exitFailed || !strings.Contains(r.out, "→ check TEMPORAL_ADDRESS") || !strings.HasSuffix(r.out, " failed\n") {
		t.Errorf("exit %d, screen:\n%s%s", r.code, r.out, r.err)
	}
}

// at returns the stack with a Temporal at this address.
func (s stack) at(t *testing.T, address string) stack {
	t.Helper()
	file := strings.TrimSuffix(s.file, "pawl.yaml") + "temporal.toml"
	write(t, file, fmt.Sprintf("[profile.default]\naddress = %q\n", address))
	write(t, s.file, read(t, s.file)+"\ntemporal: {config_file: temporal.toml}\n")
	return s
}

// A server that takes connections and never answers is bounded, too.
func TestDoctor_NothingAnswers_BoundedAndSaid(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s := setup(t, "postgres://pawl@"+silent.Addr().String()+"/pawl?sslmode=disable", map[string]string{"stripe": "stripe"}).at(t, silent.Addr().String())
	begin := time.Now()
	found, ok := s.examined(t)
	if took := time.Since(begin); ok || took > doctor.Within+10*time.Second {
		t.Errorf("ok %t after %s", ok, took)
	}
	for _, area := range []string{"database", "temporal"} {
		if f := finding(t, found, area, "reachable"); f.Level != doctor.Fail {
			t.Errorf("%+v, want it to have failed", f)
		}
	}
}

// Each fault of the database has its line, and what to do.
func TestDoctor_DatabaseFaults_EachSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault       []string
		check       string
		level       doctor.Level
		found, does string
	}{
		"old migration":   {[]string{`update schema_version set version = 0`}, "migrations", doctor.Fail, "at version 0", "pawl migrate"},
		"newer migration": {[]string{`update schema_version set version = 99`}, "migrations", doctor.Warn, "at version 99", "newer pawl"},
		// The tests' own server has fsync and full_page_writes off.
		"synchronous_commit on":  {[]string{`do $$ begin execute format('alter database %I set synchronous_commit = on', current_database()); end $$`}, "durability", doctor.Fail, "off is fsync, full_page_writes:", "turn it on"},
		"synchronous_commit off": {[]string{`do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$`}, "durability", doctor.Fail, "off is fsync, full_page_writes, synchronous_commit:", "turn it on"},
		"read-only":              {[]string{`do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`}, "role", doctor.Fail, "read-only", "primary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := schematest.NewDSN(t)
			conn := connect(t, dsn)
			for _, sql := range c.fault {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			found, _ := setup(t, dsn, map[string]string{"stripe": "stripe"}).at(t, away).examined(t)
			if f := finding(t, found, "database", c.check); f.Level != c.level || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Do, c.does) {
				t.Errorf("%+v, want %s, %q and %q", f, c.level, c.found, c.does)
			}
		})
	}
}

// A sink that is out, and a host whose clock is wrong by the provider's.
func TestDoctor_SinkOutAndClockWrong_Said(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		off   time.Duration
		level doctor.Level
		found string
	}{
		"the same":   {0, doctor.OK, "it is the same here"},
		"a minute":   {time.Minute, doctor.Warn, "this host is 1m0s behind it"},
		"ten behind": {-10 * time.Minute, doctor.Fail, "this host is 10m0s ahead of it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(c.off).UTC().Format(http.TimeFormat))
				w.WriteHeader(http.StatusUnauthorized)
			}))
			t.Cleanup(api.Close)
			dsn := schematest.NewDSN(t)
			s := setup(t, dsn, map[string]string{"billing": "stripe"}).at(t, away).with("KEY", "rk_live_1")
			write(t, s.file, strings.Replace(read(t, s.file), "mode: live", "mode: live, api_key: 'env:KEY', api_url: '"+api.URL+"'", 1))
			if _, err := connect(t, dsn).Exec(t.Context(), `insert into breakers (sink, open, since, reason, probes, probe_at) values ('finance', true, now(), 'f.test answered 503', 4, now())`); err != nil {
				t.Fatal(err)
			}
			if _, err := connect(t, dsn).Exec(t.Context(), `insert into pauses (kind, name, who, why) values ('sink', 'email', 'ada', 'it moves'), ('source', 'billing', 'bob', 'audit')`); err != nil {
				t.Fatal(err)
			}
			found, _ := s.examined(t)
			if f := finding(t, found, "sinks", "email"); f.Level != doctor.Warn || !strings.Contains(f.Found, "by ada: it moves") || !strings.Contains(f.Do, "`pawl resume sink email --why REASON`") {
				t.Errorf("%+v, want it paused", f)
			}
			if f := finding(t, found, "sources", "billing"); f.Level != doctor.Warn || !strings.Contains(f.Found, "by bob: audit") {
				t.Errorf("%+v, want it paused", f)
			}
			f := finding(t, found, "clock", "billing")
			// A Date has no fractions: the difference may be told a second less or more.
			f.Found = strings.NewReplacer("59s", "1m0s", "1m1s", "1m0s", "9m59s", "10m0s", "10m1s", "10m0s").Replace(f.Found)
			if f.Level != c.level || f.Found != c.found {
				t.Errorf("%+v, want %s and %q", f, c.level, c.found)
			}
			if f := finding(t, found, "sinks", "finance"); f.Level != doctor.Warn || !strings.Contains(f.Found, "after 4 probes: f.test answered 503") {
				t.Errorf("%+v, want it out", f)
			}
			if f := finding(t, found, "clock", "database"); f.Level != doctor.OK {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A secret that no delivery was signed with is told, and one that is in use is well.
func TestDoctor_Secrets_UnusedSaid(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe", "github": "github"}).at(t, away)
	if _, err := connect(t, dsn).Exec(t.Context(), `insert into source_counts values ('stripe', 'admitted', 'secret-1', now(), 3, now())`); err != nil {
		t.Fatal(err)
	}
	found, _ := s.examined(t)
	if f := finding(t, found, "secrets", "stripe secret-1"); f.Level != doctor.OK {
		t.Errorf("%+v, want it in use", f)
	}
	if f := finding(t, found, "secrets", "github secret-1"); f.Level != doctor.Warn || !strings.Contains(f.Do, "/hooks/github") {
		t.Errorf("%+v, want it told", f)
	}
}

// A probe of every provider that can be signed for is admitted, and known as a probe by who has the secret; it is none
// for another source, under another secret, or in another event.
func TestProbe_EveryProvider_ProvenForItsEventAlone(t *testing.T) {
	t.Parallel()
	for name, provider := range providers() {
		verify, sign, options := keys(t, name)
		if verify != sign {
			continue // its provider alone can sign
		}
		for _, more := range []map[string]string{{}, {"payload": "thin"}} {
			if len(more) > 0 && provider.Contract.Options["payload"] == "" {
				continue
			}
			t.Run(fmt.Sprint(name, more), func(t *testing.T) {
				t.Parallel()
				all := map[string]string{}
				for _, given := range []map[string]string{options, more} {
					for option, value := range given {
						all[option] = value
					}
				}
				const url = "https://pawl.test/hooks/source"
				verifier, err := provider.New(webhook.Settings{Source: "source", URL: url, Options: all, Secrets: []webhook.Secret{{Label: "a", Value: verify}}})
				if err != nil {
					t.Fatal(err)
				}
				target := forge.Target{URL: url, Secret: sign, Options: all, Sign: provider.Sign}
				req, mark, err := target.Probe(t.Context(), "source", verifier, forge.Params{Provider: provider})
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(req.Body)
				if err != nil {
					t.Fatal(err)
				}
				r := &webhook.Request{Method: http.MethodPost, URL: req.URL.String(), Header: req.Header, Body: body, ReceivedAt: time.Now()}
				if _, err := verifier.Verify(r); err != nil {
					t.Fatalf("refused: %v\n%s", err, body)
				}
				events := verifier.Events(r)
				read, marked := webhook.ReadProbe(body)
				if !marked || read != mark || !read.Proven("source", verify, events) {
					t.Errorf("read %+v, %t, of events %+v: want %+v, proven\n%s", read, marked, events, mark, body)
				}
				if read.Proven("other", verify, events) || read.Proven("source", verify+"x", events) || read.Proven("source", "", events) {
					t.Error("it is proven for another source, or another secret")
				}
				if len(events) > 0 && events[0].IDOrigin != webhook.FromHash {
					events[0].ID += "x"
					if read.Proven("source", verify, events) {
						t.Error("it is proven for another event")
					}
				}
			})
		}
	}
}

// Through the public URL, with what may stand on the way.
func TestDoctor_Probe(t *testing.T) {
	t.Parallel()
	// path returns what stands before the ingress.
	for name, c := range map[string]struct {
		path        func(next http.Handler) http.Handler
		elsewhere   bool // the ingress has another database
		level       doctor.Level
		found, does string
	}{
		"arrives": {func(next http.Handler) http.Handler { return next }, false, doctor.OK, "answered 200 in ", ""},
		"a proxy drops the signature": {func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { r.Header.Del("Stripe-Signature"); next.ServeHTTP(w, r) })
		}, false, doctor.Fail, "answered 400 (missing_header)", "have it pass Stripe-Signature"},
		"a proxy changes the body": {func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(append(body, '\n'))), int64(len(body)+1)
				next.ServeHTTP(w, r)
			})
		}, false, doctor.Fail, "answered 401 (no_matching_signature)", "changes the body"},
		"the path is not forwarded": {func(http.Handler) http.Handler { return http.NotFoundHandler() }, false, doctor.Fail, "answered 404", "forward /hooks/"},
		"a redirect": {func(http.Handler) http.Handler {
			return http.RedirectHandler("https://www.example.com/hooks/stripe?token=hush", http.StatusMovedPermanently)
		}, false, doctor.Fail, "answered 301", "(https://www.example.com/hooks/stripe)"},
		"another pawl": {func(next http.Handler) http.Handler { return next }, true, doctor.Fail, "this database has no probe", "where the URL leads"},
		"a page": {func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome</html>")) })
		}, false, doctor.Fail, "this database has no probe", "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := schematest.NewDSN(t)
			s := setup(t, dsn, map[string]string{"stripe": "stripe"}).at(t, away)
			behind := dsn
			if c.elsewhere {
				behind = schematest.NewDSN(t)
			}
			g := newGate(t, s, behind)
			public := httptest.NewServer(c.path(g.Handler))
			t.Cleanup(public.Close)
			write(t, s.file, read(t, s.file)+"\ningress: {public_url: '"+public.URL+"'}\n")
			found, _ := s.examined(t, "--probe")
			if f := finding(t, found, "probe", "stripe"); f.Level != c.level || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Do, c.does) || strings.Contains(f.Do, "hush") {
				t.Errorf("%+v, want %s, %q and %q", f, c.level, c.found, c.does)
			}
			// Whatever came of it, it is no event, and no use of a secret.
			g.stop()
			var events, uses int
			if err := g.pool.QueryRow(t.Context(), `select (select count(*) from receipts), (select count(*) from source_counts where what = 'admitted')`).Scan(&events, &uses); err != nil {
				t.Fatal(err)
			}
			if events != 0 || uses != 0 {
				t.Errorf("%d events and %d used secrets, want none", events, uses)
			}
		})
	}
}

// Nobody listens, or the URL is not known; and a provider that signs with its own key cannot be probed.
func TestDoctor_Probe_CannotBeSent(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"}).at(t, away)
	found, _ := s.examined(t, "--probe")
	if f := finding(t, found, "probe", "stripe"); f.Level != doctor.Fail || !strings.Contains(f.Do, "ingress.public_url") {
		t.Errorf("without a URL: %+v", f)
	}
	found, _ = s.examined(t, "--probe", "--url", "http://127.0.0.1:1")
	if f := finding(t, found, "probe", "stripe"); f.Level != doctor.Fail || !strings.Contains(f.Found, "http://127.0.0.1:1/hooks/stripe cannot be reached") {
		t.Errorf("nobody listens: %+v", f)
	}
	for _, args := range [][]string{{"doctor", "--url", "http://127.0.0.1:1"}, {"doctor", "--probe", "--url", "127.0.0.1"}, {"doctor", "all"}} {
		if r := s.pawl(t, args...); r.code != exitUsage {
			t.Errorf("%v: exit %d, want %d: %s", args, r.code, exitUsage, r.err)
		}
	}
	if r := s.pawl(t, "doctor", "--probe", "--source", "github"); r.code != exitFailed || !strings.Contains(r.err, "there are: stripe") {
		t.Errorf("unknown source: exit %d, %s", r.code, r.err)
	}
	key, _, _ := keys(t, "discord")
	d := setup(t, schematest.NewDSN(t), map[string]string{"d": "discord"}).at(t, away).with("SECRET", key)
	found, _ = d.examined(t, "--probe", "--url", "https://pawl.test")
	f := finding(t, found, "probe", "d")
	if f.Level != doctor.OK || !strings.HasPrefix(f.Found, "cannot be probed: ") || strings.Contains(f.Found, "--key") {
		t.Errorf("discord: %+v", f)
	}
}
