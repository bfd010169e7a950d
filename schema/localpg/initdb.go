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

// install finds binaries with the version of the data directory. If there is no data directory, it creates one.
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
		return fmt.Errorf("%s was created by PostgreSQL %d, but only PostgreSQL %d is installed: install PostgreSQL %d, or delete %s to start with an empty database",
			s.data, have, s.bin.major, have, s.opts.Dir)
	}
	if have != 0 {
		return nil
	}
	return s.initdb(ctx)
}

// dataVersion returns the major version of a data directory, or 0 if it does not exist.
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

// initdb creates the data directory. It creates a temporary directory and renames it at the end. If it were killed, an
// incomplete directory with the final name would look complete.
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
		return fmt.Errorf("%s contains files but no database; delete %s to start with an empty database: %w", s.data, s.opts.Dir, err)
	}
	return os.Rename(fresh, s.data)
}
