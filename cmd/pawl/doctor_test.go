package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/doctor"
	"github.com/pawlhq/pawl/schema/schematest"
)

// finding returns the finding of a check, and fails the test if there is no such finding.
func finding(t *testing.T, found []doctor.Finding, area, check string) doctor.Finding {
	t.Helper()
	i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Area == area && f.Check == check })
	if i < 0 {
		t.Fatalf("no finding for %s %s: %+v", area, check, found)
	}
	return found[i]
}

// examined runs the doctor on the stack.
func examined(t *testing.T, s commandtest.Stack, args ...string) (found []doctor.Finding, ok bool) {
	t.Helper()
	r := s.Pawl(t, append([]string{"doctor", "--json"}, args...)...)
	result := commandtest.Decode[doctor.Report](t, r)
	if (r.Code == 0) != result.OK {
		t.Errorf("exit %d, ok %t", r.Code, result.OK)
	}
	for _, f := range result.Findings {
		if (f.Level == doctor.OK) != (f.Do == "") {
			t.Errorf("%+v: an action is required exactly if the finding is not ok", f)
		}
		if strings.Contains(f.Found+f.Do, commandtest.Secret) {
			t.Errorf("%+v shows a secret", f)
		}
	}
	return result.Findings, result.OK
}

// Temporal is down, and the database works. Each has its own line, and neither check waits for the other.
func TestDoctor_TemporalAway_Said(t *testing.T) {
	t.Parallel()
	s := setup(t, schematest.NewDSN(t), map[string]string{"stripe": "stripe"}).At(t, commandtest.Away)
	begin := time.Now()
	found, ok := examined(t, s)
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
	if f := finding(t, found, "sinks", "finance"); f.Found != "up; no token is set" {
		t.Errorf("%+v, want the sink in", f)
	}
	r := s.Pawl(t, "doctor")
	if r.Code != command.ExitFailed || !strings.Contains(r.Out, "→ check TEMPORAL_ADDRESS") || !strings.HasSuffix(r.Out, " failed\n") {
		t.Errorf("exit %d, screen:\n%s%s", r.Code, r.Out, r.Err)
	}
}

// at returns the stack with a Temporal server at this address. A server that accepts connections and never responds
// does not block the command.
func TestDoctor_NothingAnswers_BoundedAndSaid(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s := setup(t, "postgres://pawl@"+silent.Addr().String()+"/pawl?sslmode=disable", map[string]string{"stripe": "stripe"}).At(t, silent.Addr().String())
	begin := time.Now()
	found, ok := examined(t, s)
	if took := time.Since(begin); ok || took > doctor.Within+10*time.Second {
		t.Errorf("ok %t after %s", ok, took)
	}
	for _, area := range []string{"database", "temporal"} {
		if f := finding(t, found, area, "reachable"); f.Level != doctor.Fail {
			t.Errorf("%+v, want it to have failed", f)
		}
	}
}

// Each problem of the database has a line with the recommended action.
func TestDoctor_DatabaseFaults_EachSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault       []string
		check       string
		level       doctor.Level
		found, does string
	}{
		"old migration":   {[]string{`update schema_version set version = 0`}, "migrations", doctor.Fail, "at version 0", "pawl migrate"},
		"newer migration": {[]string{`update schema_version set version = 99`}, "migrations", doctor.Warn, "at version 99", "newer version of pawl"},
		// The server of these tests has fsync and full_page_writes disabled.
		"synchronous_commit on":  {[]string{`do $$ begin execute format('alter database %I set synchronous_commit = on', current_database()); end $$`}, "durability", doctor.Fail, "off: fsync, full_page_writes;", "turn it on"},
		"synchronous_commit off": {[]string{`do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$`}, "durability", doctor.Fail, "off: fsync, full_page_writes, synchronous_commit;", "turn it on"},
		"read-only":              {[]string{`do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`}, "role", doctor.Fail, "read-only", "primary"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := schematest.NewDSN(t)
			conn := commandtest.Connect(t, dsn)
			for _, sql := range c.fault {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			found, _ := examined(t, setup(t, dsn, map[string]string{"stripe": "stripe"}).At(t, commandtest.Away))
			if f := finding(t, found, "database", c.check); f.Level != c.level || !strings.Contains(f.Found, c.found) || !strings.Contains(f.Do, c.does) {
				t.Errorf("%+v, want %s, %q and %q", f, c.level, c.found, c.does)
			}
		})
	}
}

// A sink is down, and the clock of the host differs from the provider's clock.
func TestDoctor_SinkOutAndClockWrong_Said(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		off   time.Duration
		level doctor.Level
		found string
	}{
		"the same":   {0, doctor.OK, "the clocks agree"},
		"a minute":   {time.Minute, doctor.Warn, "the clock of this host is 1m0s behind it"},
		"ten behind": {-10 * time.Minute, doctor.Fail, "the clock of this host is 10m0s ahead of it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(c.off).UTC().Format(http.TimeFormat))
				w.WriteHeader(http.StatusUnauthorized)
			}))
			t.Cleanup(api.Close)
			dsn := schematest.NewDSN(t)
			s := setup(t, dsn, map[string]string{"billing": "stripe"}).At(t, commandtest.Away).With("KEY", "rk_live_1")
			commandtest.Write(t, s.File, strings.Replace(commandtest.Read(t, s.File), "mode: live", "mode: live, api_key: 'env:KEY', api_url: '"+api.URL+"'", 1))
			if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into breakers (sink, open, since, reason, probes, probe_at) values ('finance', true, now(), 'f.test answered 503', 4, now())`); err != nil {
				t.Fatal(err)
			}
			if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into pauses (kind, name, who, why) values ('sink', 'email', 'ada', 'it moves'), ('source', 'billing', 'bob', 'audit')`); err != nil {
				t.Fatal(err)
			}
			found, _ := examined(t, s)
			if f := finding(t, found, "sinks", "email"); f.Level != doctor.Warn || !strings.Contains(f.Found, "by ada: it moves") || !strings.Contains(f.Do, "`pawl sinks resume email --reason REASON`") {
				t.Errorf("%+v, want it paused", f)
			}
			if f := finding(t, found, "sources", "billing"); f.Level != doctor.Warn || !strings.Contains(f.Found, "by bob: audit") {
				t.Errorf("%+v, want it paused", f)
			}
			f := finding(t, found, "clock", "billing")
			// A Date header has no fractions, so the printed difference may be off by one second.
			f.Found = strings.NewReplacer("59s", "1m0s", "1m1s", "1m0s", "9m59s", "10m0s", "10m1s", "10m0s").Replace(f.Found)
			if f.Level != c.level || f.Found != c.found {
				t.Errorf("%+v, want %s and %q", f, c.level, c.found)
			}
			if f := finding(t, found, "sinks", "finance"); f.Level != doctor.Warn || !strings.Contains(f.Found, "is down: f.test answered 503: 4 probes") {
				t.Errorf("%+v, want it out", f)
			}
			if f := finding(t, found, "clock", "database"); f.Level != doctor.OK {
				t.Errorf("%+v", f)
			}
		})
	}
}

// A secret that no delivery was signed with is reported, and a secret in use is not.
func TestDoctor_Secrets_UnusedSaid(t *testing.T) {
	t.Parallel()
	dsn := schematest.NewDSN(t)
	s := setup(t, dsn, map[string]string{"stripe": "stripe", "github": "github"}).At(t, commandtest.Away)
	if _, err := commandtest.Connect(t, dsn).Exec(t.Context(), `insert into source_counts values ('stripe', 'admitted', 'secret-1', now(), 3, now())`); err != nil {
		t.Fatal(err)
	}
	found, _ := examined(t, s)
	if f := finding(t, found, "secrets", "stripe secret-1"); f.Level != doctor.OK {
		t.Errorf("%+v, want it in use", f)
	}
	if f := finding(t, found, "secrets", "github secret-1"); f.Level != doctor.Warn || !strings.Contains(f.Do, "/hooks/github") {
		t.Errorf("%+v, want a finding", f)
	}
}

// The doctor reports the problem of the endpoint at Stripe, the recommended action, and the period in which the
// endpoint was disabled.
func TestDoctor_Endpoint_Said(t *testing.T) {
	t.Parallel()
	s, dsn := commandtest.Sandbox(t, program(), "billing")
	f := finding(t, first(examined(t, s.At(t, commandtest.Away))), "endpoint", "billing")
	if f.Level != doctor.Warn || f.Found != "no endpoint of this account has a URL that ends in /hooks/billing" {
		t.Errorf("%+v", f)
	}
	conn := commandtest.Connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `insert into endpoints (source, looked_at, off_since, off_until, findings) values ('billing', now(), now() - interval '1 day', now(), '[]')`); err != nil {
		t.Fatal(err)
	}
	if r := s.Pawl(t, "doctor"); !strings.Contains(r.Out, "the endpoint was disabled until ") || !strings.Contains(r.Out, "`pawl events backfill billing --from ") {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if _, err := conn.Exec(t.Context(), `update endpoints set findings = '[{"kind":"unsent","message":"it sends nothing","found_at":"2026-11-20T08:00:00Z"}]'`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `insert into source_failures values ('billing', 3, now() - interval '7 days', now())`); err != nil {
		t.Fatal(err)
	}
	if f := finding(t, first(examined(t, s)), "answers", "billing"); f.Level != doctor.Fail || !strings.Contains(f.Found, "at least 3 deliveries in a row") {
		t.Errorf("%+v", f)
	}
	if r := s.Pawl(t, "status"); !strings.Contains(r.Out, "it sends nothing") || !strings.Contains(r.Out, "at least 3 deliveries in a row") {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}

func first[A, B any](a A, _ B) A { return a }
