package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory that pawl did not make is somebody's: nothing in it may change.
func TestDev_StateOfSomebodyElse_LeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "pawl.yaml")
	if err := os.WriteFile(file, []byte("written by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := pawl(t, nil, "dev", "--state", dir)
	if r.code != 1 || !strings.Contains(r.err, dir) || !strings.Contains(r.err, "--state") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("exit %d, stderr %q; want 1 and a sentence that names the directory and --state", r.code, r.err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v (%v), want only pawl.yaml", entries, err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "written by hand" {
		t.Errorf("pawl.yaml holds %q (%v)", content, err)
	}
}

func TestDev_StateEmpty_UsageError(t *testing.T) {
	t.Parallel()
	if r := pawl(t, nil, "dev", "--state", ""); r.code != 2 || !strings.Contains(r.err, "--state is empty") {
		t.Errorf("exit %d, stderr %q; want 2 and the flag", r.code, r.err)
	}
}

func TestStateDir_EmptyOrOwn_Taken(t *testing.T) {
	t.Parallel()
	withLog := t.TempDir() // pawl dev --state DIR > DIR/dev.log
	if err := os.WriteFile(filepath.Join(withLog, "dev.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"empty": t.TempDir(), "not there": filepath.Join(t.TempDir(), "a", "b"), "with a log": withLog} {
		for range 2 { // the second time it is its own
			if got, err := stateDir(dir); err != nil || got != dir {
				t.Errorf("%s: stateDir(%q) = %q, %v", name, dir, got, err)
			}
		}
	}
}
