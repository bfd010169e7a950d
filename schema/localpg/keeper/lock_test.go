package keeper_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawlhq/pawl/schema/localpg/keeper"
)

// holdForAMoment lets a child process hold the lock at path briefly, as a child does between fork and exec.
func holdForAMoment(t *testing.T, path string) {
	t.Helper()
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 0.3")
	child.ExtraFiles = []*os.File{lock}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Wait() })
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// A child of this process holds the lock of the directory until it executes its program. Neither Start nor Claim
// treats this child as another server.
func TestLocks_HeldByAForkedChild_Waits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holdForAMoment(t, filepath.Join(dir, "running"))
	p, err := keeper.Start(keeper.Command{Path: "/bin/sh", Args: []string{"-c", polite}, Log: filepath.Join(dir, "out"), Signal: "TERM", Dir: dir})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { _ = p.Stop(context.Background()) })

	holdForAMoment(t, filepath.Join(dir, "lock"))
	claimed, err := keeper.Claim(dir)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	_ = claimed.Close()
}
