package process

import (
	"maps"
	"slices"

	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/workflows"
)

// gates are the ways to the sinks, by the sink's name: that of the catalogue, with the mode where the sink is per mode.
type gates map[string]*effect.Gate

func newGates(c *config.Config) gates {
	all := gates{}
	add := func(sink string, b config.Bounds) { all[sink] = effect.NewGate(sink, b.Places, b.Rate) }
	addModes := func(sink string, configured, perMode bool, b config.Bounds) {
		if !configured {
			return // its effects are left out
		}
		if !perMode {
			add(sink, b)
			return
		}
		for _, mode := range []webhook.Mode{webhook.Live, webhook.Test} {
			add(ofMode(sink, string(mode)), b)
		}
	}
	w, f, m := c.Sinks.Workspaces, c.Sinks.Finance, c.Sinks.Email
	addModes(workflows.SinkWorkspaces, len(w.Modes()) > 0, w.Live != nil || w.Test != nil, w.Bounds)
	addModes(workflows.SinkFinance, len(f.Modes()) > 0, f.Live != nil || f.Test != nil, f.Bounds)
	addModes(workflows.SinkMail, len(m.Modes()) > 0, m.Live != nil || m.Test != nil, m.Bounds)
	add(workflows.SinkStripe, config.Bounds{Places: askingPlaces})
	for name, consumer := range c.Consumers {
		add(workflows.SinkConsumers+":"+name, consumer.Bounds)
	}
	return all
}

func ofMode(sink, mode string) string { return sink + ":" + mode }

// askingPlaces is how many objects a process asks Stripe for at once. Its API is paced by the source's api_rate.
const askingPlaces = 16

// of returns the gate to a sink for a mode.
func (g gates) of(sink, mode string) *effect.Gate {
	if own, ok := g[ofMode(sink, mode)]; ok {
		return own
	}
	return g[sink]
}

// all returns the gates.
func (g gates) all() []*effect.Gate { return slices.Collect(maps.Values(g)) }

// Sink is a way out of a worker process.
type Sink struct {
	Name   string
	Places int
}

// Places lists the sinks and consumers of a configuration by name, with the places of each.
func Places(c *config.Config) []Sink {
	all, list := newGates(c), []Sink{}
	delete(all, workflows.SinkStripe) // it is asked, and no sink of effects
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Sink{name, all[name].Places()})
	}
	return list
}

// slots is how many slots of a worker all sinks together can hold.
func (g gates) slots() (n int) {
	for _, gate := range g {
		n += gate.Slots()
	}
	return n
}
