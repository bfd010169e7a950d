package devstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// tool is a program that is found on PATH or built once per machine with `go install`. It is built
// apart, not imported: Temporal's 460 modules stay out of our go.mod.
type tool struct {
	// name is that of the program, title what progress and errors call it.
	name, title     string
	module, version string
	// onPath lets a program of that name on PATH be taken instead; only where the name is telling.
	onPath bool
	// instead is what to install where there is no go.
	instead string
}

// temporalCLI is the newest Temporal CLI that `go install` accepts: later ones have a replace
// directive in their go.mod. It holds server 1.29.1 and the Web UI.
var temporalCLI = tool{
	name: "temporal", title: "Temporal dev server", module: "github.com/temporalio/cli/cmd/temporal", version: "1.5.1", onPath: true,
	instead: "Temporal's CLI (https://docs.temporal.io/cli)",
}

// The server and its schema tool, for a Temporal on Postgres. 1.32.1 is the newest that needs no
// newer Go than ours. Their names are everybody's, so PATH is not asked for them.
var (
	temporalServer = tool{
		name: "server", title: "Temporal server", module: "go.temporal.io/server/cmd/server", version: "1.32.1",
		instead: "Temporal's server (https://docs.temporal.io/self-hosted-guide)",
	}
	temporalSQL = tool{
		name: "sql", title: "Temporal SQL tool", module: "go.temporal.io/server/cmd/tools/sql", version: "1.32.1",
		instead: temporalServer.instead,
	}
)

// progressEvery is how often a long build says that it is still at it.
const progressEvery = 5 * time.Second

// FindTemporal returns the path of Temporal's CLI: the one on PATH, else the one that was built
// before, else one that is built now, which takes some minutes once per machine and is reported
// to progress. Several processes may call it at once: one builds, the others wait.
func FindTemporal(ctx context.Context, progress io.Writer) (string, error) {
	return temporalCLI.find(ctx, progress)
}

func (t tool) find(ctx context.Context, progress io.Writer) (string, error) {
	if t.onPath {
		if path, err := exec.LookPath(t.name); err == nil {
			return path, nil
		}
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the %s: %w", t.title, err)
	}
	dir := filepath.Join(base, "pawl", "temporal-"+t.version)
	path := filepath.Join(dir, t.name)
	if isFile(path) {
		return path, nil
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
		if isFile(path) { // built while we waited
			return nil
		}
		return t.install(ctx, goPath, dir, path)
	})
	if err != nil {
		return "", fmt.Errorf("build the %s: %w", t.title, err)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// install builds into a directory beside path and renames, so that path is whole or not there.
// The caller holds the lock of dir.
func (t tool) install(ctx context.Context, goPath, dir, path string) error {
	leftovers, _ := filepath.Glob(filepath.Join(dir, "build-*")) // of builds that were killed
	for _, leftover := range leftovers {
		if err := os.RemoveAll(leftover); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	cmd := exec.CommandContext(ctx, goPath, "install", "-ldflags=-s -w",
		t.module+"@v"+t.version)
	cmd.Dir = work // outside of our module
	cmd.Env = append(installEnv(os.Environ()), "GOBIN="+work, "GOWORK=off", "CGO_ENABLED=0")
	// go stops its compilers on an interrupt and leaves them running when it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go install: %w: %s", errors.Join(err, ctx.Err()), lastLines(out.Bytes(), 5))
	}
	return os.Rename(filepath.Join(work, t.name), path)
}

// installEnv is env for a build that has nothing to do with our module: without its flags
// (-mod=vendor would fail) and without a target platform other than this one.
func installEnv(env []string) []string {
	var kept []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "GOOS", "GOARCH", "GOBIN", "GOWORK", "CGO_ENABLED":
			continue
		case "GOFLAGS":
			var flags []string
			for _, flag := range strings.Fields(value) {
				if !strings.HasPrefix(strings.TrimLeft(flag, "-"), "mod") {
					flags = append(flags, flag)
				}
			}
			kv = "GOFLAGS=" + strings.Join(flags, " ")
		}
		kept = append(kept, kv)
	}
	return kept
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

func lastLines(content []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
