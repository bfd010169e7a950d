package devstack_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/devstack"
)

// fakeGo puts a `go` on an otherwise empty PATH that "installs" a file, writes what it was told
// and its go.mod to a log, and fails when script says so. The real build takes minutes; it is what the other
// tests of this package run on where no temporal is installed.
func fakeGo(t *testing.T, script string) (log string) {
	t.Helper()
	bin, cache := t.TempDir(), t.TempDir()
	log = filepath.Join(bin, "log")
	content := "#!/bin/sh\n{ echo \"$GOFLAGS|$GOWORK|$*\"; while IFS= read -r line; do echo \"$line\"; done <go.mod; } >>'" + log + "'\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	return log
}

func TestFindTemporal_BuiltOnceByMany(t *testing.T) {
	log := fakeGo(t, `echo built > "$GOBIN/temporal"`)
	t.Setenv("GOFLAGS", "-buildvcs=false -mod=vendor")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := devstack.FindTemporal(t.Context(), &bytes.Buffer{})
			if err != nil {
				t.Errorf("FindTemporal() = %v", err)
				return
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != "built\n" {
				t.Errorf("%s holds %q, %v", path, content, err)
			}
		})
	}
	wg.Wait()
	var later bytes.Buffer
	if _, err := devstack.FindTemporal(t.Context(), &later); err != nil || later.Len() > 0 {
		t.Errorf("once it is built, FindTemporal says %q, %v; want nothing", later.String(), err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// The driver of its own go.mod leaves a server that is stuck for good, once a request ends at a bad moment.
	want := "-buildvcs=false -mod=vendor|off|install -mod=mod -ldflags=-s -w github.com/temporalio/cli/cmd/temporal\n" +
		"module build\n\ngo 1.25.0\n\nrequire github.com/temporalio/cli v1.5.1\nrequire modernc.org/sqlite v1.51.0\n"
	if string(got) != want {
		t.Errorf("go was called with\n%s; want once\n%s", got, want)
	}
}

func TestFindTemporal_BuildFails_SaysWhyAndKeepsNothing(t *testing.T) {
	fakeGo(t, `echo half > "$GOBIN/temporal"; echo "no such module" >&2; exit 1`)
	var progress bytes.Buffer
	for range 2 { // the second call must not find the first one's half
		_, err := devstack.FindTemporal(t.Context(), &progress)
		if err == nil || !strings.Contains(err.Error(), "no such module") {
			t.Errorf("FindTemporal() = %v; want go's message", err)
		}
	}
	if !strings.Contains(progress.String(), "builds the Temporal dev server 1.5.1, a few minutes, the first time only\n") {
		t.Errorf("progress = %q", progress.String())
	}
}

func TestFindTemporal_NoGo_OneClearSentence(t *testing.T) {
	fakeGo(t, "")
	t.Setenv("PATH", t.TempDir())
	_, err := devstack.FindTemporal(t.Context(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "https://docs.temporal.io/cli") {
		t.Errorf("FindTemporal() = %v; want what to install", err)
	}
}

func TestFindTemporal_OnPath(t *testing.T) {
	bin := t.TempDir()
	want := filepath.Join(bin, "temporal")
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	got, err := devstack.FindTemporal(t.Context(), &bytes.Buffer{})
	if err != nil || got != want {
		t.Errorf("FindTemporal() = %q, %v; want %q", got, err, want)
	}
}
