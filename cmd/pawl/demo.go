package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/devstack"
	"github.com/pawlhq/pawl/cmd/internal/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/cmd/internal/send"
	"github.com/pawlhq/pawl/schema/timeline"
)

// demoPatience is how long the demonstration waits for its effects: the worker may still be connecting.
const demoPatience = 60 * time.Second

// runDemo sends one signed invoice.paid, prints each effect as it is done, and returns what became of the event.
func runDemo(ctx context.Context, a *app, n *process.Node, begin time.Time) (*timeline.Event, error) {
	order := send.Order{Count: 1, Params: forge.Params{Type: "invoice.paid", Plan: "enterprise", Account: "demo",
		Amount: 49900, Currency: "usd", APIVersion: forge.Basil}}
	events, err := order.Events(providers(), n.Config.Sources["stripe"])
	if err != nil {
		return nil, err
	}
	target, err := send.Target(n.Config, providers(), "stripe", "", "")
	if err != nil {
		return nil, err
	}
	if err := send.Tell(ctx, n.Config.Sources["stripe"], events); err != nil {
		return nil, err
	}
	fmt.Fprintf(a.story(), "\nsending a signed invoice.paid, %s\n", events[0].ID)
	var answered forge.Result
	if err := target.Send(ctx, events, 0, 1, func(r forge.Result) { answered = r }); err != nil {
		return nil, err
	}
	if !answered.OK() {
		return nil, fmt.Errorf("the ingress answered the demonstration with %s", answered.Outcome())
	}
	fmt.Fprintf(a.story(), "  %-22s answered %d in %s\n", "ingress", answered.Status,
		answered.Took.Round(100*time.Microsecond))
	return showEffects(ctx, a, n, events[0].ID, begin)
}

// showEffects prints the effects of an event as they are done, until its receipt is at rest or parked, and
// returns the event as it is then.
func showEffects(ctx context.Context, a *app, n *process.Node, eventID string, begin time.Time) (*timeline.Event,
	error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	shown := map[string]bool{}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var event *timeline.Event
	notYet := func() (*timeline.Event, error) {
		fmt.Fprintf(a.err, "the effects are not done yet; look at them with: pawl events show %s\n", eventID)
		return event, nil
	}
	for {
		now, err := operator.ShowEvent(ctx, n.Pool, eventID)
		if err != nil && ctx.Err() != nil && event != nil { // the time was over in the middle of the question
			return notYet()
		}
		if err != nil {
			return nil, err
		}
		event = now
		for _, e := range event.Effects {
			if e.DoneAt == nil || shown[e.Key] {
				continue
			}
			if len(shown) == 0 {
				fmt.Fprintf(a.story(), "  first effect done %s after the start\n",
					e.DoneAt.Sub(begin).Round(10*time.Millisecond))
			}
			shown[e.Key] = true
			fmt.Fprintf(a.story(), "  %-22s %s  %s\n", e.Kind, e.State, e.Key)
		}
		switch event.Receipt.Status {
		case "processed", "needs_review", "dead", "compensated", "ignored":
			fmt.Fprintf(a.story(), "  %-22s %s\n", "receipt", event.Receipt.Status)
			return event, nil
		}
		select {
		case <-ctx.Done():
			return notYet()
		case <-ticker.C:
		}
	}
}

// devResult is what `pawl dev --json` writes when it is ready. Demo is null with --no-demo.
type devResult struct {
	ReadyMS    int64           `json:"ready_ms"`
	State      string          `json:"state"`
	Config     string          `json:"config"`
	Console    string          `json:"console"`
	Webhooks   string          `json:"webhooks"`
	TemporalUI string          `json:"temporal_ui"`
	Effects    string          `json:"effects"`
	Journal    string          `json:"journal"`
	Health     string          `json:"health"`
	Metrics    string          `json:"metrics"`
	Next       []string        `json:"next"`
	Demo       *timeline.Event `json:"demo"`
}

// story is where a command tells a person of its progress: with --json that is no result.
func (a *app) story() io.Writer {
	if a.JSON {
		return a.err
	}
	return a.out
}

// called is how pawl is called from the working directory: in a checkout without installing it.
func called() string {
	if _, err := os.Stat(filepath.Join("cmd", "pawl", "main.go")); err == nil {
		return "go run ./cmd/pawl"
	}
	return "pawl"
}

// announce says where everything is, and what to try next.
func announce(a *app, s *devstack.Stack, cfg *config.Config, begin time.Time, demo *timeline.Event) error {
	took, source := time.Since(begin), stripeSource(cfg)
	r := devResult{
		ReadyMS: took.Milliseconds(), State: s.Dir, Config: a.configFile,
		Console:  "http://" + config.Reachable(s.Console),
		Webhooks: "http://" + config.Reachable(s.Ingress) + "/hooks/" + source, TemporalUI: s.Temporal.UIURL(),
		Effects: s.Sandbox.URL(), Journal: filepath.Join(s.Dir, "sandbox"),
		Health: "http://" + config.Reachable(s.Ops) + "/readyz", Metrics: "http://" +
			config.Reachable(s.Ops) +
			"/metrics",
		Next: next(s.Options, a.configFile, source, s.Sandbox.URL()),
		Demo: demo,
	}
	return a.Emit(r, func() { writeReady(a, s, r, took) })
}

func writeReady(a *app, s *devstack.Stack, r devResult, took time.Duration) {
	fmt.Fprintf(a.out, "\npawl is ready (%s)\n\n", took.Round(100*time.Millisecond))
	effects := r.Effects + "  (journal: " + r.Journal + "/*.jsonl)"
	if s.Real {
		effects = "in your systems: the sinks of " + s.Own
	}
	for _, place := range [][2]string{
		{"console", r.Console},
		{"webhooks", r.Webhooks},
		{"Temporal UI", r.TemporalUI},
		{"effects", effects},
		{"health", r.Health},
		{"metrics", r.Metrics},
	} {
		fmt.Fprintf(a.out, "  %-12s %s\n", place[0], place[1])
	}
	fmt.Fprintf(a.out, "\nTry next, in another terminal:\n")
	for _, command := range r.Next {
		fmt.Fprintf(a.out, "  %s\n", command)
	}
	fmt.Fprintf(a.out, "\nCtrl-C stops everything; the state stays in %s.\n", s.Dir)
}

// next are the commands that a person may go on with: with real sources and sinks only what goes with those.
func next(o devstack.Options, file, source, sandbox string) []string {
	command := func(name, flags string) string {
		return strings.TrimSpace(called() + " " + name + " --config " + operator.ShellWord(file) + " " + flags)
	}
	send := "--source " + operator.ShellWord(source) + " --type invoice.paid --duplicates 3"
	if o.Real {
		return []string{
			command("sinks check", ""),
			command("send", send),
			command("events list", ""),
			"stripe listen --forward-to http://" + config.Reachable(o.Ingress) + "/hooks/" + source,
		}
	}
	return []string{
		command("send", send),
		command("send", "--provider github"),
		command("send", "--scenario upgrade"),
		command("events list", ""),
		"curl -X POST " + sandbox + `/_faults -d '{"service":"finance","next":3,"status":503}'`,
	}
}

// stripeSource is the name of the first source of Stripe's, by name; "stripe" if there is no such source.
func stripeSource(cfg *config.Config) string {
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if cfg.Sources[name].Provider == "stripe" {
			return name
		}
	}
	return "stripe"
}
