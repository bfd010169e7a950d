package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeBinaries creates a directory with programs that print the given major version of PostgreSQL.
func fakeBinaries(t *testing.T, major int) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(openDir(t)), "bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %d.4 (Debian 1.2)'\n", major)
	for _, program := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	acc, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	empty, old, current := t.TempDir(), fakeBinaries(t, 14), fakeBinaries(t, 17)
	unreachable := fakeBinaries(t, 16)
	for _, program := range []string{"postgres", "initdb"} {
		if err := os.Chmod(filepath.Join(unreachable, program), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		want  int
		dir   string
		major int
	}{
		"the first that runs":           {0, old, 14},
		"the version of the data":       {17, current, 17},
		"another version than the data": {9, old, 14},
	} {
		got := find(t.Context(), acc, []string{empty, unreachable, old, current}, tc.want)
		if got.dir != tc.dir || got.major != tc.major {
			t.Errorf("%s: find(%d) = %+v; want %d in %s", name, tc.want, got, tc.major, tc.dir)
		}
	}
	if got := find(t.Context(), acc, []string{empty, unreachable}, 0); got.dir != "" {
		t.Errorf("find() = %+v without any binaries", got)
	}
}

func TestErrNoBinaries_SaysWhatToInstall(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"apt-get install postgresql", "brew install postgresql", "dnf install postgresql-server"} {
		if !strings.Contains(ErrNoBinaries.Error(), want) {
			t.Errorf("%v; want %q in it", ErrNoBinaries, want)
		}
	}
}

func TestNumberIn_NewestFirst(t *testing.T) {
	t.Parallel()
	dirs := []string{"/usr/lib/postgresql/9.6/bin", "/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/17/bin"}
	slices.SortFunc(dirs, func(a, b string) int { return numberIn(b) - numberIn(a) })
	if want := "/usr/lib/postgresql/17/bin"; dirs[0] != want {
		t.Errorf("first = %s; want %s", dirs[0], want)
	}
}
