package cli

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/command/commandtest"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/output"
)

// All users of a container share one system user without a name, so a decision requires the person's name.
func TestActor_AccountWithoutName_NeedsPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, name, person, want, fault string }{
		{"1000", "ada", "", "uid:1000(ada)", ""},
		{"1000", "ada", "on call", "uid:1000(ada) on call", ""},
		{"65532", "", "ada", "uid:65532 ada", ""},
		{"65532", "", "", "", "add --as NAME or set PAWL_AS"},
	} {
		got, err := actor(tt.id, tt.name, tt.person)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("actor(%q, %q, %q) = %q, %v; want an error with %q", tt.id, tt.name, tt.person, got, err, tt.fault)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("actor(%q, %q, %q) = %q, %v; want %q", tt.id, tt.name, tt.person, got, err, tt.want)
		}
	}
}

// PAWL_AS sets the name of the person, and --as overrides it.
func TestWho_VariableAndFlag(t *testing.T) {
	t.Parallel()
	a := &command.App{Env: func(key string) (string, bool) { return map[string]string{"PAWL_AS": "ada"}[key], key == "PAWL_AS" }}
	for flag, want := range map[string]string{"": " ada", "bob": " bob", " ": " ada"} {
		if got, err := actorOf(a, flag); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("who(%q) = %q, %v; want …%q", flag, got, err, want)
		}
	}
}

// A decision on the command line has its own timeout, separate from the wait for the run.
func TestDecide_DatabaseLocked_GivenUp(t *testing.T) {
	t.Parallel()
	s := commandtest.Locked(t, program())
	a := &command.App{Providers: program().Providers, Printer: output.Printer{Out: io.Discard}, Err: io.Discard, Env: s.Variable, ConfigFile: s.File, Log: slog.New(slog.DiscardHandler), QueryWithin: 500 * time.Millisecond}
	cmd := verbCommand(a, *operator.Verbs.Named(event.Retry.Name), "retry")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"evt_1", "--reason", "x"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "did not answer within 500ms") {
		t.Errorf("events retry = %v; want the deadline", err)
	}
}
