package process

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/workflows"
)

// Each kind of effect that leaves our database has a sink that is configured, a gate (without one there is no pause, no
// breaker and no row in `pawl sinks`), and the time that its sink may take: cut off at the time-out of our own rows behind
// a mail's point of no return, it would be in doubt.
func TestSinks_EachKindOfTheCatalogue_HasGateAndTime(t *testing.T) {
	t.Parallel()
	c := &config.Config{Consumers: map[string]config.Consumer{"crm": {}}}
	c.Sinks.Workspaces.URL, c.Sinks.Finance.URL, c.Sinks.Email.Address = "http://w.test", "http://f.test", "m.test:25"
	c.Sinks.Workspaces.Timeout, c.Sinks.Finance.Timeout, c.Sinks.Email.Timeout = 31*time.Second, 32*time.Second, 33*time.Second
	want := map[string]time.Duration{
		workflows.SinkWorkspaces: 31 * time.Second, workflows.SinkFinance: 32 * time.Second, workflows.SinkMail: 33 * time.Second, workflows.SinkStripe: fetchTimeout,
	}
	n := &Node{Config: c, gates: newGates(c)}
	of := n.sinks()
	for _, kind := range workflows.Catalogue() {
		switch kind.Sink {
		case workflows.SinkDatabase:
			continue
		case workflows.SinkConsumers: // each consumer has a gate and settings of its own
			if got := of.consumers["crm"].Policy.Gate; got == nil || got.Sink() != "consumers:crm" {
				t.Errorf("%s goes through %v", kind.Name, got)
			}
			continue
		}
		if n.gates[kind.Sink] == nil {
			t.Errorf("%s has no gate: %s is no sink of the configuration", kind.Name, kind.Sink)
		}
		if got := of.settings[kind.Sink].Timeout; got == 0 || got != want[kind.Sink] {
			t.Errorf("%s is tried for %s, want the %s of %s", kind.Name, got, want[kind.Sink], kind.Sink)
		}
	}
	for name, modes := range of.http {
		if len(modes) != 2 || modes["live"].Policy.Gate != n.gates[name] || modes["test"].Policy.Gate != n.gates[name] {
			t.Errorf("%s: %+v, want both modes through one gate", name, modes)
		}
	}
}

// A sink that is per mode has a gate for each mode that it serves.
func TestGates_PerMode(t *testing.T) {
	t.Parallel()
	c := &config.Config{}
	c.Sinks.Finance.Live = &config.Endpoint{URL: "http://live.test"}
	c.Sinks.Finance.Test = &config.Endpoint{URL: "http://test.test"}
	c.Sinks.Email.Test = &config.MailServer{Address: "m.test:25"}
	var names []string
	for _, g := range newGates(c).all() {
		names = append(names, g.Sink())
	}
	if slices.Sort(names); !slices.Equal(names, []string{"email:test", "finance:live", "finance:test", "stripe"}) {
		t.Errorf("gates %q", names)
	}
}

// The log of a worker without sinks names every effect that is skipped, so that nobody waits for it.
func TestWarnOfSkippedEffects_NamesEach(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &config.Config{Sources: map[string]config.Source{"stripe": {Provider: "stripe", Mode: "live"}}}
	c.Sinks.Finance.URL = "http://finance.test"
	(&Node{Config: c, log: slog.New(slog.NewTextHandler(&out, nil))}).warnOfSkippedEffects(t.Context())
	for _, kind := range workflows.Catalogue() {
		skipped := kind.Sink == workflows.SinkWorkspaces || kind.Sink == workflows.SinkMail
		if got := regexp.MustCompile(`[\[ ]` + kind.Name + `[\] ]`).MatchString(out.String()); got != skipped {
			t.Errorf("%s is named: %t, want %t in\n%s", kind.Name, got, skipped, out.String())
		}
	}
	if want := `fix="configure sinks.workspaces"`; !strings.Contains(out.String(), want) {
		t.Errorf("the log has no %s:\n%s", want, out.String())
	}
}
