//go:build !nodev

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/dev/send"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	events "github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/cmd/internal/process"
	"github.com/pawlhq/pawl/schema/timeline"
)

func devCommand(a *command.App) *cobra.Command {
	var o dev.Options
	noDemo, base := false, 0
	cmd := &cobra.Command{
		Use: "dev", Short: "Run all of pawl on this machine, with a sandbox for the outside world",
		Args: command.NoArgument,
		Long: `Run all of pawl on this machine: a private PostgreSQL (or DATABASE_URL), a Temporal dev server with its UI, a sandbox
(mail, workspaces, finance, an event destination and a destination of relayed events), an ingress and a worker, with one
source for each provider. The command sends one signed invoice.paid and prints each effect when it is done. Ctrl-C stops
everything. The state stays under --state. Missing secrets are generated in STATE/secrets; send --key uses
STATE/secrets/NAME.key.

The command uses the temporal command on PATH. If there is none, it builds one once, with the server version of
docker-compose.yml. The released version 1.5.1 can hang on a busy machine ("interrupted (9)" in
STATE/temporal/temporal.log). The built version does not have this fault.

--config FILE uses plans, policy, email and flows of your own file, for example the file that pawl init writes, and sends
no event at the start. The sandbox replaces its sources, the sinks of its flows and the recipients of its notifications
under the same names. With --real, these sections, destinations and effects are used as written: events come from Stripe
(stripe listen --forward-to), and effects reach your systems. The command uses a change of FILE at once. FILE is never
changed; the processes run with STATE/pawl.yaml, which each start writes again.
--real has a state directory of its own, ` + realState + `. An account with a workspace in the sandbox has no workspace in your systems,
and the reverse.

A second pawl dev on the same machine needs other ports and another state: --port-base 9000 --state .pawl-2.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("config") {
				o.Own, noDemo = a.ConfigFile, true
			}
			if o.Real && !cmd.Flags().Changed("state") {
				o.State = realState
			}
			switch {
			case o.Day < time.Second || o.Day > 24*time.Hour:
				return command.Usagef("--day: %s is not between 1s and 24h", o.Day)
			case o.Real && o.Own == "":
				return command.Usagef("--real needs --config FILE with your sources and sinks")
			}
			if err := basePorts(cmd.Flags(), base); err != nil {
				return err
			}
			return runDev(cmd.Context(), a, o, noDemo)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.State, "state", ".pawl", "`directory` that keeps everything; with --real "+realState)
	flags.IntVar(&base, "port-base", 0, "use seven consecutive ports, starting with this `number`, instead of the defaults below")
	flags.StringVar(&o.Ingress, "ingress", "127.0.0.1:8080", "`address` of the ingress, which receives webhooks")
	flags.StringVar(&o.Console, "console", "127.0.0.1:8081",
		"`address` of the console and the API")
	flags.StringVar(&o.Ops, "ops", "127.0.0.1:8082", "`address` of /livez, /readyz and /metrics")
	flags.IntVar(&o.TemporalPort, "temporal-port", 7233, "`port` of the Temporal server")
	flags.IntVar(&o.TemporalUIPort, "temporal-ui-port", 8233, "`port` of the Temporal UI")
	flags.IntVar(&o.SandboxPort, "sandbox-port", 8083, "`port` of the sandbox's endpoints")
	flags.IntVar(&o.SandboxSMTPPort, "sandbox-smtp-port", 8025, "`port` of the sandbox's mailbox")
	flags.BoolVar(&o.Real, "real", false, "with --config: use the sources and sinks of the file instead of the sandbox")
	flags.DurationVar(&o.Day, "day", 24*time.Hour, "the length of a `day` for scheduled actions (grace, reminders, planned ends) and for send --scenario")
	flags.BoolVar(&noDemo, "no-demo", false, "do not send an event at the start")
	return cmd
}

// realState is the state directory with --real. It is separate because effects that the sandbox received count as done
// and would not be sent to real systems.
const realState = ".pawl-real"

// basePorts assigns consecutive ports from base to the listeners that have no flag of their own.
func basePorts(flags *pflag.FlagSet, base int) error {
	if !flags.Changed("port-base") {
		return nil
	}
	listeners := []string{"ingress", "console", "ops", "sandbox-port", "sandbox-smtp-port", "temporal-port",
		"temporal-ui-port"}
	if base < 1 || base+len(listeners) > 1<<16 {
		return command.Usagef("--port-base: write a number from 1 to %d", 1<<16-len(listeners))
	}
	for i, name := range listeners {
		if flags.Changed(name) {
			continue
		}
		place := strconv.Itoa(base + i)
		if !strings.HasSuffix(name, "-port") {
			place = net.JoinHostPort("127.0.0.1", place)
		}
		if err := flags.Set(name, place); err != nil {
			return err
		}
	}
	return nil
}

// demoPatience bounds the wait for the effects of the demonstration. The worker may still be connecting.
const demoPatience = 60 * time.Second

// runDemo sends one signed invoice.paid, prints each effect when it is done, and returns the event with its outcome.
func runDemo(ctx context.Context, a *command.App, n *process.Node, begin time.Time) (*timeline.Event, error) {
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
	fmt.Fprintf(progress(a), "\nsending a signed invoice.paid, %s\n", events[0].ID)
	var answered forge.Result
	if err := target.Send(ctx, events, 0, 1, func(r forge.Result) { answered = r }); err != nil {
		return nil, err
	}
	if !answered.OK() {
		return nil, fmt.Errorf("the ingress answered the demonstration with %s", answered.Outcome())
	}
	fmt.Fprintf(progress(a), "  %-22s answered %d in %s\n", "ingress", answered.Status,
		answered.Took.Round(100*time.Microsecond))
	return showEffects(ctx, a, n, events[0].ID, begin)
}

// showEffects prints the effects of an event when they are done, until its run has ended or is parked. It returns the
// last state of the event.
func showEffects(ctx context.Context, a *command.App, n *process.Node, eventID string,
	begin time.Time) (*timeline.Event,
	error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	shown := map[string]bool{}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var event *timeline.Event
	notYet := func() (*timeline.Event, error) {
		fmt.Fprintf(a.Err, "the effects are not done yet; follow them with: pawl events show %s\n", eventID)
		return event, nil
	}
	for {
		now, err := events.Show(ctx, n.Pool, eventID)
		if err != nil && ctx.Err() != nil && event != nil { // the deadline passed during the query
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
				fmt.Fprintf(progress(a), "  first effect done %s after the start\n",
					e.DoneAt.Sub(begin).Round(10*time.Millisecond))
			}
			shown[e.Key] = true
			fmt.Fprintf(progress(a), "  %-22s %s  %s\n", e.Kind, e.State, e.Key)
		}
		switch event.Receipt.Status {
		case "processed", "needs_review", "dead", "compensated", "ignored":
			fmt.Fprintf(progress(a), "  %-22s %s\n", "receipt", event.Receipt.Status)
			return event, nil
		}
		select {
		case <-ctx.Done():
			return notYet()
		case <-ticker.C:
		}
	}
}

// devResult is the output of `pawl dev --json`, written when all processes are ready. Demo is null with --no-demo.
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

// progress returns the writer for progress. With --json it is standard error, because progress is not part of the
// result.
func progress(a *command.App) io.Writer {
	if a.JSON {
		return a.Err
	}
	return a.Out
}

// called returns the command that runs pawl from the working directory. In a checkout it is `go run ./cmd/pawl`.
func called() string {
	if _, err := os.Stat(filepath.Join("cmd", "pawl", "main.go")); err == nil {
		return "go run ./cmd/pawl"
	}
	return "pawl"
}

func announce(a *command.App, s *dev.Stack, cfg *config.Config, begin time.Time, demo *timeline.Event) error {
	took, source := time.Since(begin), stripeSource(cfg)
	r := devResult{
		ReadyMS: took.Milliseconds(), State: s.Dir, Config: a.ConfigFile,
		Console:  "http://" + config.Reachable(s.Console),
		Webhooks: "http://" + config.Reachable(s.Ingress) + "/hooks/" + source, TemporalUI: s.Temporal.UIURL(),
		Effects: s.Sandbox.URL(), Journal: filepath.Join(s.Dir, "sandbox"),
		Health:  "http://" + config.Reachable(s.Ops) + "/readyz",
		Metrics: "http://" + config.Reachable(s.Ops) + "/metrics",
		Next:    next(s.Options, a.ConfigFile, source, s.Sandbox.URL()),
		Demo:    demo,
	}
	return a.Emit(r, func() { writeReady(a, s, r, took) })
}

func writeReady(a *command.App, s *dev.Stack, r devResult, took time.Duration) {
	fmt.Fprintf(a.Out, "\npawl is ready (%s)\n\n", took.Round(100*time.Millisecond))
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
		fmt.Fprintf(a.Out, "  %-12s %s\n", place[0], place[1])
	}
	fmt.Fprintf(a.Out, "\nTry next, in another terminal:\n")
	for _, command := range r.Next {
		fmt.Fprintf(a.Out, "  %s\n", command)
	}
	fmt.Fprintf(a.Out, "\nCtrl-C stops everything; the state stays in %s.\n", s.Dir)
}

// next returns commands to try after the start. With --real it leaves out commands of the sandbox.
func next(o dev.Options, file, source, sandbox string) []string {
	command := func(name, flags string) string {
		return strings.TrimSpace(called() + " " + name + " --config " + decide.ShellWord(file) + " " + flags)
	}
	send := "--source " + decide.ShellWord(source) + " --type invoice.paid --duplicates 3"
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

// stripeSource returns the alphabetically first source with provider stripe, or "stripe" if no source has that
// provider.
func stripeSource(cfg *config.Config) string {
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if cfg.Sources[name].Provider == "stripe" {
			return name
		}
	}
	return "stripe"
}
