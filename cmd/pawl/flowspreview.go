package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/activities/published"
	"github.com/pawlhq/pawl/activities/step"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/ledger"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows/plan"
)

// previewedFlow is the output of `pawl flows preview --json`.
type previewedFlow struct {
	Flow string `json:"flow"`
	// Since and Until bound the events. If there are older events than those in Events, More is set, and Since is when
	// the oldest of Events was received.
	Since  time.Time        `json:"since_at"`
	Until  time.Time        `json:"until_at"`
	Events []previewedEvent `json:"events"`
	More   bool             `json:"more"`
	// Commands run ignored events for the first time, and processed events again. Destinations lists the destinations
	// that then receive the ignored events, too.
	Commands     []string `json:"commands"`
	Destinations []string `json:"destinations"`
}

// previewedEvent is the plan of a flow for a stored event.
type previewedEvent struct {
	EventID    string    `json:"event_id"`
	Source     string    `json:"source"`
	Type       string    `json:"type"`
	Mode       string    `json:"mode"`
	Status     string    `json:"status"`
	ReceivedAt time.Time `json:"received_at"`
	// Steps holds the ledger keys of the planned steps in order.
	Steps []previewedStep `json:"steps"`
	// Problem is the reason why a run would park, or "".
	Problem string `json:"problem,omitempty"`
}

type previewedStep struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	// State is the state of the effect in the ledger, "planned" if an earlier event of the list has the key, or "".
	State string `json:"state,omitempty"`
}

// planned is the state of a step that an earlier event of the preview causes.
const planned = "planned"

func flowsPreview(a *command.App) *cobra.Command {
	since, until := time.Time{}, time.Time{}
	mode := "live"
	cmd := &cobra.Command{
		Use:   "preview NAME",
		Short: "List the effects that a flow would cause for the stored events, and send nothing",
		Args:  cobra.ExactArgs(1),
		Long: `Plan a flow for the events that pawl has stored, and print the steps that would run for each event. A step does not run
if the ledger has an effect with its key. The command sends and changes nothing. It uses the definition in the
configuration, so you can try a new flow before you deploy it. At the end it prints the commands that run the events with
the flow. If the payload of an event was deleted, the event is listed as a problem. The preview does not consider withheld
effects, or sinks that do not serve the mode. pawl stores the events that it publishes only for flows that select them, so
a new flow on published events has no events to preview.`,
	}
	command.TimeFlag(cmd.Flags(), &since, "since", "only events received since "+command.SinceUsage+" (default 7d)")
	command.TimeFlag(cmd.Flags(), &until, "until", "only events received before this time")
	command.OneOfFlag(cmd, &mode, "mode", "only live events (default), or only test events", "live", "test")
	limit := command.LimitFlag(cmd, 200)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		now := time.Now()
		if since.IsZero() {
			since = now.AddDate(0, 0, -7)
		}
		if until.IsZero() {
			until = now
		}
		return a.Asking(cmd.Context(), func(ctx context.Context, s *command.Session) error {
			of, err := flowNamed(s.Config, args[0])
			if err != nil {
				return err
			}
			p := previewedFlow{Flow: args[0], Since: since, Until: until, Events: []previewedEvent{},
				Commands: []string{}, Destinations: []string{}}
			if err := p.read(ctx, s, of, timeline.Filter{Mode: mode, Since: since, Until: until,
				Limit: *limit}); err != nil {
				return err
			}
			return command.Emit(a, p, writePreviewed)
		})
	}
	return cmd
}

// flowNamed returns a flow of the configuration.
func flowNamed(cfg *config.Config, name string) (config.Flow, error) {
	of, known := cfg.Flows[name]
	if !known {
		return of, command.Usagef("there is no flow %q: the flows are %s", name,
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(cfg.Flows)), ", "), "none"))
	}
	return of, nil
}

// typesOf returns the event types of a flow; "" is any type.
func typesOf(f config.Flow) []string {
	if types := slices.Concat(f.On.Published, f.On.Types); len(types) > 0 {
		return types
	}
	return []string{""}
}

// read plans the flow for the newest events that match the filter.
func (p *previewedFlow) read(ctx context.Context, s *command.Session, of config.Flow, f timeline.Filter) error {
	limit, sources := f.Limit, s.Config.SourcesOf(of)
	if of.On.Published != nil {
		sources = []string{published.Source}
	}
	f.Limit++
	var found []timeline.Receipt
	for _, source := range sources {
		for _, eventType := range typesOf(of) {
			f.Source, f.Type = source, eventType
			some, err := timeline.List(ctx, s.DB, f)
			if err != nil {
				return err
			}
			found = append(found, some...)
		}
	}
	slices.SortFunc(found, func(a, b timeline.Receipt) int { return cmp.Compare(b.ID, a.ID) })
	found = slices.DeleteFunc(found, func(r timeline.Receipt) bool { return r.RelayOf != "" })
	if p.More = len(found) > limit; p.More {
		found = found[:limit]
		p.Since = found[limit-1].ReceivedAt
	}
	seen := map[string]bool{}
	for _, r := range slices.Backward(found) { // the first event with a key causes the effect
		e, err := previewOf(ctx, s, p.Flow, of.Compiled, r)
		if err != nil {
			return err
		}
		for i, step := range e.Steps {
			if step.State == "" && seen[step.Key] {
				e.Steps[i].State = planned
			}
			seen[step.Key] = true
		}
		p.Events = append(p.Events, e)
	}
	slices.Reverse(p.Events)
	p.addCommands(of, s.Relays)
	return nil
}

// previewOf plans the flow for one event, and reads the states of its effects.
func previewOf(ctx context.Context, s *command.Session, name string, f *flow.Flow,
	r timeline.Receipt) (e previewedEvent, err error) {
	e = previewedEvent{EventID: r.EventID, Source: r.Source, Type: r.Type, Mode: r.Mode, Status: r.Status,
		ReceivedAt: r.ReceivedAt, Steps: []previewedStep{}}
	stored, err := s.Receipts.Get(ctx, r.ID)
	if err != nil {
		return e, err
	}
	p, _, why, err := step.Plan(ctx, s.Receipts, f, stored)
	if err != nil || why != "" {
		e.Problem = why
		return e, err
	}
	var keys []string
	for i, of := range plan.Configured(flow.Run{Name: name, Hash: f.Hash, Steps: p.Steps},
		event.Ref{Provider: r.Provider, Mode: r.Mode, Account: r.Account}) {
		e.Steps = append(e.Steps, previewedStep{Name: p.Steps[i].Label(), Key: of.Key})
		keys = append(keys, of.Key)
	}
	held, err := ledger.Peek(ctx, s.DB, keys)
	for i := range e.Steps {
		e.Steps[i].State = string(held[keys[i]].State)
	}
	return e, err
}

// in returns the steps in one of the states.
func (e previewedEvent) in(states ...ledger.State) (names []string) {
	for _, s := range e.Steps {
		if slices.Contains(states, ledger.State(s.State)) {
			names = append(names, s.Name)
		}
	}
	return names
}

// open returns the steps that a run would execute.
func (e previewedEvent) open() []string { return e.in("", ledger.Failed) }

// addCommands adds the commands that run the events: ignored ones for the first time, processed ones again. An event
// without a type has no command, because a command without a type would select events of every type.
func (p *previewedFlow) addCommands(of config.Flow, relays func(source, eventType string) []string) {
	seen := map[[3]string]bool{}
	for _, e := range p.Events {
		verb, runs := map[string]string{string(receipt.Ignored): "start", string(receipt.Processed): "replay"}[e.Status]
		is := [3]string{e.Status, e.Source, e.Type}
		if !runs || seen[is] || len(e.open()) == 0 || of.On.Published != nil || e.Type == "" {
			continue
		}
		seen[is] = true
		if verb == "start" {
			p.Destinations = append(p.Destinations, relays(e.Source, e.Type)...)
		}
		p.Commands = append(p.Commands, fmt.Sprintf(
			"pawl events %s --status %s --source %s --type %s --mode %s --since %s --until %s --reason REASON --dry-run",
			verb, e.Status, decide.ShellWord(e.Source), decide.ShellWord(e.Type), e.Mode,
			p.Since.UTC().Format(time.RFC3339), p.Until.UTC().Add(time.Second).Format(time.RFC3339)))
	}
	slices.Sort(p.Destinations)
	p.Destinations = slices.Compact(p.Destinations)
}

func writePreviewed(a *command.App, p previewedFlow) {
	effects, with, problems := 0, 0, 0
	a.Tables(output.Rows("RECEIVED|EVENT|STATUS|THE FLOW", p.Events, func(e previewedEvent) []any {
		open, unclear := e.open(), e.in(ledger.Uncertain)
		does := "nothing: its condition is false"
		switch {
		case e.Problem != "":
			problems++
			does = "would park: " + e.Problem
		case len(unclear) > 0:
			problems++
			does = "would park: it is unknown whether this happened: " + strings.Join(unclear, ", ")
		case len(open) > 0:
			with, effects = with+1, effects+len(open)
			does = "would run " + strings.Join(open, ", ")
			if done := len(e.Steps) - len(open); done > 0 {
				does += fmt.Sprintf("; %d already known by their keys", done)
			}
		case len(e.Steps) > 0:
			does = "nothing: all keys are already known"
		}
		return []any{e.ReceivedAt, e.EventID, e.Status, does}
	}))
	more := ""
	if p.More {
		more = "the newest "
	}
	fmt.Fprintf(a.Out, "\n%s%s since %s: %d would cause %s, %d would park; nothing was sent\n", more,
		output.Plural(len(p.Events), "event"), output.Time(p.Since), with, output.Plural(effects, "effect"), problems)
	if p.More {
		fmt.Fprintln(a.Out, "there are older events: use --limit, or another --until")
	}
	if len(p.Commands) > 0 {
		fmt.Fprintln(a.Out, "\nTo run these events with the deployed flow:")
		for _, line := range p.Commands {
			fmt.Fprintln(a.Out, "  "+line)
		}
	}
	if len(p.Destinations) > 0 {
		fmt.Fprintln(a.Out, "The ignored events are then also delivered to: "+strings.Join(p.Destinations, ", "))
	}
}
