// Command pawlbench compares pawl with simpler designs on this machine. It runs the pawl binary as a child process and
// is not part of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/pawlbench/internal/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends a stop that hangs.
	context.AfterFunc(ctx, stop)
	//nolint:forbidigo // this is main
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// app holds the state of one call.
type app struct {
	output.Printer
	err io.Writer
	// pawl is the path of the measured binary; empty to build it.
	pawl string
}

// run runs the program without its process and returns the exit code: 0, 1 after a failure, 2 for wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{Printer: output.Printer{Out: stdout}, err: stderr}
	started := false
	root := a.root(&started)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage) || !started:
		fmt.Fprintf(stderr, "pawlbench: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "pawlbench: %v\n", err)
	return exitFailed
}

// usageError is an error in the arguments: exit code 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// root builds the command tree. It sets started once flags and arguments are parsed.
func (a *app) root(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use: "pawlbench", Short: "Compare pawl with simpler designs on this machine",
		SilenceUsage: true, SilenceErrors: true,
		Long: `Compare pawl with simpler designs on this machine. Each command starts all servers that it needs and removes
them at the end. docs/benchmarks/README.md explains the figures.`,
		PersistentPreRun: func(*cobra.Command, []string) { *started = true },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.BoolVar(&a.JSON, "json", false, "write results as JSON")
	flags.StringVar(&a.pawl, "pawl", "", "measure this pawl binary, a `file` (default: build the binary of this checkout)")
	root.AddCommand(flowCommand(a), acceptCommand(a), serveCommand(a))
	return root
}

// options returns the common options of the benchmarks. If no binary is given, it builds pawl as the released image
// contains it. remove deletes the built binary.
func (a *app) options(ctx context.Context) (_ bench.Options, remove func(), err error) {
	o := bench.Options{Pawl: a.pawl, Progress: a.err,
		// Each round starts and stops workers, which the level info would report.
		Log: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if o.Self, err = os.Executable(); err != nil {
		return o, nil, fmt.Errorf("find the path of this program: %w", err)
	}
	if o.Pawl != "" {
		return o, func() {}, nil
	}
	directory, err := os.MkdirTemp("", "pawlbench-")
	if err != nil {
		return o, nil, err
	}
	o.Pawl = filepath.Join(directory, "pawl")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "nodev", "-trimpath", "-ldflags=-s -w", "-o", o.Pawl,
		"github.com/pawlhq/pawl/cmd/pawl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		err = fmt.Errorf("build pawl: %w\n%s\nRun pawlbench in a checkout, or give --pawl FILE", err, text)
		return o, nil, errors.Join(err, os.RemoveAll(directory))
	}
	return o, func() { _ = os.RemoveAll(directory) }, nil
}

func positive(flags string, counts ...int) error {
	if len(counts) == 0 || slices.Min(counts) < 1 {
		return usagef("%s: the minimum is 1", flags)
	}
	return nil
}

// ratio returns a/b as a cell, or "-" if one of them is 0.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return number(a/b, 2) + "×"
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
