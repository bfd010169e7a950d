package dev_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/dev"
)

// fakeGo puts a script named `go` on an otherwise empty PATH. The script "installs" a file, appends its arguments and
// its go.mod to a log, and fails if the parameter script fails. Its `go mod download` returns a module with the lines
// that the build edits. The real build takes minutes. Other tests of this package use it on a machine without a
// temporal program.
func fakeGo(t *testing.T, script string) (log string) {
	t.Helper()
	bin, cache, module := t.TempDir(), t.TempDir(), t.TempDir()
	log = filepath.Join(bin, "log")
	for name, content := range map[string]string{
		"temporalcli/devserver/server.go": "\t\"go.temporal.io/server/components/callbacks\"\n" +
			"dynConf[callbacks.AllowedAddresses.Key()]\ndynConf[dynamicconfig.Key(k)] = v\n",
		"temporalcli/commands.worker.go": "ProcessKey: info.GetProcessKey(),\n",
	} {
		file := filepath.Join(module, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o444)); err != nil {
			t.Fatal(err)
		}
	}
	content := "#!/bin/sh\nif [ \"$1\" = mod ]; then echo '{\"Dir\": \"" + module + "\"}'; exit; fi\n{ echo \"$GOFLAGS|$GOWORK|$*\"; while IFS= read -r line; do echo \"$line\"; done <go.mod; } >>'" + log + "'\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	return log
}

func TestFindTemporal_BuiltOnceByMany(t *testing.T) {
	log := fakeGo(t, `while IFS= read -r line; do echo "$line"; done <edited/temporalcli/devserver/server.go >"$GOBIN/temporal"`)
	const built = "dynConf[dynamicconfig.MakeKey(\"component.callbacks.allowedAddresses\")]\ndynConf[dynamicconfig.MakeKey(k)] = v\n"
	t.Setenv("GOFLAGS", "-buildvcs=false -mod=vendor")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := dev.FindTemporal(t.Context(), &bytes.Buffer{})
			if err != nil {
				t.Errorf("FindTemporal() = %v", err)
				return
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != built {
				t.Errorf("%s contains %q, %v; want %q", path, content, err, built)
			}
		})
	}
	wg.Wait()
	var later bytes.Buffer
	if _, err := dev.FindTemporal(t.Context(), &later); err != nil || later.Len() > 0 {
		t.Errorf("once it is built, FindTemporal prints %q, %v; want no output", later.String(), err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// With the SQLite driver of its own go.mod, a server can hang forever after a request was cancelled at a bad
	// moment.
	want := "-buildvcs=false -mod=vendor|off|install -mod=mod -ldflags=-s -w github.com/temporalio/cli/cmd/temporal\n" +
		"module build\n\ngo 1.25.0\n\nrequire github.com/temporalio/cli v1.5.1\n" +
		"require go.temporal.io/server v1.32.1\nrequire github.com/temporalio/ui-server/v2 v2.54.1\n" +
		"require modernc.org/sqlite v1.51.0\nreplace github.com/temporalio/cli => ./edited\n"
	if string(got) != want {
		t.Errorf("go was called with\n%s; want once\n%s", got, want)
	}
}

func TestFindTemporal_BuildFails_SaysWhyAndKeepsNothing(t *testing.T) {
	fakeGo(t, `echo half > "$GOBIN/temporal"; echo "no such module" >&2; exit 1`)
	var progress bytes.Buffer
	for range 2 { // the second call must not find a partial result
		_, err := dev.FindTemporal(t.Context(), &progress)
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
	_, err := dev.FindTemporal(t.Context(), &bytes.Buffer{})
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
	got, err := dev.FindTemporal(t.Context(), &bytes.Buffer{})
	if err != nil || got != want {
		t.Errorf("FindTemporal() = %q, %v; want %q", got, err, want)
	}
}
