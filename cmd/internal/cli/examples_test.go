package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/sinkcheck"
)

const (
	examples = "../../../docs/examples/sinks"
	esbuild  = "github.com/evanw/esbuild/cmd/esbuild@v0.28.2"
)

// Users copy the example sinks, so each of them passes every check, also with requests that it executes.
func TestSinksCheck_ExampleSinks_PassEveryCheck(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(*testing.T) *exec.Cmd{"Go": goExample, "TypeScript": typeScriptExample} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, build(t), "right")
			s := withSinks(t, url, url, url, "127.0.0.1:1")
			r := s.Pawl(t, "sinks", "check", "workspaces", "finance", "--write", "--yes", "--json")
			var checks []string
			for _, f := range commandtest.Decode[[]sinkcheck.Finding](t, r) {
				checks = append(checks, f.Sink+" "+f.Check)
				if f.Result != sinkcheck.OK && f.Check != "effects" {
					t.Errorf("%+v", f)
				}
			}
			for _, want := range []string{"workspaces conflict", "workspaces strangers", "workspaces concurrent",
				"workspaces late", "finance conflict", "finance strangers", "finance concurrent"} {
				if !slices.Contains(checks, want) {
					t.Errorf("%s was not checked: %v", want, checks)
				}
			}
		})
	}
}

func goExample(t *testing.T) *exec.Cmd {
	binary := filepath.Join(t.TempDir(), "sinks")
	if out, err := exec.Command("go", "build", "-o", binary, examples).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exec.Command(binary, "-listen", "127.0.0.1:0")
}

// typeScriptExample removes the types with esbuild, because Node runs TypeScript only since version 22.18.
func typeScriptExample(t *testing.T) *exec.Cmd {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed")
	}
	script := filepath.Join(t.TempDir(), "sinks.mjs")
	build := exec.Command("go", "run", esbuild, "--outfile="+script, filepath.Join(examples, "sinks.ts"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exec.Command(node, script, "0")
}

// start starts an example and returns its URL. The example ends with the test.
func start(t *testing.T, example *exec.Cmd, token string) (url string) {
	example.Env = append(os.Environ(), "SINK_TOKEN="+token)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	example.Stdout, example.Stderr = write, write
	if err := errors.Join(example.Start(), write.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = example.Process.Kill()
		_ = example.Wait()
		_ = read.Close()
	})
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if _, address, found := strings.Cut(lines.Text(), "listening on "); found {
			go func() { _, _ = io.Copy(io.Discard, read) }()
			return "http://" + address
		}
	}
	t.Fatalf("the example ended without an address: %v", lines.Err())
	return ""
}
