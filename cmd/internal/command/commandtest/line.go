package commandtest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

// Arguments returns the arguments of a call of pawl, and false for any other line.
func Arguments(line string) ([]string, bool) {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " > ")
	fields := Words(line)
	switch {
	case len(fields) > 0 && fields[0] == "pawl":
		return fields[1:], true
	case len(fields) > 2 && fields[0] == "go" && fields[1] == "run" && fields[2] == "./cmd/pawl":
		return fields[3:], true
	}
	return nil, false
}

// Words splits a line into words as a shell does, but supports only the syntax that the documentation uses.
func Words(line string) []string {
	var words []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

// Understood parses a call as cobra does, without running it.
func Understood(program command.Program, args []string) error {
	cmd, rest, err := program.Root(&command.App{}, new(bool)).Find(args)
	if err != nil {
		return err
	}
	if cmd.Hidden {
		return fmt.Errorf("%s is retired", cmd.CommandPath())
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil
	}
	if cmd.HasSubCommands() && cmd.Long == "" {
		return fmt.Errorf("%s is no command by itself", cmd.CommandPath())
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
