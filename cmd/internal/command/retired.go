package command

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ofParser matches the prefix of errors of package strconv.
var ofParser = regexp.MustCompile(`strconv\.\w+: parsing ".*": `)

// Retired lists the commands and flags that the binary no longer has, with their successors.
type Retired struct {
	// Commands maps a command to its successor, Flags a flag without its dashes.
	Commands map[string]string
	Flags    map[string]string
}

// add adds a hidden command for each retired command. It returns a usage error that names the successor.
func (r Retired) add(root *cobra.Command) {
	for name := range r.Commands {
		parent, words := root, strings.Fields(name)
		if of, rest, err := root.Find(words[:1]); err == nil && len(rest) == 0 && of != root && !of.Hidden {
			parent, words = of, words[1:]
		}
		if slices.ContainsFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == words[0] }) {
			continue
		}
		parent.AddCommand(&cobra.Command{
			Use: words[0], Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
			RunE: func(cmd *cobra.Command, args []string) error {
				name := strings.TrimPrefix(cmd.CommandPath(), "pawl ")
				if len(args) > 0 && r.Commands[name+" "+args[0]] != "" {
					name += " " + args[0]
				}
				if successor := r.Commands[name]; successor != "" {
					return Usagef("%q is now %q", name, successor)
				}
				return Usagef("there is no command %q", name)
			},
		})
	}
}

// flagError returns the usage error for an error of the flag parser. For a retired flag it names the successor.
func (r Retired) flagError(cmd *cobra.Command, err error) error {
	text := ofParser.ReplaceAllString(err.Error(), "")
	if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown {
		if successor := r.Flags[name]; cmd.Flags().Lookup(successor) != nil {
			return Usagef("--%s is now --%s", name, successor)
		}
	}
	return Usagef("%s", text)
}
