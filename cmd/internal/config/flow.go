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

// FlowOf returns the name of the flow that handles a type of a source, or "".
func (c *Config) FlowOf(source, eventType string) string {
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		if c.Flows[name].Handles(c.Sources[source].Provider, source, eventType) {
			return name
		}
	}
	return ""
}

// HasFlow reports whether a flow handles any event of a source.
func (c *Config) HasFlow(source string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(c.Flows)), func(name string) bool {
		return slices.Contains(c.sourcesOf(c.Flows[name]), source)
	})
}

// sourcesOf returns the sources with the events of a flow.
func (c *Config) sourcesOf(f Flow) (names []string) {
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
	for _, fault := range faults {
		at := strings.TrimSuffix(key+"."+fault.Path, ".")
		if fault.Line > 0 && !slices.ContainsFunc(c.faults, func(o Fault) bool { return o.Key == at }) {
			place := c.places[at]
			c.faults = append(c.faults, Fault{Key: at, Line: place.line + fault.Line - 1,
				Column:  place.column + fault.Column - 1,
				Problem: fault.Problem, Fix: fault.Fix})
			continue
		}
		c.bad(at, fault.Problem, fault.Fix)
	}
	f.checkTrigger(c, key+".on")
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

// checkModes reports a sink that does not serve the mode of a source of the flow. The events of this source would skip
// the step.
func (f *Flow) checkModes(c *checker, key, sink string, known *Sink) {
	for _, name := range c.cfg.sourcesOf(*f) {
		mode := string(c.cfg.Sources[name].Mode)
		if _, serves := known.Modes()[mode]; mode != "" && !serves {
			c.bad(key, fmt.Sprintf("the sink %s does not serve the mode %s of the source %s", sink, mode, name),
				"add sinks."+sink+"."+mode+", or write url directly under sinks."+sink+" for both modes")
		}
	}
}

func (f *Flow) checkTrigger(c *checker, key string) {
	sources := c.cfg.sourcesOf(*f)
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
				"use destinations.NAME.events to receive the events that pawl publishes about billing")
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
			types := len(a.On.Types) == 0 || len(b.On.Types) == 0 ||
				slices.ContainsFunc(a.On.Types, func(t string) bool { return slices.Contains(b.On.Types, t) })
			sources := slices.ContainsFunc(c.cfg.sourcesOf(a),
				func(s string) bool { return slices.Contains(c.cfg.sourcesOf(b), s) })
			if types && sources {
				c.bad("flows."+name+".on", "selects events that flow "+other+" also selects",
					"move the steps into one flow, and give them conditions: an event has at most one flow")
			}
		}
	}
}
