package process

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/workflows"
)

// gates maps the names of sinks to the limiters of their calls.
type gates map[string]*effect.Gate

func newGates(c *config.Config) gates {
	all := gates{workflows.SinkStripe: effect.NewGate(workflows.SinkStripe, askingPlaces, 0)}
	for _, s := range c.Served() {
		all[s.Name] = effect.NewGate(s.Name, s.Sink.Places, s.Sink.Rate)
	}
	return all
}

// askingPlaces is how many objects a process fetches from Stripe at once. The source's api_rate limits the requests.
const askingPlaces = 16

func (g gates) all() []*effect.Gate { return slices.Collect(maps.Values(g)) }

// slots returns how many slots of a worker all sinks together can occupy.
func (g gates) slots() (n int) {
	for _, gate := range g {
		n += gate.Slots()
	}
	return n
}

// policy returns the timeout, gate and retries for the effects of a sink in a mode.
func (g gates) policy(s config.Sink, mode string) effect.Policy {
	return effect.Policy{Timeout: s.Timeout, Gate: g[s.ForMode(mode)], Retries: effect.Retries(s.Retries),
		KeyLifetime: s.KeyLifetime}
}

func settings(s config.Sink) activities.SinkSettings {
	return activities.SinkSettings{Timeout: s.Timeout, ActivityOnly: s.Effects == "activity", Owner: s.Owner}
}

// warnOfSkippedEffects logs which effects are skipped because their sink is not configured.
func (n *Node) warnOfSkippedEffects(ctx context.Context) {
	for _, sink := range n.Config.UnconfiguredSinks() {
		var effects []string
		for _, kind := range workflows.Catalogue() {
			if kind.Sink == sink.Name {
				effects = append(effects, kind.Name)
			}
		}
		n.log.WarnContext(ctx, "effects are skipped, since their sink is not configured", "sink", sink.Name,
			"modes", sink.Modes, "effects", effects, "fix", "configure "+sink.Key)
	}
}

// sinks holds the configured sinks and consumers for the receivers.
type sinks struct {
	// settings maps sinks to the settings of their effects.
	settings map[string]activities.SinkSettings
	// http maps sink names and modes to APIs with idempotency keys.
	http map[string]map[string]activities.Sink
	// mail maps modes to mail servers.
	mail      map[string]activities.MailSink
	consumers map[string]activities.Consumer
}

func (n *Node) sinks() sinks {
	all := sinks{
		settings: map[string]activities.SinkSettings{workflows.SinkStripe: {Timeout: fetchTimeout}},
		http:     map[string]map[string]activities.Sink{}, consumers: map[string]activities.Consumer{},
	}
	client := n.tracing.Client(activities.NewHTTPClient())
	for _, s := range n.Config.AllSinks() {
		switch {
		case s.HTTP != nil:
			all.http[s.Name] = n.gates.httpSinks(s, client)
		case s.Email != nil:
			all.mail = n.gates.mailSinks(s)
		case s.Consumer != nil:
			name := strings.TrimPrefix(s.Name, workflows.SinkConsumers+":")
			all.consumers[name] = activities.Consumer{URL: s.Consumer.URL, Keys: s.Consumer.Keys(),
				Policy: n.gates.policy(s, ""), Settings: settings(s)}
			continue // a run gets the consumers that it relays to
		case s.Notify != nil:
			continue // runs send no notifications
		}
		all.settings[s.Name] = settings(s)
	}
	return all
}

func (g gates) httpSinks(s config.Sink, client *http.Client) map[string]activities.Sink {
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

func (g gates) mailSinks(s config.Sink) map[string]activities.MailSink {
	modes := map[string]activities.MailSink{}
	for mode, m := range s.Email.Modes() {
		modes[mode] = activities.MailSink{
			Mailer: mailer(m), From: m.From, AtLeastOnce: s.Email.Guarantee == "at_least_once",
			KeyHeader: s.Email.KeyHeader,
			Policy:    g.policy(s, mode),
		}
	}
	return modes
}

func mailer(m config.MailServer) *activities.Mailer {
	return &activities.Mailer{Address: m.Address, TLS: activities.TLSMode(m.TLS), Username: m.Username,
		Password: m.Password.Value()}
}

// Relays maps each source that relays to its consumers.
func Relays(c *config.Config) map[string][]string {
	of := map[string][]string{}
	for name, s := range c.Sources {
		of[name] = s.Relay
	}
	return of
}

// Subscribers returns the subscribers of internal events.
func Subscribers(c *config.Config) []activities.Subscriber {
	var list []activities.Subscriber
	for _, s := range c.Sinks.Subscribers {
		list = append(list, activities.Subscriber{Name: s.Name, URL: s.URL, Token: s.Token.Value(), Timeout: s.Timeout,
			Types: s.Types})
	}
	return list
}
