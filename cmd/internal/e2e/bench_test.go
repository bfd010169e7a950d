package e2e_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// The benchmarks run, end by themselves, and print what their documentation says. How fast anything is, is theirs to
// say and nothing that is tested.
func TestBench_Accept_RowForEachModeAndLoad(t *testing.T) {
	t.Parallel()
	p := startPawl(t, "bench", nil, "bench", "accept", "--mode", "no-storage,insert,pawl", "--connections", "1,4", "--seconds", "1", "--rounds", "1", "--json")
	if code := p.exit(2 * time.Minute); code != 0 {
		t.Fatalf("exit %d: %s", code, p.stderr.String())
	}
	var rows []struct {
		Mode        string
		Connections int
		Duplicates  float64
		RPS         float64
		P50         float64 `json:"p50_ms"`
		P99         float64 `json:"p99_ms"`
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), &rows); err != nil {
		t.Fatalf("%v:\n%s", err, p.stdout.String())
	}
	modes := map[string]int{}
	for _, r := range rows {
		modes[r.Mode]++
		if r.RPS <= 0 || r.P50 <= 0 || r.P99 < r.P50 || !slices.Contains([]int{1, 4}, r.Connections) || r.Duplicates != 0 && r.Duplicates != 0.5 {
			t.Errorf("row %+v", r)
		}
	}
	if len(rows) != 12 || modes["no-storage"] != 4 || modes["insert"] != 4 || modes["pawl"] != 4 {
		t.Errorf("%d rows, by mode %v; want one for each of two loads, with duplicates and without", len(rows), modes)
	}
}

func TestBench_Flow_RowForEachMode(t *testing.T) {
	t.Parallel()
	p := startPawl(t, "bench", nil, "bench", "flow", "--server", "dev", "--events", "8", "--in-flight", "2", "--rounds", "1", "--json")
	if code := p.exit(3 * time.Minute); code != 0 {
		t.Fatalf("exit %d: %s", code, p.stderr.String())
	}
	var rows []struct {
		Mode      string
		PerSecond float64 `json:"per_second"`
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), &rows); err != nil {
		t.Fatalf("%v:\n%s", err, p.stdout.String())
	}
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
