package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// ErrNoBinaries is returned when no server binaries are found and none can be downloaded.
var ErrNoBinaries = errors.New("no PostgreSQL server binaries found (postgres, initdb): install them with `apt-get install postgresql`, `dnf install postgresql-server` or `brew install postgresql`, or set DATABASE_URL to a running server")

// binaries is a directory with the programs of one PostgreSQL version.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// find returns the binaries in dirs that acc can run and that have major version want, or any version if want is 0. If
// no version matches, it returns the best binaries with another version. If there are no binaries at all, it returns
// the zero value.
func find(ctx context.Context, acc account, dirs []string, want int) (best binaries) {
	for _, dir := range dirs {
		b, err := inspect(ctx, acc, dir)
		if err == nil && (want == 0 || b.major == want) {
			return b
		}
		if err == nil && best.dir == "" {
			best = b
		}
	}
	return best
}

// binaryDirs returns the directories that may contain server binaries, best first.
func binaryDirs() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",            // Debian, Ubuntu
		"/usr/pgsql-*/bin",                     // RPMs of the PostgreSQL project
		"/usr/local/pgsql/bin",                 // built from source
		"/opt/homebrew/opt/postgresql*/bin",    // Homebrew on ARM
		"/usr/local/opt/postgresql*/bin",       // Homebrew on Intel
		"/Applications/Postgres.app/*/*/*/bin", // Postgres.app
	} {
		matches, _ := filepath.Glob(pattern) // fails only for a malformed pattern
		slices.SortFunc(matches, func(a, b string) int { return numberIn(b) - numberIn(a) })
		dirs = append(dirs, matches...)
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// numberIn returns the first number in path, so that version 15 sorts above version 9.
func numberIn(path string) int {
	n, _ := strconv.Atoi(digits.FindString(path))
	return n
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect runs the programs in dir as acc to find out their version.
func inspect(ctx context.Context, acc account, dir string) (binaries, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return binaries{}, err
	}
	out, err := acc.command(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, err
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return binaries{}, fmt.Errorf("%s/postgres --version says %q", dir, out)
	}
	major, err := strconv.Atoi(string(m[1]))
	return binaries{dir: dir, major: major}, err
}
