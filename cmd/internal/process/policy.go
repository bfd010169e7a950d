package process

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/stripe"
	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/ingress/webhook"
	"github.com/pawlhq/pawl/schema/billing"
)

// FourEyes are the limits of [operator.Operator], nil for none.
func FourEyes(c *config.Config) map[string]int64 {
	if len(c.Policy.FourEyes) == 0 {
		return nil
	}
	limits := map[string]int64{}
	for currency, units := range c.Policy.FourEyes {
		limits[strings.ToLower(currency)] = stripe.Minor(int64(units), currency)
	}
	return limits
}

// BillingPolicy is what the configuration makes of facts.
func BillingPolicy(c *config.Config) billing.Policy {
	dunning := make([]time.Duration, len(c.Policy.Dunning))
	for i, after := range c.Policy.Dunning {
		dunning[i] = c.Lasts(after)
	}
	p := billing.Policy{
		Prices: map[string]billing.Price{}, Accounts: map[billing.Connected]string{},
		Order: c.Plans.Order, Features: c.Plans.Features,
		Grace: c.Lasts(c.Policy.Grace), Renewal: c.Lasts(c.Policy.Renewal), Notice: c.Lasts(c.Policy.Notice),
		Apart:           c.Lasts(c.Policy.Apart),
		EndAtPeriodEnd:  c.Policy.End == "period_end",
		EndOnFullRefund: c.Policy.FullRefund == "end", HoldOnDispute: c.Policy.Dispute == "hold",
		EndOnLostDispute: c.Policy.DisputeLost == "end",
		GrantOnPayment:   c.Policy.GrantPlanOn == "payment", Dunning: dunning, Settle: c.Settles(),
		Keep: c.Lasts(c.Policy.Keep), LeaveUnknown: c.Policy.Unknown == "leave",
	}
	for name, price := range c.Plans.Prices {
		p.Prices[name] = billing.Price{Plan: price.Plan, AddOn: price.Adds, For: c.Lasts(price.For),
			NoSeats: price.Seats == "none"}
	}
	for _, name := range c.Plans.Ignore {
		p.Prices[name] = billing.Price{NotOurs: true}
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
				p.Accounts[billing.Connected{Mode: string(mode), ID: theirs}] = ours
			}
		}
	}
	return p.Sealed()
}

func planning(c *config.Config) activities.Planning {
	wait := c.Settles()
	if c.Policy.Account == "customer" {
		wait = 0
	}
	return activities.Planning{
		WaitForName: wait,
		Onboarding:  c.Plans.Onboarding, BookZero: c.Policy.ZeroInvoices == "book",
		CancelCompensates: c.Policy.Cancel == "compensate",
	}
}
