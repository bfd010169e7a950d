package devstack

import (
	"bytes"
	"context"
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

// tool is a program that is found on PATH or built once per machine, in a module of its own: Temporal's 460
// modules stay out of our go.mod.
type tool struct {
	// name is that of the program, title what progress and errors call it.
	name, title string
	// module is what holds it, command where in it.
	module, version, command string
	// newer are requirements ("module version") that go beyond those of module itself.
	newer []string
	// onPath lets a program of that name on PATH be taken instead; only where the name is telling.
	onPath bool
	// instead is what to install where there is no go.
	instead string
}

// temporalCLI is the newest Temporal CLI without a replace directive, which only a main module may have. It holds
// server 1.29.1 and the Web UI. Its own SQLite driver, 1.34.1, leaks a query whose context ends just when its first
// row is there; every later one is then "interrupted (9)", and the server answers nothing more until it is started
// again. Drivers since 1.40.1 close it; 1.51.0 is the one of server 1.32.
var temporalCLI = tool{
	name: "temporal", title: "Temporal dev server", module: "github.com/temporalio/cli", command: "cmd/temporal",
	version: "1.5.1", onPath: true,
	newer:   []string{"modernc.org/sqlite v1.51.0"},
	instead: "Temporal's CLI (https://docs.temporal.io/cli)",
}

// The server and its schema tool, for a Temporal on Postgres. 1.32.1 is the newest that needs no
// newer Go than ours. Their names are everybody's, so PATH is not asked for them.
var (
	temporalServer = tool{
		name: "server", title: "Temporal server", module: "go.temporal.io/server", command: "cmd/server",
		version: "1.32.1",
		instead: "Temporal's server (https://docs.temporal.io/self-hosted-guide)",
	}
	temporalSQL = tool{
		name: "sql", title: "Temporal SQL tool", module: "go.temporal.io/server", command: "cmd/tools/sql",
		version: "1.32.1",
		instead: temporalServer.instead,
	}
)

// progressEvery is how often a long build says that it is still at it: some minutes are a dozen lines.
const progressEvery = 15 * time.Second

// FindTemporal returns the path of Temporal's CLI: the one on PATH, else the one that was built
// before, else one that is built now, which takes some minutes once per machine and is reported
// to progress. Several processes may call it at once: one builds, the others wait.
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
		if isFile(program) { // built while we waited
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

// build names the directory of a build: one version can be built in several ways.
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
	return mod.Bytes()
}

// install builds into a directory beside program and renames, so that program is whole or not there.
// The caller holds the lock of dir.
func (t tool) install(ctx context.Context, goPath, dir, program string) error {
	work := filepath.Join(dir, "build")
	// A build that was killed has left it.
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.WriteFile(filepath.Join(work, "go.mod"), t.goMod(), 0o600); err != nil {
		return err
	}
	// -mod=mod adds to that go.mod what its requirements need, a newer go as well.
	cmd := exec.CommandContext(ctx, goPath, "install", "-mod=mod", "-ldflags=-s -w", path.Join(t.module, t.command))
	cmd.Dir = work
	// For this machine, whatever the environment builds our module for.
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOWORK=off", "CGO_ENABLED=0", "GOOS="+runtime.GOOS,
		"GOARCH="+runtime.GOARCH)
	// go stops its compilers on an interrupt and leaves them running when it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go install: %w: %s", errors.Join(err, ctx.Err()), keeper.LastLines(out.Bytes(), 5))
	}
	return os.Rename(filepath.Join(work, t.name), program)
}

// reporting runs build and tells progress how long it has taken so far.
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
