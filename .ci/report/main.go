// Command report reads the output of `go test -json`. It prints a line for each package, the whole output of each
// failed test, and each skipped test with its reason. It fails if a test failed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one of the events of `go doc test2json`.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

func main() {
	failed, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

func report(in io.Reader, out io.Writer) (failed bool, err error) {
	output := map[string]*strings.Builder{} // the output of running tests
	for events := json.NewDecoder(in); ; {
		var e event
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return failed, nil
		} else if err != nil {
			return true, err
		}
		key := e.ImportPath + e.Package + " " + e.Test
		if output[key] == nil {
			output[key] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			output[key].WriteString(e.Output)
			continue
		case "fail", "build-fail":
			failed = true
			fmt.Fprint(out, output[key])
		case "skip":
			for line := range strings.Lines(output[key].String()) {
				if e.Test != "" && !strings.HasPrefix(line, "===") {
					fmt.Fprint(out, line)
				}
			}
		case "pass":
		default:
			continue
		}
		if e.Test == "" && e.Action != "skip" && e.Package != "" {
			fmt.Fprintf(out, "%-4s %6.1fs %s\n", e.Action, e.Elapsed, e.Package)
		}
		delete(output, key)
	}
}
