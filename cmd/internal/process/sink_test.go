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
	"github.com/pawlhq/pawl/workflows/plan"
)

// Each kind of effect outside of pawl's database has a configured sink, a gate and the timeout of its sink. Without a
// gate there is no pause, no breaker and no row in `pawl sinks`. With the shorter timeout of pawl's own effects, an
// e-mail could be interrupted after its point of no return and become uncertain.
func TestSinks_EachKindOfTheCatalogue_HasGateAndTime(t *testing.T) {
	t.Parallel()
	c := &config.Config{Destinations: map[string]config.Destination{"crm": {}}, Sinks: config.Sinks{"workspaces": {}, "finance": {}, "email": {}, "stock": {}}}
	c.Sinks["stock"].URL, c.Sinks["stock"].Timeout = "http://s.test", 34*time.Second
	c.Sinks["workspaces"].URL, c.Sinks["finance"].URL, c.Sinks["email"].Address = "http://w.test", "http://f.test", "m.test:25"
	c.Sinks["workspaces"].Timeout, c.Sinks["finance"].Timeout, c.Sinks["email"].Timeout = 31*time.Second, 32*time.Second, 33*time.Second
	want := map[string]time.Duration{
		plan.SinkWorkspaces: 31 * time.Second, plan.SinkFinance: 32 * time.Second, plan.SinkMail: 33 * time.Second, plan.SinkStripe: fetchTimeout,
	}
	n := &Node{Config: c, gates: newGates(c)}
	of := n.sinks()
	for _, kind := range plan.Catalogue() {
		switch kind.Sink {
		case plan.SinkDatabase:
			continue
		case plan.SinkDestinations: // each destination has its own gate and settings
			if got := n.gates.destinations(c)[0].Policy.Gate; got == nil || got.Sink() != "destinations:crm" {
				t.Errorf("%s goes through %v", kind.Name, got)
			}
			continue
		case plan.SinkFlows: // each request names its sink, which has its own gate and settings
			if n.gates["stock"] == nil || of.settings["stock"].Timeout != 34*time.Second {
				t.Errorf("%s goes through %v with %+v", kind.Name, n.gates["stock"], of.settings["stock"])
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

// A sink that is configured per mode has a gate for each of its modes.
func TestGates_PerMode(t *testing.T) {
	t.Parallel()
	c := &config.Config{Sinks: config.Sinks{
		"finance": {Live: &config.Server{Endpoint: config.Endpoint{URL: "http://live.test"}}, Test: &config.Server{Endpoint: config.Endpoint{URL: "http://test.test"}}},
		"email":   {Test: &config.Server{MailServer: config.MailServer{Address: "m.test:25"}}},
	}}
	var names []string
	for _, g := range newGates(c).all() {
		names = append(names, g.Sink())
	}
	if slices.Sort(names); !slices.Equal(names, []string{"email:test", "finance:live", "finance:test", "stripe"}) {
		t.Errorf("gates %q", names)
	}
}

// The log of a worker without sinks names every effect that is skipped, so that operators do not wait for it.
func TestWarnOfSkippedEffects_NamesEach(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &config.Config{Sources: map[string]config.Source{"stripe": {Provider: "stripe", Mode: "live"}}}
	c.Sinks = config.Sinks{"finance": {Server: config.Server{Endpoint: config.Endpoint{URL: "http://finance.test"}}}}
	(&Node{Config: c, log: slog.New(slog.NewTextHandler(&out, nil))}).warnOfSkippedEffects(t.Context())
	for _, kind := range plan.Catalogue() {
		skipped := kind.Sink == plan.SinkWorkspaces || kind.Sink == plan.SinkMail
		if got := regexp.MustCompile(`[\[ ]` + kind.Name + `[\] ]`).MatchString(out.String()); got != skipped {
			t.Errorf("%s is named: %t, want %t in\n%s", kind.Name, got, skipped, out.String())
		}
	}
	if want := `fix="configure sinks.workspaces"`; !strings.Contains(out.String(), want) {
		t.Errorf("the log has no %s:\n%s", want, out.String())
	}
}
