package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// stdio is where a command reads and writes: results to out, everything else to err.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// defaultConfig is the configuration file of a command that is told no other.
const defaultConfig = "pawl.yaml"

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// app is one call of the program: what the commands share.
type app struct {
	stdio
	output.Printer
	env        func(string) (string, bool)
	log        *slog.Logger
	lines      *output.Lines
	configFile string
	logLevel   string
	logFormat  string
	wide       bool
	// queryWithin bounds what a command asks the database.
	queryWithin time.Duration
	// progressEvery is how often a command that takes long says how far it is.
	progressEvery time.Duration
}

func newApp(io stdio, env func(string) (string, bool)) *app {
	io.out, io.err = &output.Terminal{To: io.out}, &output.Terminal{To: io.err}
	return &app{stdio: io, Printer: output.Printer{Out: io.out}, env: env, queryWithin: queryWithin,
		progressEvery: progressEvery}
}

// toPerson is the app with its results written to standard error, for what a person sees before an answer.
func (a *app) toPerson() *app {
	shown := *a
	shown.out, shown.Out = a.err, a.err
	return &shown
}

// run is the program without its process. It returns the exit code: 0, 1 for what failed, 2 for a
// call that could not be understood.
func run(ctx context.Context, args []string, io stdio, env func(string) (string, bool)) int {
	a := newApp(io, env)
	started := false
	root := a.root(&started)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if out := a.out.(*output.Terminal); out.Err != nil {
		err = cmp.Or(err, fmt.Errorf("write the result: %w", out.Err))
	}
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, output.ErrFailed):
		return exitFailed
	case errors.As(err, &usage) || !started:
		fmt.Fprintf(a.err, "pawl: %v (see %s --help)\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(a.err, "pawl: %v\n", err)
	return exitFailed
}

// usageError is a call that could not be understood: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// root builds the command tree. started is set once flags and arguments were understood.
func (a *app) root(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "pawl",
		Short:         "Receive webhooks, and do what they ask for once",
		SilenceUsage:  true,
		SilenceErrors: true,
		// Cobra's suggestions are a paragraph; an error here is a sentence.
		DisableSuggestions: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			*started = true
			if !a.wide {
				a.Columns = output.Columns(a.out, a.env)
			}
			return a.setLogger()
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usagef("%s", ofParser.ReplaceAllString(err.Error(), ""))
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", defaultConfig, "configuration `file`")
	flags.BoolVar(&a.JSON, "json", false, "write results as JSON")
	flags.BoolVar(&a.wide, "wide", false, "write lists in full width, and do not fit them to the terminal")
	flags.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&a.logFormat, "log-format", "text", "text or json")
	root.AddCommand(commands(a)...)
	return root
}

// ofParser is the prefix of errors of Go's parser of numbers.
var ofParser = regexp.MustCompile(`strconv\.\w+: parsing ".*": `)

// helpCommand is cobra's, except that an unknown topic is a mistake like any other.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// group is a command that only holds others.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	g := &cobra.Command{
		Use: name, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for %s: use %s", args[0], name, output.OneOf(names))
			}
			return usagef("%s needs a command: %s", name, output.OneOf(names))
		},
	}
	g.AddCommand(commands...)
	return g
}

func noArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument: %q is one too many", strings.TrimPrefix(cmd.CommandPath(), "pawl "),
			args[0])
	}
	return nil
}

func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one ID", strings.TrimPrefix(cmd.CommandPath(), "pawl "))
	}
	return nil
}

func (a *app) setLogger() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return usagef("--log-level: %q is no level: use debug, info, warn or error", a.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	a.lines = &output.Lines{To: a.err}
	switch a.logFormat {
	case "text":
		a.log = slog.New(a.lines.Log(slog.NewTextHandler(a.lines, opts)))
	case "json":
		a.log = slog.New(a.lines.Log(slog.NewJSONHandler(a.lines, opts)))
	default:
		return usagef("--log-format: %q is no format: use text or json", a.logFormat)
	}
	return nil
}

// config loads the configuration file and logs its warnings.
func (a *app) config() (*config.Config, error) { return a.load(config.Load) }

// configToAsk is [app.config] for a command that asks the database only. It needs no other secret, and warns of those
// that cannot be read.
func (a *app) configToAsk() (*config.Config, error) { return a.load(config.LoadToAsk) }

func (a *app) load(load func(string, func(string) (string, bool), map[string]webhook.Provider) (*config.Config,
	error)) (*config.Config, error) {
	cfg, err := load(a.configFile, a.env, providers())
	if faults, ok := errors.AsType[config.Faults](err); ok {
		return nil, fmt.Errorf("%s has %s:\n%w", a.configFile, output.Plural(len(faults), "fault"), faults)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range cfg.Warnings {
		a.log.Warn("configuration", "key", w.Key, "problem", w.Problem, "fix", w.Fix)
	}
	return cfg, nil
}
