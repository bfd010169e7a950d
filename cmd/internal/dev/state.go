package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stateVersion is the layout of a state directory. A directory with another layout is not changed.
const stateVersion = "2"

// stateEntries are the entries that dev creates in its state directory, and would overwrite.
var stateEntries = []string{"pawl.yaml", "secrets", "postgres", "temporal", "sandbox"}

// stateDir creates the directory, or checks that it is a state directory of this version. It returns an absolute path.
// It rejects a directory with entries of these names that dev has not created.
func stateDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--state: %w", err)
	}
	// Other users may traverse the directory, as the account of Postgres must, but not list or read it.
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

// checkLayout reads the layout of the state directory, and marks a new directory. The mark is written first, so that
// dev recognizes its own directory even if it is killed immediately afterwards.
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
		return fmt.Errorf("%s was made by another version of pawl (layout %q, this one has %q): use another --state, or remove it to start again", dir, version, stateVersion)
	}
	return nil
}
