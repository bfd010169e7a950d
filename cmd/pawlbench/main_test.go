package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/pawlbench/internal/bench"
)

// A benchmark runs servers for minutes, so wrong arguments must fail before the start.
func TestRun_WrongArguments_Usage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"flow --server sqlite", `--server: "sqlite" is unknown`},
		{"flow --mode fast", `--mode: "fast" is unknown: use naive, pawl, floor`},
		{"flow --in-flight 0,32", "the minimum is 1"},
		{"flow now", "unknown command"},
		{"accept --mode naive", "use no-storage, insert, inline-start, pawl"},
		{"accept --connections 0", "the minimum is 1"},
		{"accept --rate 200 --for 10ms", "--for at 1s"},
		{"accept --flood 10", "needs a --rate"},
		{"accept --expired 10", "needs a --rate"},
		{"accept --sauce", "unknown flag"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(tt.args), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
			t.Errorf("%s: code %d, %q, %q; want %d and %q", tt.args, code, &stdout, &stderr, exitUsage, tt.want)
		}
	}
}

// Every command on the page about benchmarks can be parsed.
func TestBenchmarksPage_Commands_Parse(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "benchmarks", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^go run ./cmd/pawlbench ([^#>\n]*)`).FindAllSubmatch(page, -1)
	if len(lines) < 8 {
		t.Fatalf("found %d commands", len(lines))
	}
	for _, line := range lines {
		args := strings.Fields(string(line[1]))
		command, rest, err := (&app{}).root(new(bool)).Find(args)
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err == nil {
			err = command.ValidateArgs(command.Flags().Args())
		}
		if err != nil || !command.HasParent() {
			t.Errorf("%s: %v", line[0], err)
		}
	}
}

func TestFlowTable_BesideNaiveAndFloor(t *testing.T) {
	t.Parallel()
	rows := flowTable([]bench.FlowResult{
		{Server: "dev", InFlight: 1, Mode: "naive", PerSecond: 5}, // a row of another load, which must not be compared
		{Server: "dev", InFlight: 32, Mode: "naive", PerSecond: 20},
		{Server: "dev", InFlight: 32, Mode: "pawl", PerSecond: 90},
		{Server: "dev", InFlight: 32, Mode: "floor", PerSecond: 120},
	})
	if got, want := rows[3][3:6], []any{"90.0", "4.50×", "0.75×"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAcceptTable_BesideRivals(t *testing.T) {
	t.Parallel()
	rows := acceptTable([]bench.AcceptResult{
		{Mode: "no-storage", Connections: 64, Measured: bench.Measured{RPS: 20000}},
		{Mode: "insert", Connections: 64, Measured: bench.Measured{RPS: 7000}},
		{Mode: "pawl", Connections: 64, Measured: bench.Measured{RPS: 14000}},
		// a row of another load, which must not be compared
		{Mode: "insert", Connections: 64, Duplicates: 0.5, Measured: bench.Measured{RPS: 1}},
	})
	if got, want := rows[3][3:7], []any{"14000", "0.70×", "2.00×", "-"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
