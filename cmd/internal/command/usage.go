package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/cmd/internal/output"
)

// usageError reports wrong usage of a command, with exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Usagef returns a [usageError].
func Usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// Group returns a command that only contains subcommands.
func Group(name, short string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	g := &cobra.Command{
		Use: name, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usagef("unknown command %q for %s: use %s", args[0], name, output.OneOf(names))
			}
			return Usagef("%s needs a command: %s", name, output.OneOf(names))
		},
	}
	g.AddCommand(commands...)
	return g
}

// NoArgument rejects all arguments of a command.
func NoArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument: remove %q", strings.TrimPrefix(cmd.CommandPath(), "pawl "),
			args[0])
	}
	return nil
}

// OneID requires one argument.
func OneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return Usagef("%s needs one ID", strings.TrimPrefix(cmd.CommandPath(), "pawl "))
	}
	return nil
}
