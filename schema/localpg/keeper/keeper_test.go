package keeper_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// run starts a shell script under a keeper and waits until the script prints "ready".
func run(t *testing.T, script string, grace time.Duration) (p *keeper.Process, output string) {
	t.Helper()
	output = filepath.Join(t.TempDir(), "out")
	p, err := keeper.Start(keeper.Command{Path: "/bin/sh", Args: []string{"-c", script}, Log: output, Signal: "TERM", Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(read(t, output), "ready") {
		select {
		case <-deadline:
			t.Fatal("the command is not ready after 10 s")
		case <-tick.C:
		}
	}
	return p, output
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

const polite = `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done`

func TestStop_AsksTheCommand(t *testing.T) {
	t.Parallel()
	p, output := run(t, polite, 0)
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if got := read(t, output); got != "ready\nbye\n" {
		t.Errorf("output = %q; want an orderly end", got)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("second Stop() = %v", err)
	}
}

func TestStop_DeafCommand_IsKilledAfterGrace(t *testing.T) {
	t.Parallel()
	p, _ := run(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`, time.Second)
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestStop_ContextEnds_CommandIsKilled(t *testing.T) {
	t.Parallel()
	p, _ := run(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err == nil {
		t.Error("Stop() = nil; want that it was killed")
	}
	<-p.Done()
}

func TestDone_CommandEndsByItself(t *testing.T) {
	t.Parallel()
	p, _ := run(t, `echo ready; exit 3`, 0)
	<-p.Done()
	if err := p.Ended(); err.Error() != "exit status 3" {
		t.Errorf("Ended() = %v; want exit status 3", err)
	}
}

func TestAwait_UntilTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := keeper.Await(t.Context(), filepath.Join(dir, "none")); err != nil {
		t.Errorf("Await() = %v for a directory that is not there", err)
	}
	command := keeper.Command{Path: "/bin/sh", Args: []string{"-c", polite}, Log: filepath.Join(dir, "out"), Signal: "TERM", Dir: dir}
	p, err := keeper.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := keeper.Await(short, dir); err == nil {
		t.Error("Await() = nil while the command runs")
	}
	if _, err := keeper.Start(command); err == nil {
		t.Error("two commands run in one directory")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := keeper.Await(t.Context(), dir); err != nil {
		t.Errorf("Await() = %v after the command ended", err)
	}
}

// The measured memory includes the command itself, not only the shell that starts it.
func TestPeakMemory_OfTheCommand(t *testing.T) {
	t.Parallel()
	const held = 64 << 20
	p, _ := run(t, `x=$(head -c 67108864 /dev/zero | tr '\0' x); echo ready; echo "${#x}" >/dev/null`, 0)
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the command has not ended after 10 s")
	}
	if got := p.PeakMemory(); got < held || got > 40*held {
		t.Errorf("PeakMemory() = %d MiB, want some hundred", got>>20)
	}
}
