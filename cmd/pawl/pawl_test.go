package main

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
)

func TestMain(m *testing.M) { commandtest.Main(m) }

// update makes the tests write the generated documentation instead of comparing it.
var update = flag.Bool("update", false, "write generated documentation anew")

// pawl runs the program in this process.
func pawl(t *testing.T, env map[string]string, args ...string) commandtest.Result {
	t.Helper()
	return commandtest.Run(t, program(), "", env, args...)
}

// setup writes a configuration with a source per provider name, on the database at dsn.
func setup(t *testing.T, dsn string, sources map[string]string) commandtest.Stack {
	t.Helper()
	return commandtest.New(t, program(), dsn, sources)
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
		r := s.Pawl(t, args...)
		if r.Code != 2 || r.Out != "" || strings.Count(r.Err, "\n") != 1 || !strings.HasPrefix(r.Err, "pawl: ") {
			t.Errorf("pawl %v: exit %d, stdout %q, stderr %q; want exit 2 and one sentence", args, r.Code, r.Out, r.Err)
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
		if r := pawl(t, nil, args...); r.Code != 2 || !strings.HasPrefix(r.Err, want) {
			t.Errorf("pawl %v: exit %d, stderr %q; want 2 and %q", args, r.Code, r.Err, want)
		}
	}
}

func TestRun_Help_ExitZero(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"send", "--help"}, {"help"}, {"help", "events", "list"}} {
		if r := pawl(t, nil, args...); r.Code != 0 || !strings.Contains(r.Out, "Usage") {
			t.Errorf("pawl %v: exit %d, stdout %q", args, r.Code, r.Out)
		}
	}
}

func TestRun_ConfigMissing_NamesFlag(t *testing.T) {
	t.Parallel()
	r := pawl(t, nil, "--config", filepath.Join(t.TempDir(), "none.yaml"), "migrate")
	if r.Code != 1 || !strings.Contains(r.Err, "--config") || !strings.Contains(r.Err, "none.yaml") {
		t.Errorf("exit %d, stderr %q; want 1 and the flag", r.Code, r.Err)
	}
}
