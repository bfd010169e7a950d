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

	"github.com/pawlhq/pawl/cmd/internal/condition"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// stdio holds the streams of a command. Results go to out, everything else to err.
type stdio struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// defaultConfig is the configuration file of a command without --config.
const defaultConfig = "pawl.yaml"

// The exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// app holds the state of one call of the program, shared by its commands.
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
	// queryWithin bounds the queries of a command.
	queryWithin time.Duration
	// progressEvery is how often a long command reports its progress.
	progressEvery time.Duration
}

func newApp(io stdio, env func(string) (string, bool)) *app {
	io.out, io.err = &output.Terminal{To: io.out}, &output.Terminal{To: io.err}
	return &app{stdio: io, Printer: output.Printer{Out: io.out}, env: env, queryWithin: queryWithin,
		progressEvery: progressEvery}
}

// toPerson returns a copy of the app that writes results to standard error, for output before a confirmation.
func (a *app) toPerson() *app {
	shown := *a
	shown.out, shown.Out = a.err, a.err
	return &shown
}

// run runs the program and returns its exit code: 0 for success, 1 for a failure, 2 for wrong usage.
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
		if cmd.Hidden {
			cmd = root
		}
		fmt.Fprintf(a.err, "pawl: %v (see %s --help)\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(a.err, "pawl: %v\n", err)
	return exitFailed
}

// usageError reports wrong usage of a command, with exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// root builds the command tree. It sets started when flags and arguments are valid.
func (a *app) root(started *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "pawl",
		Short:         "Receive webhooks and run each event's effects once",
		SilenceUsage:  true,
		SilenceErrors: true,
		// Cobra prints suggestions as a paragraph. Errors of pawl are one sentence.
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
	root.Version = readBuild().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", defaultConfig, "configuration `file`")
	flags.BoolVar(&a.JSON, "json", false, "write results as JSON")
	flags.BoolVar(&a.wide, "wide", false, "print lists in full width instead of fitting them to the terminal")
	flags.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&a.logFormat, "log-format", "text", "text or json")
	root.AddCommand(commands(a)...)
	addRetired(root)
	strict(root)
	return root
}

// strict makes a command and its subcommands reject empty and repeated flags, and arguments that are empty or not
// UTF-8.
func strict(cmd *cobra.Command) {
	parameter.Flags(cmd.Flags())
	parameter.Flags(cmd.PersistentFlags())
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if err := parameter.Text("an argument", arg); err != nil || arg == "" {
					return usagef("%q: an argument must be UTF-8 text and not empty", arg)
				}
			}
			return check(cmd, args)
		}
	}
	for _, below := range cmd.Commands() {
		strict(below)
	}
}

// ofParser matches the prefix of errors of package strconv.
var ofParser = regexp.MustCompile(`strconv\.\w+: parsing ".*": `)

// helpCommand replaces cobra's help command. It returns an error for an unknown topic.
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

// group returns a command that only contains subcommands.
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
		return usagef("%s takes no argument: remove %q", strings.TrimPrefix(cmd.CommandPath(), "pawl "),
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
		return usagef("--log-level: unknown level %q: use debug, info, warn or error", a.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	a.lines = &output.Lines{To: a.err}
	switch a.logFormat {
	case "text":
		a.log = slog.New(a.lines.Log(slog.NewTextHandler(a.lines, opts)))
	case "json":
		a.log = slog.New(a.lines.Log(slog.NewJSONHandler(a.lines, opts)))
	default:
		return usagef("--log-format: unknown format %q: use text or json", a.logFormat)
	}
	return nil
}

// config loads the configuration file and logs its warnings, except those about the modes of secret files: see
// [app.warnOfFiles].
func (a *app) config() (*config.Config, error) { return a.load(config.Load) }

// configToAsk is [app.config] for a command that only reads the database. It needs no other secret and logs a warning
// for each secret that cannot be read.
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
	cfg.Warnings = append(cfg.Warnings, unrouted(cfg)...)
	a.warn(cfg, false)
	return cfg, nil
}

// warnOfFiles logs the secret files that other users can read. Only long-running processes call it, because the
// warnings would hide the result of a command.
func (a *app) warnOfFiles(cfg *config.Config) { a.warn(cfg, true) }

// warn logs either the warnings about file modes or all other warnings.
func (a *app) warn(cfg *config.Config, fileModes bool) {
	for _, w := range cfg.Warnings {
		if w.FileMode == fileModes {
			a.log.Warn("configuration", "key", w.Key, "problem", w.Problem, "fix", w.Fix)
		}
	}
}

// unrouted returns a warning for each source without a flow or a destination for its events.
func unrouted(cfg *config.Config) (warnings config.Faults) {
	for _, name := range condition.WithoutDestination(cfg) {
		warnings = append(warnings, config.Fault{Key: "sources." + name,
			Problem: "pawl ignores all events of this source: the provider has no flow and the source has no destination",
			Fix:     "add it to destinations.NAME.sources, or remove it"})
	}
	return warnings
}
