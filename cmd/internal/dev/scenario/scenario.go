package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
)

// Scenario is a sequence of changes in the life of one simulated customer. The help texts of the commands call a
// scenario a story.
type Scenario struct {
	Name string
	// About describes the scenario in one sentence.
	About string
	// Now is the current day when the scenario starts. Steps of earlier days happen at once. A [Player] waits for the
	// time of each later step.
	Now   int
	Steps []Step
	// Needs is the kind of product that the shop must offer in addition to a plan, or empty.
	Needs Need
	// Refuses is the day from which the workspace API refuses the higher plan. 0 means never.
	Refuses int
}

// Step is a change on one day.
type Step struct {
	Day  int
	What string
	// Happens creates the changes at Stripe. It is nil if only scheduled actions run.
	Happens func(*forge.Customer, Shop)
}

// Need is something that not every shop offers.
type Need string

// The needs of scenarios.
const (
	Plans  Need = "plans"
	Yearly Need = "yearly"
	Once   Need = "once"
	// Refusal needs two plans and a workspace API that refuses one of them.
	Refusal Need = "refusal"
	// Names needs a policy under which events wait for the event with the account.
	Names Need = "names"
)

// Shop lists the offers: a low and a high plan by the month, the low plan by the year, and a one-time purchase. A plan
// without a price is not sold.
type Shop struct {
	Low, High, Yearly, Once forge.Plan
	// Waits is set if the events of a new customer wait for an event with the account.
	Waits bool
}

// amounts lists the monthly amounts of the plans.
var amounts = []int64{1900, 4900}

// ShopOf returns the shop with the prices of a configuration.
func ShopOf(c *config.Config) (Shop, error) {
	shop := Shop{Waits: c.Policy.AccountFrom == "named"}
	var plans []forge.Plan
	for _, plan := range c.Plans.Order {
		prices := pricesOf(c, plan, false)
		if len(prices) == 0 || len(plans) == len(amounts) {
			continue
		}
		p := forge.Plan{Name: plan, Price: prices[0], Amount: amounts[len(plans)], Days: 30}
		plans = append(plans, p)
		if len(prices) > 1 {
			shop.Yearly = forge.Plan{Name: plan, Price: prices[1], Amount: 10 * p.Amount, Days: 365}
		}
	}
	if len(plans) == 0 {
		return shop, fmt.Errorf("plans.prices maps no price to a plan: nothing can be subscribed to")
	}
	shop.Low, shop.High = plans[0], plans[len(plans)-1]
	if shop.Low.Name == shop.High.Name {
		shop.High = forge.Plan{}
	}
	for _, plan := range c.Plans.Order {
		if prices := pricesOf(c, plan, true); len(prices) > 0 && shop.Once.Price == "" {
			shop.Once = forge.Plan{Name: plan, Price: prices[0], Amount: 1500,
				Days: int(c.Plans.Prices[prices[0]].For / (24 * time.Hour))}
		}
	}
	return shop, nil
}

// pricesOf lists the one-time prices or the subscription prices of a plan.
func pricesOf(c *config.Config, plan string, once bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Plans.Prices)), func(name string) bool {
		p := c.Plans.Prices[name]
		return p.Plan != plan || (p.For > 0) != once
	})
}

// Lacks returns the missing requirement of the scenario: the shop does not offer it, or the events of the scenario
// cannot be shuffled. It returns "" if nothing is missing.
func (s Scenario) Lacks(shop Shop, storm bool) string {
	switch {
	case (s.Needs == Plans || s.Needs == Refusal) && shop.High.Price == "":
		return "two plans that are sold: map a price to a second one in plans.prices"
	case s.Needs == Yearly && shop.Yearly.Price == "":
		return "a plan with two prices, by the month and by the year: map a second price to it in plans.prices"
	case s.Needs == Once && shop.Once.Price == "":
		return "a price that is bought once: map one with `for` in plans.prices"
	case s.Needs == Refusal && storm:
		return "its order: what stays after a refusal is what the workspace API has taken before; " +
			"leave out --shuffle, --duplicate, --drop and --delay"
	case s.Needs == Names && !shop.Waits:
		return "policy.account_from: named, with which events wait for the one that names their account; " +
			"`pawl dev` alone has customer: run it with a configuration of your own, which `pawl init` writes"
	}
	return ""
}

// Find returns the scenario with this name.
func Find(name string) (Scenario, bool) {
	i := slices.IndexFunc(All, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return All[i], true
}

// Lasts returns how long the scenario takes if one simulated day takes the given time.
func (s Scenario) Lasts(day time.Duration) time.Duration {
	return time.Duration(s.Steps[len(s.Steps)-1].Day-s.Now) * day
}
