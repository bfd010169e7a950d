package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/flow"
	"github.com/pawlhq/pawl/activities/published"
	"github.com/pawlhq/pawl/cmd/internal/command"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/output"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/workflows/plan"
)

func flowsCommand(a *command.App) *cobra.Command {
	return command.Group("flows", "The flows of the configuration", flowsList(a), flowsTest(a), flowsPreview(a))
}

// listedFlow is a row of `pawl flows list`.
type listedFlow struct {
	Name  string   `json:"name"`
	On    string   `json:"on"`
	Types []string `json:"types"`
	Steps []string `json:"steps"`
	Sinks []string `json:"sinks"`
	Hash  string   `json:"hash"`
}

func flowsList(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the flows of the configuration, with their events and sinks",
		Args: command.NoArgument,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.LoadToAsk()
			if err != nil {
				return err
			}
			list := []listedFlow{}
			for _, name := range slices.Sorted(maps.Keys(cfg.Flows)) {
				f := cfg.Flows[name]
				on, types := "provider "+f.On.Provider, f.On.Types
				switch {
				case f.On.Published != nil:
					on, types = "published by pawl", f.On.Published
				case f.On.Source != "":
					on = "source " + f.On.Source
				}
				list = append(list, listedFlow{name, on, append([]string{}, types...),
					slices.Sorted(maps.Keys(f.Steps)), slices.Sorted(maps.Keys(f.Sinks())), f.Compiled.Hash})
			}
			return command.Emit(a, list, writeFlows)
		},
	}
}

func writeFlows(a *command.App, list []listedFlow) {
	if len(list) == 0 {
		fmt.Fprintln(a.Out, "the configuration has no flows")
	}
	for _, f := range list {
		fmt.Fprintf(a.Out, "%s\n  events  %s: %s\n  steps   %s\n  sinks   %s\n", f.Name, f.On,
			cmp.Or(strings.Join(f.Types, ", "), "all types"), strings.Join(f.Steps, ", "),
			cmp.Or(strings.Join(f.Sinks, ", "), "none"))
	}
}

// testedFlow is the output of `pawl flows test --json`.
type testedFlow struct {
	Flow string `json:"flow"`
	flow.Trial
	// Keys and UndoKeys hold the ledger keys, by step: "label", or "label[2]" for the second item of a for_each.
	Keys     map[string]string `json:"ledger_keys"`
	UndoKeys map[string]string `json:"undo_ledger_keys"`
}

func flowsTest(a *command.App) *cobra.Command {
	var file, eventType, mode, account string
	cmd := &cobra.Command{
		Use:   "test NAME --event FILE",
		Short: "Print the keys, requests, order and undo of a flow for an event, and send nothing",
		Args:  cobra.ExactArgs(1),
		Long: `Print the plan of a flow for an event: its steps in order, the keys, the requests, the undo
and the tasks. The command sends nothing and needs no database. FILE ("-" for standard input) is the body of the event.
For a flow on events that pawl publishes, it is a CloudEvent, which contains the type, the mode and the account.
Each output of an earlier step is printed as $STEP.NAME. The exit code is 1 if a run of the event would park.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return command.Usagef("--event FILE is missing")
			}
			cfg, err := a.LoadToAsk()
			if err != nil {
				return err
			}
			of, err := flowNamed(cfg, args[0])
			if err != nil {
				return err
			}
			payload, err := a.ReadFile(file)
			if err != nil {
				return command.Usagef("%s: %w", file, err)
			}
			source, provider := sourceOf(cfg, of)
			if eventType == "" && len(of.On.Types) > 0 {
				eventType = of.On.Types[0]
			}
			if m := cfg.Sources[source].Mode; m != "" && !cmd.Flags().Changed("mode") {
				mode = string(m)
			}
			meta := flow.Meta{ID: "test", Type: eventType, Provider: provider, Source: source, Account: account,
				Mode: mode}
			if of.On.Published != nil {
				for _, name := range []string{"type", "mode", "account"} {
					if cmd.Flags().Changed(name) {
						return command.Usagef("--%s is not possible: the CloudEvent contains the %s", name, name)
					}
				}
				if meta, err = publishedMeta(of, payload); err != nil {
					return command.Usagef("%s: %w", file, err)
				}
			}
			e, err := flow.NewEvent(meta, payload, time.Now())
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			tried, err := of.Compiled.Try(e)
			if err != nil {
				return fmt.Errorf("a run of this event would park: %w", err)
			}
			result := testedFlow{Flow: args[0], Trial: tried, Keys: map[string]string{}, UndoKeys: map[string]string{}}
			result.keys(of.Compiled, e, event.Ref{Provider: meta.Provider, Mode: meta.Mode, Account: meta.Account})
			return command.Emit(a, result, writeTested)
		},
	}
	cmd.Flags().StringVar(&file, "event", "", "the body of the event, a JSON `file`")
	cmd.Flags().StringVar(&eventType, "type", "", "the `type` of the event (default the first type of the flow)")
	cmd.Flags().StringVar(&mode, "mode", "live", "the `mode` of the event: live or test; the default is the mode of the source, if it has one")
	cmd.Flags().StringVar(&account, "account", "", "the provider's `account` of the event, if it has one")
	return cmd
}

// publishedMeta returns the description of an event that pawl publishes, from its CloudEvent.
func publishedMeta(of config.Flow, payload []byte) (m flow.Meta, err error) {
	m, err = published.Meta(payload)
	if err != nil {
		return m, err
	}
	if !slices.Contains(of.On.Published, m.Type) {
		return m, fmt.Errorf("the flow does not select the type %q: it selects %s", m.Type,
			strings.Join(of.On.Published, ", "))
	}
	return m, nil
}

// sourceOf returns a source with the events of a flow, and its provider.
func sourceOf(cfg *config.Config, f config.Flow) (source, provider string) {
	if names := cfg.SourcesOf(f); len(names) > 0 {
		return names[0], cfg.Sources[names[0]].Provider
	}
	return f.On.Source, f.On.Provider
}

// keys adds the ledger keys.
func (t *testedFlow) keys(f *flow.Flow, e *flow.Event, of event.Ref) {
	p, err := f.Plan(e)
	if err != nil { // [flow.Flow.Try] has planned the same event
		return
	}
	for i, s := range plan.Configured(flow.Run{Name: f.Name, Hash: f.Hash, Steps: p.Steps}, of) {
		name := p.Steps[i].Label()
		if t.Keys[name] = s.Key; s.Undo != nil {
			t.UndoKeys[name] = s.Undo(effect.Result{}).Key
		}
	}
}

func writeTested(a *command.App, t testedFlow) {
	if !t.Wanted {
		fmt.Fprintf(a.Out, "flow %s does nothing: its condition is false for this event\n", t.Flow)
		return
	}
	fmt.Fprintf(a.Out, "flow %s: %s", t.Flow, output.Plural(len(t.Steps), "step"))
	if t.Account != "" {
		fmt.Fprintf(a.Out, ", account %s", output.Clean(t.Account))
	}
	fmt.Fprintln(a.Out)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(a.Out, "  %-8s %s\n", name, output.Clean(fmt.Sprintf(format, args...)))
	}
	for _, s := range t.Steps {
		fmt.Fprintf(a.Out, "\n%s\n", s.Label())
		if len(s.After) > 0 {
			line("after", "%s", strings.Join(s.After, ", "))
		}
		line("key", "%s", t.Keys[s.Label()])
		if s.Request != nil {
			writeTrial(line, "request", s.Request)
		}
		if s.Workflow != nil {
			writeTrialWorkflow(line, "workflow", s.Workflow, t.Keys[s.Label()])
		}
		if s.Task != nil {
			line("task", "%s", s.Task.Title)
			if s.Task.Due > 0 {
				line("due", "%s after the event", s.Task.Due)
			}
		}
		switch {
		case s.Undo != nil:
			writeTrial(line, "undo", s.Undo)
			line("", "key %s", t.UndoKeys[s.Label()])
		case s.UndoWorkflow != nil:
			writeTrialWorkflow(line, "undo", s.UndoWorkflow, t.UndoKeys[s.Label()])
			line("", "key %s", t.UndoKeys[s.Label()])
		case s.Task != nil:
			line("undo", "cancels the task")
		default:
			line("undo", "none: a later refusal parks the run for a person")
		}
	}
}

// writeTrialWorkflow prints a workflow. key is the ledger key of its effect.
func writeTrialWorkflow(line func(string, string, ...any), name string, w *flow.TrialWorkflow, key string) {
	limit := ""
	if w.Timeout > 0 {
		limit = fmt.Sprintf(", timeout %s", w.Timeout)
	}
	line(name, "%s on task queue %s%s, ID %s", w.Type, w.TaskQueue, limit, effect.IdempotencyKey(key, 1))
	if w.Input != nil {
		line("", "input %s", w.Input)
	}
	if w.Problem != "" {
		line("", "depends on an output: %s", w.Problem)
	}
}

func writeTrial(line func(string, string, ...any), name string, r *flow.TrialRequest) {
	line(name, "%s %s (sink %s)", r.Method, r.Path, r.Sink)
	if r.Body != nil {
		line("", "%s", r.Body)
	}
	if r.Problem != "" {
		line("", "depends on an answer: %s", r.Problem)
	}
}
