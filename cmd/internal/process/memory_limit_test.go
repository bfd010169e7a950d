package process

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimit_OfTheContainer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		want       int64
	}{
		"no control group":    {"other", "1", 0},
		"no limit":            {"memory.max", "max\n", 0},
		"no limit, version 1": {"memory/memory.limit_in_bytes", "9223372036854771712\n", 0},
		"512 MB":              {"memory.max", "512000000\n", 460_800_000 - 64<<20},
		"version 1":           {"memory/memory.limit_in_bytes", "512000000\n", 460_800_000 - 64<<20},
		"a small one":         {"memory.max", "100000000\n", 50_000_000},
	} {
		root := t.TempDir()
		file := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
