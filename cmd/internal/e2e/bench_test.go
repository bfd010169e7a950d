package e2e_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/schema/schematest"
)

// pawlbench builds the benchmark program once and returns its path.
var pawlbench = sync.OnceValues(func() (string, error) {
	path := filepath.Join(shared.dir, "pawlbench")
	out, err := exec.Command("go", "build", "-o", path, "github.com/pawlhq/pawl/cmd/pawlbench").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build pawlbench: %w\n%s", err, out)
	}
	return path, err
})

// bench runs one round of a benchmark and decodes its rows. The tests check no durations.
func bench(t *testing.T, within time.Duration, rows any, args ...string) {
	t.Helper()
	path, err := pawlbench()
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, path, "bench", nil, append(args, "--json", "--pawl", shared.binary, "--rounds", "1")...)
	if code := p.exit(within); code != 0 {
		t.Fatalf("exit %d: %s", code, p.stderr.String())
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), rows); err != nil {
		t.Fatalf("%v:\n%s", err, p.stdout.String())
	}
}

func TestBench_Accept_RowForEachModeAndLoad(t *testing.T) {
	t.Parallel()
	var rows []struct {
		Mode        string
		Connections int
		Duplicates  float64
		RPS         float64
		P50         float64 `json:"p50_ms"`
		P99         float64 `json:"p99_ms"`
	}
	bench(t, 2*time.Minute, &rows, "accept", "--mode", "no-storage,insert,pawl", "--connections", schematest.OrLong("4", "1,4"), "--seconds", "1")
	modes := map[string]int{}
	for _, r := range rows {
		modes[r.Mode]++
		if r.RPS <= 0 || r.P50 <= 0 || r.P99 < r.P50 || !slices.Contains([]int{1, 4}, r.Connections) || r.Duplicates != 0 && r.Duplicates != 0.5 {
			t.Errorf("row %+v", r)
		}
	}
	each := schematest.OrLong(2, 4)
	if len(rows) != 3*each || modes["no-storage"] != each || modes["insert"] != each || modes["pawl"] != each {
		t.Errorf("%d rows, by mode %v; want one for each load, with duplicates and without", len(rows), modes)
	}
}

func TestBench_Flow_RowForEachMode(t *testing.T) {
	t.Parallel()
	var rows []struct {
		Mode      string
		PerSecond float64 `json:"per_second"`
	}
	bench(t, 3*time.Minute, &rows, "flow", "--server", "dev", "--events", "8", "--in-flight", "2", "--mode", "naive,pawl,floor")
	var modes []string
	for _, r := range rows {
		modes = append(modes, r.Mode)
		if r.PerSecond <= 0 {
			t.Errorf("row %+v", r)
		}
	}
	if !slices.Equal(modes, []string{"naive", "pawl", "floor"}) {
		t.Errorf("rows %v, want naive, pawl and floor", modes)
	}
}
