package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/bench"
)

// A benchmark starts servers for minutes; what cannot be meant is refused before.
func TestBench_Unclear_Usage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"flow --server sqlite", `--server: "sqlite" is no server`},
		{"flow --mode fast", `--mode: "fast" is no mode: use naive, pawl, floor`},
		{"flow --in-flight 0,32", "counts start at 1"},
		{"accept --mode naive", "use no-storage, insert, inline-start, pawl"},
		{"accept --connections 0", "counts start at 1"},
		{"accept --rate 200 --for 10ms", "--for at 1s"},
	} {
		r := pawl(t, nil, append([]string{"bench"}, strings.Fields(tt.args)...)...)
		if r.code != exitUsage || !strings.Contains(r.err, tt.want) {
			t.Errorf("bench %s: code %d, %q; want %d and %q", tt.args, r.code, r.err, exitUsage, tt.want)
		}
	}
}

func TestFlowTable_BesideNaiveAndFloor(t *testing.T) {
	t.Parallel()
	rows := flowTable([]bench.FlowResult{
		{Server: "dev", InFlight: 1, Mode: "naive", PerSecond: 5}, // of another load
		{Server: "dev", InFlight: 32, Mode: "naive", PerSecond: 20},
		{Server: "dev", InFlight: 32, Mode: "pawl", PerSecond: 90},
		{Server: "dev", InFlight: 32, Mode: "floor", PerSecond: 120},
	})
	if got, want := rows[3][3:6], []string{"90.0", "4.50×", "0.75×"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAcceptTable_BesideRivals(t *testing.T) {
	t.Parallel()
	rows := acceptTable([]bench.AcceptResult{
		{Mode: "no-storage", Connections: 64, RPS: 20000},
		{Mode: "insert", Connections: 64, RPS: 7000},
		{Mode: "pawl", Connections: 64, RPS: 14000},
		{Mode: "insert", Connections: 64, Duplicates: 0.5, RPS: 1}, // of another load
	})
	if got, want := rows[3][3:7], []string{"14000", "0.70×", "2.00×", "-"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
