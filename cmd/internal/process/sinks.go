package process

import (
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/workflows"
)

// What activities get of the configuration.

// BillingPolicy is what the configuration makes of facts.
func BillingPolicy(c *config.Config) billing.Policy {
	dunning := make([]time.Duration, len(c.Policy.Dunning))
	for i, after := range c.Policy.Dunning {
		dunning[i] = c.Lasts(after)
	}
	p := billing.Policy{
		Prices: map[string]billing.Price{}, Accounts: map[billing.Connected]string{},
		Order: c.Plans.Order, Features: c.Plans.Features,
		Grace: c.Lasts(c.Policy.Grace), Renewal: c.Lasts(c.Policy.Renewal), EndAtPeriodEnd: c.Policy.End == "period_end",
		EndOnFullRefund: c.Policy.FullRefund == "end", HoldOnDispute: c.Policy.Dispute == "hold", EndOnLostDispute: c.Policy.DisputeLost == "end",
		GrantOnPayment: c.Policy.GrantPlanOn == "payment", Dunning: dunning, Settle: c.Settles(), Keep: c.Lasts(c.Policy.Keep),
	}
	for name, price := range c.Plans.Prices {
		p.Prices[name] = billing.Price{Plan: price.Plan, AddOn: price.Adds, For: c.Lasts(price.For)}
	}
	for _, s := range c.Sources {
		for theirs, ours := range s.Accounts.Ours {
			for _, mode := range []webhook.Mode{webhook.Live, webhook.Test} {
				if s.Mode == mode || s.Mode == "" {
					p.Accounts[billing.Connected{Mode: string(mode), ID: theirs}] = ours
				}
			}
		}
	}
	return p
}

func planning(c *config.Config) activities.Planning {
	return activities.Planning{
		Onboarding: c.Plans.Onboarding, BookZero: c.Policy.ZeroInvoices == "book", CancelCompensates: c.Policy.Cancel == "compensate",
	}
}

func retries(r config.Retries) effect.Retries {
	return effect.Retries{First: r.First, Max: r.Max, For: r.For}
}

// httpSinks returns the API of each mode.
func (n *Node) httpSinks(name string, s config.HTTPSink) map[string]activities.Sink {
	sinks, client := map[string]activities.Sink{}, activities.NewHTTPClient()
	var refusals []activities.Refusal
	for _, r := range s.Refusals {
		refusals = append(refusals, activities.Refusal{Status: r.Status, Code: r.Code})
	}
	for mode, endpoint := range s.Modes() {
		sinks[mode] = activities.Sink{
			URL: endpoint.URL, Token: endpoint.Token.Value(), Client: client, Refusals: refusals,
			Policy: effect.Policy{Timeout: s.Timeout, Gate: n.gates.of(name, mode), Retries: retries(s.Retries), KeyLifetime: s.KeyLifetime},
		}
	}
	return sinks
}

// mailSinks returns the mail server of each mode.
func (n *Node) mailSinks() map[string]activities.MailSink {
	c, sinks := n.Config, map[string]activities.MailSink{}
	for mode, m := range c.Sinks.Email.Modes() {
		sinks[mode] = activities.MailSink{
			From: m.From, AtLeastOnce: c.Sinks.Email.Guarantee == "at_least_once",
			Mailer: &activities.Mailer{Address: m.Address, TLS: activities.TLSMode(m.TLS), Username: m.Username, Password: m.Password.Value()},
			Policy: effect.Policy{Timeout: c.Sinks.Email.Timeout, Gate: n.gates.of(workflows.SinkMail, mode), Retries: retries(c.Sinks.Email.Retries)},
		}
	}
	return sinks
}

// sinkSettings says how the effects of each sink are to be tried.
func sinkSettings(c *config.Config) map[string]activities.SinkSettings {
	settings := func(timeout time.Duration, effects, owner string) activities.SinkSettings {
		return activities.SinkSettings{Timeout: timeout, ActivityOnly: effects == "activity", Owner: owner}
	}
	w, f, m := c.Sinks.Workspaces, c.Sinks.Finance, c.Sinks.Email
	return map[string]activities.SinkSettings{
		workflows.SinkWorkspaces: settings(w.Timeout, w.Effects, w.Owner),
		workflows.SinkFinance:    settings(f.Timeout, f.Effects, f.Owner),
		workflows.SinkMail:       settings(m.Timeout, m.Effects, m.Owner),
		workflows.SinkStripe:     {Timeout: fetchTimeout},
	}
}

// consumers makes the receiver of the relay's activities.
func (n *Node) consumers(effects *effect.Runner) *activities.Consumers {
	c := &activities.Consumers{
		Effects: effects, Receipts: n.Receipts, Client: activities.NewHTTPClient(), Now: time.Now,
		ByName: map[string]activities.Consumer{}, BySource: Relays(n.Config),
	}
	for name, s := range n.Config.Consumers {
		c.ByName[name] = activities.Consumer{
			URL: s.URL, Keys: s.Keys(), Policy: effect.Policy{Timeout: s.Timeout, Gate: n.gates[workflows.SinkConsumers+":"+name], Retries: retries(s.Retries)},
			Settings: activities.SinkSettings{Timeout: s.Timeout, ActivityOnly: s.Effects == "activity"},
		}
	}
	return c
}

// Relays lists the consumers of each source that relays.
func Relays(c *config.Config) map[string][]string {
	of := map[string][]string{}
	for name, s := range c.Sources {
		of[name] = s.Relay
	}
	return of
}

func subscribers(c *config.Config) []activities.Subscriber {
	var list []activities.Subscriber
	for _, s := range c.Sinks.Subscribers {
		list = append(list, activities.Subscriber{Name: s.Name, URL: s.URL, Token: s.Token.Value(), Timeout: s.Timeout, Types: s.Types})
	}
	return list
}
