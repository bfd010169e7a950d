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

// temporalVersion is the newest Temporal CLI that `go install` accepts: later ones have a
// replace directive in their go.mod. It holds server 1.29.1 and the Web UI.
const temporalVersion = "1.5.1"

// progressEvery is how often a long build says that it is still at it.
const progressEvery = 5 * time.Second

// FindTemporal returns the path of Temporal's CLI: the one on PATH, else the one that was built
// before, else one that is built now, which takes some minutes once per machine and is reported
// to progress. Several processes may call it at once: one builds, the others wait.
//
// The CLI is built apart, not imported: its 460 modules stay out of our go.mod.
func FindTemporal(ctx context.Context, progress io.Writer) (string, error) {
	if path, err := exec.LookPath("temporal"); err == nil {
		return path, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find Temporal: %w", err)
	}
	dir := filepath.Join(base, "pawl", "temporal-"+temporalVersion)
	path := filepath.Join(dir, "temporal")
	if isFile(path) {
		return path, nil
	}
	goPath, err := exec.LookPath("go")
	if err != nil {
		return "", errors.New("neither temporal nor go, which could build it, is on PATH: install Temporal's CLI (https://docs.temporal.io/cli) or Go (https://go.dev/dl)")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build Temporal: %w", err)
	}
	err = reporting(progress, func() error {
		lock, err := keeper.Lock(ctx, filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
		if isFile(path) { // built while we waited
			return nil
		}
		return goInstall(ctx, goPath, dir, path)
	})
	if err != nil {
		return "", fmt.Errorf("build Temporal: %w", err)
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// goInstall builds into a directory beside path and renames, so that path is whole or not there.
// The caller holds the lock of dir.
func goInstall(ctx context.Context, goPath, dir, path string) error {
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
		"github.com/temporalio/cli/cmd/temporal@v"+temporalVersion)
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
	return os.Rename(filepath.Join(work, "temporal"), path)
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
func reporting(progress io.Writer, build func() error) error {
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- build() }()
	_, _ = fmt.Fprintf(progress, "building the Temporal dev server %s (once per machine, takes some minutes)\n", temporalVersion)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				_, _ = fmt.Fprintf(progress, "the Temporal dev server is built (%s)\n", time.Since(start).Round(time.Second))
			}
			return err
		case <-tick.C:
			_, _ = fmt.Fprintf(progress, "building the Temporal dev server: %s\n", time.Since(start).Round(time.Second))
		}
	}
}

func lastLines(content []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
