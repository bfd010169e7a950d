package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/cmd/internal/command"
)

// A retired flag or command is an error that names its successor.
func TestRetired_NamesSuccessor(t *testing.T) {
	t.Parallel()
	lines := map[string]string{
		"events retry evt_1 --why x":              "--why is now --reason",
		"events retry evt_1 --reason x --who ada": "--who is now --as",
		"events list --reason effect_failed":      "--reason is now --reason-code",
		"status --why x":                          "unknown flag: --why",
	}
	for old, successor := range retired.Commands {
		lines[old+" x --x y"] = fmt.Sprintf("%q is now %q (see pawl --help)", old, successor)
		name, _, _ := strings.Cut(successor, " --")
		if cmd, rest, err := tree().Find(strings.Fields(name)); err != nil || len(rest) > 0 || cmd.Hidden {
			t.Errorf("there is no command %q: %v", successor, err)
		}
	}
	for line, want := range lines {
		if got := pawl(t, nil, strings.Fields(line)...); got.Code != command.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("pawl %s: %d, %q; want %q", line, got.Code, got.Err, want)
		}
	}
}
