package process

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing/fact"
)

// BillingPolicy returns the billing rules of the configuration.
func BillingPolicy(c *config.Config) fact.Policy {
	dunning := make([]time.Duration, len(c.Policy.Dunning))
	for i, after := range c.Policy.Dunning {
		dunning[i] = c.Lasts(after)
	}
	p := fact.Policy{
		Prices: map[string]fact.Price{}, Accounts: map[fact.Connected]string{},
		Order: c.Plans.Order, Features: c.Plans.Features,
		Grace: c.Lasts(c.Policy.PastDueGrace), Renewal: c.Lasts(c.Policy.RenewalGrace),
		Notice:          c.Lasts(c.Policy.AccessEndingNotice),
		Apart:           c.Lasts(c.Policy.DunningMinInterval),
		EndAtPeriodEnd:  c.Policy.OnSubscriptionEnd == "period_end",
		EndOnFullRefund: c.Policy.FullRefund == "end", HoldOnDispute: c.Policy.Dispute == "hold",
		EndOnLostDispute: c.Policy.DisputeLost == "end",
		GrantOnPayment:   c.Policy.GrantPlanOn == "payment", Dunning: dunning, Settle: c.Settles(),
		Keep: c.Lasts(c.Policy.WorkspaceRetention), LeaveUnknown: c.Policy.OnUnknownPrice == "ignore",
	}
	for name, price := range c.Plans.Prices {
		p.Prices[name] = fact.Price{Plan: price.Plan, AddOn: price.Adds, For: c.Lasts(price.For),
			NoSeats: price.Seats == "none"}
	}
	for _, name := range c.Plans.Ignore {
		p.Prices[name] = fact.Price{NotOurs: true}
	}
	for _, s := range c.Sources {
		for _, mode := range []webhook.Mode{webhook.Live, webhook.Test} {
			if s.Mode != mode && s.Mode != "" {
				continue
			}
			if s.Accounts.Table && !slices.Contains(p.Linked, string(mode)) {
				p.Linked = append(p.Linked, string(mode))
			}
			for theirs, ours := range s.Accounts.Ours {
				p.Accounts[fact.Connected{Mode: string(mode), ID: theirs}] = ours
			}
		}
	}
	return p.Sealed()
}

func planning(c *config.Config) activities.Planning {
	wait := c.Settles()
	if c.Policy.AccountFrom == "customer" {
		wait = 0
	}
	return activities.Planning{
		WaitForName: wait,
		Onboarding:  c.Plans.Onboarding, BookZero: c.Policy.ZeroInvoices == "book",
		CancelCompensates: c.Policy.OnWorkflowCancel == "compensate", SellsOnce: BillingPolicy(c).SellsOnce(),
	}
}
