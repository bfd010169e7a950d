package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stateVersion is the layout of a state directory; a directory of another one is left alone.
const stateVersion = "2"

// stateEntries are what dev makes in its state directory, and would write over.
var stateEntries = []string{"pawl.yaml", "secrets", "postgres", "temporal", "sandbox"}

// stateDir makes the directory, or checks that it is a state directory that this pawl knows. It returns an
// absolute path. It leaves a directory in which somebody else has made what dev makes as it is.
func stateDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--state: %w", err)
	}
	// Others may pass through, as the user that Postgres runs under must, and may list and read nothing.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", fmt.Errorf("--state: %w", err)
	}
	if err := checkLayout(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o700); err != nil {
		return "", fmt.Errorf("--state: %w", err)
	}
	return dir, nil
}

// checkLayout reads which layout the state directory has, and marks a new directory as one. The mark
// comes before all else: a dev that is killed after it finds its own directory again.
func checkLayout(dir string) error {
	file := filepath.Join(dir, "version")
	held, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range stateEntries {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				return fmt.Errorf("%s holds a %s that `pawl dev` has not made: name another directory with --state", dir, name)
			}
		}
		return os.WriteFile(file, []byte(stateVersion+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if version := strings.TrimSpace(string(held)); version != stateVersion {
		return fmt.Errorf("%s was made by another version of pawl (layout %q, this one has %q): use another --state, or remove it to begin anew", dir, version, stateVersion)
	}
	return nil
}
