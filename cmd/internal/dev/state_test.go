package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/localpg"
)

func TestStateDir_EmptyOrOwn_Taken(t *testing.T) {
	t.Parallel()
	withLog := t.TempDir() // as `pawl dev --state DIR > DIR/dev.log` does
	if err := os.WriteFile(filepath.Join(withLog, "dev.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"empty": t.TempDir(), "not there": filepath.Join(t.TempDir(), "a", "b"), "with a log": withLog} {
		for range 2 { // the second time, pawl has already marked the directory as its own
			if got, err := stateDir(dir); err != nil || got != dir {
				t.Errorf("%s: stateDir(%q) = %q, %v", name, dir, got, err)
			}
		}
	}
}

func TestStack_StateOfNewerSchema_DirectoryAndFlagNamed(t *testing.T) {
	t.Parallel()
	s := &Stack{Dir: "/home/ann/.pawl", postgres: &localpg.Server{}}
	err := s.explain(fmt.Errorf("migrate: %w", &schema.NewerError{Database: 9, Binary: 4}))
	for _, want := range []string{"/home/ann/.pawl was made by another version of pawl", "version 9", "--state"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("explain() = %q, want %q in it", err, want)
		}
	}
}
