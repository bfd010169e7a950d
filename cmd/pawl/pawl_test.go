package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/schema/schematest"
)

// TestMain sets an address without a Temporal server. Tests that need no Temporal must not find one that happens to run
// on the default port.
func TestMain(m *testing.M) {
	if err := os.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1"); err != nil {
		panic(err)
	}
	schematest.Main(m)
}

// update makes the tests write the generated documentation instead of comparing it.
var update = flag.Bool("update", false, "write generated documentation anew")

const testSecret = "whsec_0123456789abcdef0123456789abcdef"

// result is the result of one call of the program.
type result struct {
	code     int
	out, err string
}

// pawl runs the program in this process.
func pawl(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	return typed(t, "", env, args...)
}

// typed runs the program with this input.
func typed(t *testing.T, in string, env map[string]string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := run(t.Context(), args, stdio{strings.NewReader(in), &out, &err}, func(key string) (string, bool) {
		v, ok := env[key]
		return v, ok
	})
	return result{code, out.String(), err.String()}
}

// connect opens a connection of the test's own to the database at dsn.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// decode reads a result's JSON.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("output is not JSON: %v\nstdout: %s\nstderr: %s", err, r.out, r.err)
	}
	return v
}

// stack is a configuration file and the environment it refers to.
type stack struct {
	file string
	env  map[string]string
}

// setup writes a configuration with a source per provider name, on the database at dsn.
func setup(t *testing.T, dsn string, sources map[string]string) stack {
	t.Helper()
	s := stack{filepath.Join(t.TempDir(), "pawl.yaml"), map[string]string{"DSN": dsn, "SECRET": testSecret}}
	var b strings.Builder
	b.WriteString("database: env:DSN\nplans: {prices: {price_pro: pro}, features: {pro: [api]}}\n")
	b.WriteString("sinks:\n  workspaces: {url: 'http://w.test'}\n  finance: {url: 'http://f.test'}\n")
	b.WriteString("  email: {address: 'm.test:25', from: 'a@b.test'}\nsources:\n")
	for name, provider := range sources {
		mode := ""
		if provider == "stripe" { // the provider that bills requires the option
			mode = ", mode: live"
		}
		b.WriteString("  " + name + ": {provider: " + provider + mode + ", secrets: [{value: env:SECRET}]}\n")
	}
	if err := os.WriteFile(s.file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s stack) pawl(t *testing.T, args ...string) result {
	t.Helper()
	return pawl(t, s.env, append([]string{"--config", s.file}, args...)...)
}

// variable looks up a variable of the environment.
func (s stack) variable(key string) (string, bool) {
	value, ok := s.env[key]
	return value, ok
}

// with returns the stack with one more variable.
func (s stack) with(key, value string) stack {
	s.env = maps.Clone(s.env)
	s.env[key] = value
	return s
}

func TestRun_UsageErrors_ExitTwoWithOneSentence(t *testing.T) {
	t.Parallel()
	s := setup(t, "postgres://localhost/none", map[string]string{"stripe": "stripe"})
	for _, args := range [][]string{
		{"nonsense"}, {"evnts"}, {"--nonsense"}, {"events"}, {"events", "nonsense"}, {"events", "show"}, {"events", "list", "--status", "odd"},
		{"events", "list", "--limit", "0"}, {"send"}, {"send", "--source", "stripe", "--count", "0"}, {"verify"},
		{"send", "--source", "stripe", "--event-id", "evt_1", "--count", "2"}, {"--log-level", "loud", "migrate"},
		{"events", "retry", "evt_1"}, {"events", "skip", "evt_1", "--reason", " "}, {"events", "compensate", "evt_1"}, {"events", "start", "evt_1"},
		{"events", "mark-done", "evt_1", "--reason", "x"}, {"rejections", "admit", "id"}, {"events", "replay", "evt_1"},
		{"--log-format", "xml", "migrate"}, {"migrate", "extra"}, {"send", "--source", "stripe", "--url", "127.0.0.1:8080"},
		{"send", "--source", "stripe", "--url", "ftp://x/hooks/stripe"}, {"sources", "--unused-for", "0s"}, {"sources", "--unused-for=-1h"},
		{"healthcheck", "nonsense"}, {"healthcheck", "ingress", "worker"}, {"help", "nonsense"}, {"help", "events", "list", "nonsense"}, {"audit", "verify", "--head", "none"}, {"audit", "verify", "--head", "abcd"},
	} {
		r := s.pawl(t, args...)
		if r.code != 2 || r.out != "" || strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "pawl: ") {
			t.Errorf("pawl %v: exit %d, stdout %q, stderr %q; want exit 2 and one sentence", args, r.code, r.out, r.err)
		}
	}
}

func TestRun_UsageErrors_NameCommandAndFix(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"pawl: events retry needs one ID, or --status for many events (see pawl events retry --help)":            {"events", "retry", "--reason", "x"},
		"pawl: events list takes no argument: remove \"evt_1\" (see pawl events list --help)":                    {"events", "list", "evt_1"},
		"pawl: invalid argument \"x\" for \"--limit\" flag: write a number from 1 (see pawl events list --help)": {"events", "list", "--limit", "x"},
		"pawl: verify takes no argument: remove \"request.json\" (see pawl verify --help)":                       {"verify", "request.json"},
	} {
		if r := pawl(t, nil, args...); r.code != 2 || !strings.HasPrefix(r.err, want) {
			t.Errorf("pawl %v: exit %d, stderr %q; want 2 and %q", args, r.code, r.err, want)
		}
	}
}

func TestRun_Help_ExitZero(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"send", "--help"}, {"help"}, {"help", "events", "list"}} {
		if r := pawl(t, nil, args...); r.code != 0 || !strings.Contains(r.out, "Usage") {
			t.Errorf("pawl %v: exit %d, stdout %q", args, r.code, r.out)
		}
	}
}

func TestRun_ConfigMissing_NamesFlag(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "--config", filepath.Join(t.TempDir(), "none.yaml"), "migrate")
	if r.code != 1 || !strings.Contains(r.err, "--config") || !strings.Contains(r.err, "none.yaml") {
		t.Errorf("exit %d, stderr %q; want 1 and the flag", r.code, r.err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	said := pawl(t, nil, "version")
	if said.code != 0 || !strings.HasPrefix(said.out, "pawl ") || !strings.Contains(said.out, ", commit ") || !strings.Contains(said.out, runtime.Version()) {
		t.Errorf("exit code %d, %q", said.code, said.out)
	}
	var b build
	if err := json.Unmarshal([]byte(pawl(t, nil, "version", "--json").out), &b); err != nil || b.Go != runtime.Version() || b.Version == "" {
		t.Errorf("%+v, %v", b, err)
	}
}

// The list of modules in the binary equals the list of the Go toolchain.
func TestVersion_SBOM(t *testing.T) {
	t.Parallel()
	var got bom
	if err := json.Unmarshal([]byte(pawl(t, nil, "version", "--sbom").out), &got); err != nil {
		t.Fatal(err)
	}
	info, _ := debug.ReadBuildInfo()
	if got.Format != "CycloneDX" || got.Metadata.Component.Name != "github.com/pawlhq/pawl" || len(got.Components) != len(info.Deps)+1 {
		t.Errorf("%+v, and %d modules are in the binary", got, len(info.Deps))
	}
	for _, c := range got.Components[1:] {
		if !strings.HasPrefix(c.PURL, "pkg:golang/"+c.Name+"@v") {
			t.Errorf("%+v", c)
		}
	}
}
