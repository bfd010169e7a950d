package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// retiredCommands maps commands that pawl no longer has to their successors.
var retiredCommands = map[string]string{
	"accounts reread": "rebuild --from-payloads",
	"events body":     "events payload",
	"events done":     "events mark-done",
	"events run":      "events start",
	"gaps":            "events backfill",
	"letters":         "emails",
	"meaning":         "rules",
	"money claim":     "payments assign",
	"money correct":   "entries correct",
	"money regrant":   "payments regrant",
	"money unclaimed": "payments unassigned",
	"pause consumer":  "sinks pause",
	"pause sink":      "sinks pause",
	"pause source":    "sources pause",
	"pending":         "approvals",
	"ready":           "healthcheck",
	"resume consumer": "sinks resume",
	"resume sink":     "sinks resume",
	"resume source":   "sources resume",
}

// retiredFlags maps a flag that commands no longer have to its successor.
var retiredFlags = map[string]string{
	"why":    "reason",
	"who":    "as",
	"reason": "reason-code", // the filter of pawl events list
}

// addRetired adds a hidden command for each retired command. It returns a usage error that names the successor.
func addRetired(root *cobra.Command) {
	for name := range retiredCommands {
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
				if len(args) > 0 && retiredCommands[name+" "+args[0]] != "" {
					name += " " + args[0]
				}
				if successor := retiredCommands[name]; successor != "" {
					return usagef("%q is now %q", name, successor)
				}
				return usagef("there is no command %q", name)
			},
		})
	}
}

// flagError returns the usage error for an error of the flag parser. For a retired flag it names the successor.
func flagError(cmd *cobra.Command, err error) error {
	text := ofParser.ReplaceAllString(err.Error(), "")
	if name, unknown := strings.CutPrefix(text, "unknown flag: --"); unknown {
		if successor := retiredFlags[name]; cmd.Flags().Lookup(successor) != nil {
			return usagef("--%s is now --%s", name, successor)
		}
	}
	return usagef("%s", text)
}
