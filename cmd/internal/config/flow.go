package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities/flow"
)

// Flow turns the events of a provider or a source into effects on your own systems.
type Flow struct {
	flow.Definition `yaml:",inline"`
	// Compiled is the compiled definition.
	Compiled *flow.Flow `yaml:"-"`
}

// FlowOf returns the name of the flow that handles a type of a source, or "". The source "pawl" means the events that
// pawl publishes.
func (c *Config) FlowOf(source, eventType string) string {
	provider := c.Sources[source].Provider
	if source == flow.Pawl {
		provider = flow.Pawl
	}
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		if c.Flows[name].Handles(provider, source, eventType) {
			return name
		}
	}
	return ""
}

// HasFlow reports whether a flow handles any event of a source.
func (c *Config) HasFlow(source string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(c.Flows)), func(name string) bool {
		return slices.Contains(c.SourcesOf(c.Flows[name]), source)
	})
}

// PublishedTypes returns the types of pawl's own events that flows select.
func (c *Config) PublishedTypes() (types []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		types = append(types, c.Flows[name].On.Published...)
	}
	return types
}

// SourcesOf returns the sources with the events of a flow. It returns nil for a flow on published events.
func (c *Config) SourcesOf(f Flow) (names []string) {
	if f.On.Published != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if f.On.Source == name || f.On.Source == "" && f.On.Provider == c.Sources[name].Provider {
			names = append(names, name)
		}
	}
	return names
}

// usedByFlows reports whether a flow sends requests to a sink.
func (c *Config) usedByFlows(sink string) bool {
	for _, f := range c.Flows {
		if f.Sinks()[sink] != nil {
			return true
		}
	}
	return false
}

func (f *Flow) check(c *checker, key string) {
	name := strings.TrimPrefix(key, "flows.")
	compiled, faults := flow.Compile(name, f.Definition)
	f.Compiled = compiled
	c.uncompiled(key+".", faults)
	f.checkTrigger(c, key+".on")
	f.checkPublished(c, key+".on.published")
	for _, place := range f.OnQueue(c.cfg.Temporal.TaskQueue) {
		c.bad(key+"."+place, "is the task queue of pawl's own workers", "name the task queue of your worker")
	}
	for sink, places := range f.Sinks() {
		for _, place := range places {
			switch known := c.cfg.Sinks[sink]; {
			case sink == "": // the compiler has reported it
			case known == nil || sink == emailSink || len(known.Modes()) == 0:
				c.bad(key+"."+place, fmt.Sprintf("%q is not an HTTP sink with a URL", sink),
					"add it: sinks: {"+sink+": {url: \"https://…\"}}")
			default:
				f.checkModes(c, key+"."+place, sink, known)
			}
		}
	}
}

// uncompiled adds the faults of expressions. prefix is the prefix of their keys.
func (c *checker) uncompiled(prefix string, faults []flow.Fault) {
	for _, fault := range faults {
		at := strings.TrimSuffix(prefix+fault.Path, ".")
		if fault.Line > 0 && !c.faulty(at) {
			place := c.places[at]
			c.faults = append(c.faults, Fault{Key: at, Line: place.line + fault.Line - 1,
				Column: place.column + fault.Column - 1, Problem: fault.Problem, Fix: fault.Fix})
			continue
		}
		c.bad(at, fault.Problem, fault.Fix)
	}
}

// publishable lists the types that a flow can select: the types of docs/sinks.openapi.yaml without access.snapshot, and
// one type for each status of a dispute at Stripe.
var publishable = []string{
	"access.changed", "billing.checkout.completed",
	disputeEvents + "lost", disputeEvents + "needs_response", disputeEvents + "prevented",
	disputeEvents + "under_review", disputeEvents + "warning_closed", disputeEvents + "warning_needs_response",
	disputeEvents + "warning_under_review", disputeEvents + "won",
	"billing.invoice.closed", "billing.invoice.paid", "billing.payment.failed",
	"billing.refund.failed", "billing.refund.succeeded", "billing.subscription.changed", "billing.subscription.ended",
	"task.closed", "task.due_soon", "task.opened",
}

// checkPublished checks the names of published events. A flow that opens tasks must not run for events about tasks: its
// own tasks would start it again.
func (f *Flow) checkPublished(c *checker, key string) {
	tasks := ""
	for _, name := range slices.Sorted(maps.Keys(f.Steps)) {
		if f.Steps[name].Task != nil {
			tasks = name
		}
	}
	for i, t := range f.On.Published {
		at := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case t == "access.snapshot":
			c.badAt(at, "access.snapshot repeats the access of an account for a destination, and reports no change",
				"select access.changed")
		case !slices.Contains(publishable, t):
			c.badAt(at, fmt.Sprintf("%q is not an event that pawl publishes to flows", t),
				"write one of: "+strings.Join(publishable, ", "))
		case slices.Contains(f.On.Published[:i], t):
			c.badAt(at, fmt.Sprintf("%q is listed twice", t), "remove one")
		case strings.HasPrefix(t, "task.") && tasks != "":
			c.badAt(at, "would start the flow again for each task that its step "+tasks+" opens",
				"remove the type, or the step")
		}
	}
}

// modesOf returns the sources that determine the modes of a flow's events. pawl publishes events about the sources of
// billing.
func (c *Config) modesOf(f Flow) (names []string) {
	if f.On.Published == nil {
		return c.SourcesOf(f)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if c.Sources[name].Provider == billing {
			names = append(names, name)
		}
	}
	return names
}

// checkModes reports a sink that does not serve the mode of a source of the flow. The events of this source would skip
// the step.
func (f *Flow) checkModes(c *checker, key, sink string, known *Sink) {
	for _, name := range c.cfg.modesOf(*f) {
		mode := string(c.cfg.Sources[name].Mode)
		if _, serves := known.Modes()[mode]; mode != "" && !serves {
			c.bad(key, fmt.Sprintf("the sink %s does not serve the mode %s of the source %s", sink, mode, name),
				"add sinks."+sink+"."+mode+", or write url directly under sinks."+sink+" for both modes")
		}
	}
}

func (f *Flow) checkTrigger(c *checker, key string) {
	sources := c.cfg.SourcesOf(*f)
	switch {
	case f.On.Source != "" && len(sources) == 0:
		c.bad(key+".source", fmt.Sprintf("%q is not a source", f.On.Source),
			"correct the name, or add it under sources")
	case f.On.Provider != "" && len(sources) == 0:
		c.bad(key+".provider", fmt.Sprintf("no source has the provider %q", f.On.Provider),
			"correct the name, or add a source")
	}
	for _, source := range sources {
		of := c.cfg.Sources[source]
		if of.Provider == billing {
			c.bad(key, "selects events of "+billing+", which run pawl's billing flows",
				"select the events that pawl publishes about billing: on: {published: [billing.invoice.paid]}, or "+
					"send them to a destination with destinations.NAME.events")
		}
		for i, t := range f.On.Types {
			if len(of.Events) > 0 && !slices.Contains(of.Events, t) {
				c.bad(fmt.Sprintf("%s.types[%d]", key, i), fmt.Sprintf("sources.%s.events does not contain %q", source,
					t),
					"add it there: the source ignores other types")
			}
		}
	}
}

// flowsDiffer checks that an event has at most one flow.
func (c *checker) flowsDiffer() {
	names := slices.Sorted(maps.Keys(c.cfg.Flows))
	for i, name := range names {
		for _, other := range names[:i] {
			a, b := c.cfg.Flows[name], c.cfg.Flows[other]
			published := slices.ContainsFunc(a.On.Published,
				func(t string) bool { return slices.Contains(b.On.Published, t) })
			types := len(a.On.Types) == 0 || len(b.On.Types) == 0 ||
				slices.ContainsFunc(a.On.Types, func(t string) bool { return slices.Contains(b.On.Types, t) })
			sources := slices.ContainsFunc(c.cfg.SourcesOf(a),
				func(s string) bool { return slices.Contains(c.cfg.SourcesOf(b), s) })
			if published || types && sources {
				c.bad("flows."+name+".on", "selects events that flow "+other+" also selects",
					"move the steps into one flow, and give them conditions: an event has at most one flow")
			}
		}
	}
}
