package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/cmd/internal/parameter"
	"github.com/pawlhq/pawl/ingress/webhook"
)

// The exit codes.
const (
	ExitFailed = 1
	ExitUsage  = 2
)

// Program is a binary: its commands and its providers.
type Program struct {
	// Version is the output of --version.
	Version   string
	Providers map[string]webhook.Provider
	// Commands returns the commands of one call.
	Commands func(*App) []*cobra.Command
	Retired  Retired
}

// Run runs the program and returns its exit code: 0 for success, 1 for a failure, 2 for wrong usage.
func (p Program) Run(ctx context.Context, args []string, io Stdio, env func(string) (string, bool)) int {
	a := NewApp(io, env)
	a.Providers = p.Providers
	started := false
	root := p.Root(a, &started)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if out := a.Out.(*output.Terminal); out.Err != nil {
		err = cmp.Or(err, fmt.Errorf("write the result: %w", out.Err))
	}
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, output.ErrFailed):
		return ExitFailed
	case errors.As(err, &usage) || !started:
		if cmd.Hidden {
			cmd = root
		}
		fmt.Fprintf(a.Err, "pawl: %v (see %s --help)\n", err, cmd.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(a.Err, "pawl: %v\n", err)
	return ExitFailed
}

// Root builds the command tree. It sets started when flags and arguments are valid.
func (p Program) Root(a *App, started *bool) *cobra.Command {
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
				a.Columns = output.Columns(a.Out, a.Env)
			}
			return a.setLogger()
		},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.Version = p.Version
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	root.SetFlagErrorFunc(p.Retired.flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.ConfigFile, "config", DefaultConfig, "configuration `file`")
	flags.BoolVar(&a.JSON, "json", false, "write results as JSON")
	flags.BoolVar(&a.wide, "wide", false, "print lists in full width instead of fitting them to the terminal")
	flags.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&a.logFormat, "log-format", "text", "text or json")
	root.AddCommand(p.Commands(a)...)
	p.Retired.add(root)
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
					return Usagef("%q: an argument must be UTF-8 text and not empty", arg)
				}
			}
			return check(cmd, args)
		}
	}
	for _, below := range cmd.Commands() {
		strict(below)
	}
}

// helpCommand replaces cobra's help command. It returns an error for an unknown topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Usagef("there is no command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func (a *App) setLogger() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return Usagef("--log-level: unknown level %q: use debug, info, warn or error", a.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	a.Lines = &output.Lines{To: a.Err}
	switch a.logFormat {
	case "text":
		a.Log = slog.New(a.Lines.Log(slog.NewTextHandler(a.Lines, opts)))
	case "json":
		a.Log = slog.New(a.Lines.Log(slog.NewJSONHandler(a.Lines, opts)))
	default:
		return Usagef("--log-format: unknown format %q: use text or json", a.logFormat)
	}
	return nil
}
