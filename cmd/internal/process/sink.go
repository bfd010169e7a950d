package process

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/activities/httpcall"
	"github.com/pawlhq/pawl/activities/selection"
	"github.com/pawlhq/pawl/activities/smtp"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/workflows/plan"
)

// gates maps the name of each sink to the limiter of its calls.
type gates map[string]*effect.Gate

func newGates(c *config.Config) gates {
	all := gates{plan.SinkStripe: effect.NewGate(plan.SinkStripe, askingPlaces, 0)}
	for _, s := range c.Served() {
		all[s.Name] = effect.NewGate(s.Name, s.Target.MaxConcurrency, s.Target.RateLimit)
	}
	return all
}

// askingPlaces is how many objects a process fetches from Stripe at the same time. api_rate_limit of a source limits
// the number of requests.
const askingPlaces = 16

func (g gates) all() []*effect.Gate { return slices.Collect(maps.Values(g)) }

// slots returns how many activity slots of a worker all sinks together can occupy.
func (g gates) slots() (n int) {
	for _, gate := range g {
		n += gate.Slots()
	}
	return n
}

// policy returns the timeout, the limiter and the retries for the effects of a sink in a mode.
func (g gates) policy(s config.Target, mode string) effect.Policy {
	return effect.Policy{Timeout: s.Timeout, Gate: g[s.ForMode(mode)], Retries: effect.Retries(s.Retries),
		KeyLifetime: s.KeyLifetime}
}

func settings(s config.Target) activities.SinkSettings {
	return activities.SinkSettings{Timeout: s.Timeout, ActivityOnly: s.Execution == "activity", Owner: s.Owner}
}

// warnOfSkippedEffects logs the effects that are skipped because their sink is not configured.
func (n *Node) warnOfSkippedEffects(ctx context.Context) {
	for _, sink := range n.Config.UnconfiguredSinks() {
		var effects []string
		for _, kind := range plan.Catalogue() {
			if kind.Sink == sink.Name {
				effects = append(effects, kind.Name)
			}
		}
		n.log.WarnContext(ctx, "effects are skipped, since their sink is not configured", "sink", sink.Name,
			"modes", sink.Modes, "effects", effects, "fix", "configure "+sink.Key)
	}
}

// sinks holds the configured sinks and destinations for the receivers.
type sinks struct {
	// settings maps each sink to the settings for its effects.
	settings map[string]activities.SinkSettings
	// http maps the name of a sink and a mode to the client of an API with idempotency keys.
	http map[string]map[string]activities.Sink
	// mail maps each mode to a mail server.
	mail map[string]activities.MailSink
}

func (n *Node) sinks() sinks {
	all := sinks{
		settings: map[string]activities.SinkSettings{plan.SinkStripe: {Timeout: fetchTimeout}},
		http:     map[string]map[string]activities.Sink{},
	}
	client := n.tracing.Client(httpcall.NewClient())
	for _, s := range n.Config.Targets() {
		switch {
		case s.HTTP != nil:
			all.http[s.Name] = n.gates.httpSinks(s, client)
		case s.Email != nil:
			all.mail = n.gates.mailSinks(s)
		default: // a run gets its destinations when it relays, and it sends no notifications
			continue
		}
		all.settings[s.Name] = settings(s)
	}
	return all
}

// destinations returns the configured destinations, sorted by name.
func (g gates) destinations(c *config.Config) (all []activities.Destination) {
	for _, t := range c.Targets() {
		if d := t.Destination; d != nil {
			all = append(all, activities.Destination{
				Name: strings.TrimPrefix(t.Name, config.DestinationPrefix), URL: d.URL, Token: d.Token.Value(),
				Keys: d.Keys(), Events: d.Events, Selection: selection.Rule{Types: d.Types, When: d.Condition},
				Policy: g.policy(t, ""), Settings: settings(t),
			})
		}
	}
	return all
}

func (g gates) httpSinks(s config.Target, client *http.Client) map[string]activities.Sink {
	var refusals []activities.Refusal
	for _, r := range s.HTTP.Refusals {
		refusals = append(refusals, activities.Refusal(r))
	}
	modes := map[string]activities.Sink{}
	for mode, endpoint := range s.HTTP.Modes() {
		modes[mode] = activities.Sink{
			URL: endpoint.URL, Token: endpoint.Token.Value(), Client: client, Refusals: refusals,
			Policy: g.policy(s, mode),
		}
	}
	return modes
}

func (g gates) mailSinks(s config.Target) map[string]activities.MailSink {
	modes := map[string]activities.MailSink{}
	for mode, m := range s.Email.Modes() {
		modes[mode] = activities.MailSink{
			Mailer: mailer(m.MailServer), From: m.From, AtLeastOnce: s.Email.Guarantee == "at_least_once",
			KeyHeader: s.Email.KeyHeader,
			Policy:    g.policy(s, mode),
		}
	}
	return modes
}

func mailer(m config.MailServer) *smtp.Client {
	return &smtp.Client{Address: m.Address, TLS: smtp.TLSMode(m.TLS), Username: m.Username,
		Password: m.Password.Value()}
}

// Relays maps each source to the destinations of its events.
func Relays(c *config.Config) map[string][]string {
	of := map[string][]string{}
	for name := range c.Sources {
		of[name] = c.DestinationsOf(name)
	}
	return of
}

// RelaysOf returns a function that returns the destinations of a source that select an event type.
func RelaysOf(c *config.Config) func(source, eventType string) []string {
	return func(source, eventType string) []string {
		return slices.DeleteFunc(c.DestinationsOf(source), func(name string) bool {
			rule := selection.Rule{Types: c.Destinations[name].Types}
			return !rule.HasType(c.Sources[source].Provider, eventType)
		})
	}
}

// Destinations returns the configured destinations, sorted by name. They have no limiters, which only a worker needs.
func Destinations(c *config.Config) []activities.Destination { return gates{}.destinations(c) }
