package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// Stdio holds the input and output streams of a command. Command results are written to Out, all other output to Err.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// DefaultConfig is the configuration file of a command without --config.
const DefaultConfig = "pawl.yaml"

// App holds the state of one call of the program, shared by its commands.
type App struct {
	// Printer writes results. All other output is written to Err.
	output.Printer
	In  io.Reader
	Err io.Writer
	// Env looks up a variable of the environment.
	Env func(string) (string, bool)
	// Providers holds the supported providers by name.
	Providers map[string]webhook.Provider
	// Log writes to Lines, which writes to Err.
	Log   *slog.Logger
	Lines *output.Lines
	// ConfigFile is the value of --config.
	ConfigFile string
	logLevel   string
	logFormat  string
	wide       bool
	// QueryWithin bounds the queries of a command.
	QueryWithin time.Duration
	// ProgressEvery is how often a long command reports its progress.
	ProgressEvery time.Duration
}

// progressEvery is the interval between progress lines of a long command.
const progressEvery = 2 * time.Second

// NewApp returns an app without providers. It writes text for a terminal: see [output.Terminal].
func NewApp(io Stdio, env func(string) (string, bool)) *App {
	return &App{Printer: output.Printer{Out: &output.Terminal{To: io.Out}}, In: io.In,
		Err: &output.Terminal{To: io.Err}, Env: env, QueryWithin: queryWithin, ProgressEvery: progressEvery}
}

// ToPerson returns a copy of the app that writes results to standard error, for output before a confirmation.
func (a *App) ToPerson() *App {
	shown := *a
	shown.Out = a.Err
	return &shown
}

// Ask prints the question and returns the line that was typed. It returns "" at the end of the input.
func (a *App) Ask(question string) string {
	fmt.Fprint(a.Err, question)
	line, _ := bufio.NewReader(a.In).ReadString('\n') // no input counts as no answer
	fmt.Fprintln(a.Err)
	return strings.TrimSpace(line)
}

// ReadFile reads a file, or standard input for "-". Its error does not contain the name.
func (a *App) ReadFile(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.In)
	}
	content, err := os.ReadFile(file)
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return content, err
}

// Progress returns a function that prints the progress of a long command on standard error. It prints nothing at first,
// and then at most once in progressEvery.
func (a *App) Progress() func(format string, args ...any) {
	last := time.Now()
	return func(format string, args ...any) {
		if now := time.Now(); now.Sub(last) >= a.ProgressEvery {
			last = now
			fmt.Fprintln(a.Err, output.Clean(fmt.Sprintf(format, args...)))
		}
	}
}

// CommandLine returns a command with the --config of this call.
func (a *App) CommandLine(command string) string {
	if a.ConfigFile == DefaultConfig {
		return "pawl " + command
	}
	return "pawl --config " + decide.ShellWord(a.ConfigFile) + " " + command
}

// Configured adds the --config of this call to the choice, so that the pasted command works.
func (a *App) Configured(c decide.Choice) decide.Choice {
	if c.Command[0] == "pawl" && a.ConfigFile != DefaultConfig {
		c.Command = slices.Insert(slices.Clone(c.Command), 1, "--config", a.ConfigFile)
	}
	return c
}
