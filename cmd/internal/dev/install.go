package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// The versions of Temporal's server and UI in `pawl dev`, in the benchmarks and in docker-compose.yml. A test
// compares these versions with the other files. 1.32.1 and 2.54.1 are the newest versions that build with Go 1.26.8.
const (
	TemporalVersion   = "1.32.1"
	TemporalUIVersion = "2.54.1"
)

// tool is a program that is found on PATH, or built once per machine in a separate Go module, so that Temporal's 460
// modules stay out of pawl's go.mod.
type tool struct {
	// name is the program's name, title its name in progress messages and errors.
	name, title string
	// module contains the program, and command is the program's directory in the module.
	module, version, command string
	// newer lists requirements ("module version") that replace older requirements of module.
	newer []string
	// edits adapt the source of module to these newer requirements. They are applied to a copy of the module.
	edits []edit
	// onPath allows a program of this name on PATH to be used instead of a build. It is set only if the name is
	// unambiguous.
	onPath bool
	// instead names the program that a user without Go can install.
	instead string
}

// edit replaces a text that occurs once in a file.
type edit struct{ file, old, new string }

// temporalCLI is the newest Temporal CLI without a replace directive, which only a main module may have. Its own server
// is 1.29.1, which lacks security fixes. The edits adapt the CLI to the newer server.
//
// Its own SQLite driver, 1.34.1, leaks a query if the query's context ends just when its first row arrives. All later
// queries then fail with "interrupted (9)" until the server restarts. Drivers since 1.40.1 close such a query. Server
// 1.32 has 1.51.0.
var temporalCLI = tool{
	name: "temporal", title: "Temporal dev server", module: "github.com/temporalio/cli", command: "cmd/temporal",
	version: "1.5.1", onPath: true,
	newer: []string{
		"go.temporal.io/server v" + TemporalVersion,
		"github.com/temporalio/ui-server/v2 v" + TemporalUIVersion,
		"modernc.org/sqlite v1.51.0",
	},
	edits: []edit{
		{"temporalcli/devserver/server.go", "\t\"go.temporal.io/server/components/callbacks\"\n", ""},
		{"temporalcli/devserver/server.go", "callbacks.AllowedAddresses.Key()",
			`dynamicconfig.MakeKey("component.callbacks.allowedAddresses")`},
		{"temporalcli/devserver/server.go", "dynamicconfig.Key(k)", "dynamicconfig.MakeKey(k)"},
		{"temporalcli/commands.worker.go", "info.GetProcessKey()", "info.GetWorkerGroupingKey()"},
	},
	instead: "Temporal's CLI (https://docs.temporal.io/cli)",
}

// The server and its schema tool, for a Temporal on Postgres. Their names are common, so PATH is not searched.
var (
	temporalServer = tool{
		name: "server", title: "Temporal server", module: "go.temporal.io/server", command: "cmd/server",
		version: TemporalVersion,
		instead: "Temporal's server (https://docs.temporal.io/self-hosted-guide)",
	}
	temporalSQL = tool{
		name: "sql", title: "Temporal SQL tool", module: "go.temporal.io/server", command: "cmd/tools/sql",
		version: TemporalVersion,
		instead: temporalServer.instead,
	}
)

// progressEvery is how often a long build reports progress.
const progressEvery = 15 * time.Second

// FindTemporal returns the path of Temporal's CLI: on PATH, from an earlier build, or from a new build, which takes
// some minutes once per machine and is reported to progress. Several processes may call FindTemporal at once: one
// process builds, and the others wait.
func FindTemporal(ctx context.Context, progress io.Writer) (string, error) {
	return temporalCLI.find(ctx, progress)
}

func (t tool) find(ctx context.Context, progress io.Writer) (string, error) {
	if t.onPath {
		if program, err := exec.LookPath(t.name); err == nil {
			return program, nil
		}
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the %s: %w", t.title, err)
	}
	dir := filepath.Join(base, "pawl", "temporal-"+t.build())
	program := filepath.Join(dir, t.name)
	if isFile(program) {
		return program, nil
	}
	goPath, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("neither %s nor go, which could build it, is on PATH: install %s or Go (https://go.dev/dl)", t.name, t.instead)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build the %s: %w", t.title, err)
	}
	err = t.reporting(progress, func() error {
		lock, err := keeper.Lock(ctx, filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
		if isFile(program) { // another process has built it while this one waited
			return nil
		}
		return t.install(ctx, goPath, dir, program)
	})
	if err != nil {
		return "", fmt.Errorf("build the %s: %w", t.title, err)
	}
	return program, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// build names the directory of a build, because one version can be built with different options.
func (t tool) build() string {
	name := t.version
	for _, requirement := range t.newer {
		module, version, _ := strings.Cut(requirement, " v")
		name += "-" + path.Base(module) + "-" + version
	}
	return name
}

func (t tool) goMod() []byte {
	var mod bytes.Buffer
	_, _ = fmt.Fprintf(&mod, "module build\n\ngo 1.25.0\n\nrequire %s v%s\n", t.module, t.version)
	for _, requirement := range t.newer {
		_, _ = fmt.Fprintf(&mod, "require %s\n", requirement)
	}
	if t.edits != nil {
		_, _ = fmt.Fprintf(&mod, "replace %s => ./edited\n", t.module)
	}
	return mod.Bytes()
}

// edit copies the module into dir and applies the edits.
func (t tool) edit(ctx context.Context, goPath, dir string) error {
	download := exec.CommandContext(ctx, goPath, "mod", "download", "-json", t.module+"@v"+t.version)
	download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := download.Output()
	var module struct{ Dir, Error string }
	if err := errors.Join(err, json.Unmarshal(out, &module)); err != nil {
		return fmt.Errorf("go mod download: %w: %s", err, module.Error)
	}
	if err := os.CopyFS(dir, os.DirFS(module.Dir)); err != nil {
		return err
	}
	for _, e := range t.edits {
		path := filepath.Join(dir, e.file)
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(content, []byte(e.old)); n != 1 {
			return fmt.Errorf("%s of %s %s contains %q %d times, want once", e.file, t.module, t.version, e.old, n)
		}
		content = bytes.Replace(content, []byte(e.old), []byte(e.new), 1)
		if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, content, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// install builds into a directory beside program and then renames it, so that program is either complete or missing.
// The caller holds the lock of dir.
func (t tool) install(ctx context.Context, goPath, dir, program string) error {
	work := filepath.Join(dir, "build")
	// A killed build may have left the directory.
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.WriteFile(filepath.Join(work, "go.mod"), t.goMod(), 0o600); err != nil {
		return err
	}
	if t.edits != nil {
		if err := t.edit(ctx, goPath, filepath.Join(work, "edited")); err != nil {
			return err
		}
	}
	// -mod=mod adds the requirements of the module to that go.mod, including a newer Go version.
	cmd := exec.CommandContext(ctx, goPath, "install", "-mod=mod", "-ldflags=-s -w", path.Join(t.module, t.command))
	cmd.Dir = work
	// Build for this machine, even if the environment sets another target for pawl.
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOWORK=off", "CGO_ENABLED=0", "GOOS="+runtime.GOOS,
		"GOARCH="+runtime.GOARCH)
	// On an interrupt, go stops its compilers; if it is killed, they continue.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go install: %w: %s", errors.Join(err, ctx.Err()), keeper.LastLines(out.Bytes(), 5))
	}
	return os.Rename(filepath.Join(work, t.name), program)
}

// reporting runs build and reports the elapsed time to progress.
func (t tool) reporting(progress io.Writer, build func() error) error {
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- build() }()
	_, _ = fmt.Fprintf(progress, "builds the %s %s, a few minutes, the first time only\n", t.title, t.version)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				_, _ = fmt.Fprintf(progress, "the %s is built (%s)\n", t.title, time.Since(start).Round(time.Second))
			}
			return err
		case <-tick.C:
			_, _ = fmt.Fprintf(progress, "still builds the %s: %s\n", t.title, time.Since(start).Round(time.Second))
		}
	}
}
