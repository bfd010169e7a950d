package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// install finds binaries that fit the data directory, and makes a missing data directory.
func (s *Server) install(ctx context.Context) error {
	have, err := dataVersion(s.data)
	if err != nil {
		return err
	}
	s.bin = find(ctx, s.acc, binaryDirs(), have)
	if s.bin.dir == "" {
		if s.bin, err = download(ctx, s.acc, s.log); err != nil {
			return fmt.Errorf("%w (and downloading them failed: %v)", ErrNoBinaries, err)
		}
	}
	if have != 0 && s.bin.major != have {
		return fmt.Errorf("%s was made by PostgreSQL %d and only PostgreSQL %d is installed: install PostgreSQL %d, or delete %s to begin empty",
			s.data, have, s.bin.major, have, s.opts.Dir)
	}
	if have != 0 {
		return nil
	}
	return s.initdb(ctx)
}

// dataVersion returns the major version of a data directory, 0 if it does not exist yet.
func dataVersion(data string) (int, error) {
	content, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION: %w", data, err)
	}
	return version, nil
}

// initdb makes the data directory. It works in a directory of its own and renames it in the end:
// half a data directory, left by a kill, would look like a whole one.
func (s *Server) initdb(ctx context.Context) error {
	work := filepath.Join(s.home, "initdb")
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	pwfile := filepath.Join(work, "password")
	if err := os.WriteFile(pwfile, []byte(s.password), 0o600); err != nil {
		return err
	}
	for _, path := range []string{work, pwfile} {
		if err := s.acc.own(path); err != nil {
			return err
		}
	}
	fresh := filepath.Join(work, "data")
	args := []string{"-D", fresh, "-U", superuser, "--pwfile", pwfile, "--auth", "scram-sha-256", "--encoding", "UTF8",
		"--locale", "C"}
	if s.opts.Ephemeral {
		args = append(args, "--no-sync")
	}
	if out, err := s.acc.command(ctx, s.bin.path("initdb"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("initdb %s: %w: %s", s.data, err, out)
	}
	if err := os.Remove(s.data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds files but no database; delete %s to begin empty: %w", s.data, s.opts.Dir, err)
	}
	return os.Rename(fresh, s.data)
}
