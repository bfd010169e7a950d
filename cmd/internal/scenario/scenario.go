package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/cmd/internal/forge"
)

// Scenario is a story of one customer.
type Scenario struct {
	Name string
	// About tells it in a sentence.
	About string
	// Now is the day that is today when the story begins: what comes after it is waited for.
	Now   int
	Steps []Step
	// Needs is what the shop must sell beside a plan, "" for nothing.
	Needs Need
	// Refuses is the day since the workspace API refuses the account the higher plan, 0 for never.
	Refuses int
}

// Step is what happens on a day.
type Step struct {
	Day  int
	What string
	// Happens is what happens at Stripe, nil where only the clock does something.
	Happens func(*forge.Customer, Shop)
}

// Need is something that not every shop sells.
type Need string

// The needs.
const (
	Plans  Need = "plans"
	Yearly Need = "yearly"
	Once   Need = "once"
	// Refusal is two plans, and a workspace API that refuses one.
	Refusal Need = "refusal"
	// Names is that events wait for the one that names their account.
	Names Need = "names"
)

// Shop lists what can be bought: a low and a high plan by the month, the low one by the year, and a plan that is
// bought once. A plan without a price is not sold.
type Shop struct {
	Low, High, Yearly, Once forge.Plan
	// Waits is set where the events of a new customer wait for one that names the account.
	Waits bool
}

// amounts are what plans cost by the month, by their place.
var amounts = []int64{1900, 4900}

// ShopOf returns the shop whose prices a configuration maps.
func ShopOf(c *config.Config) (Shop, error) {
	shop := Shop{Waits: c.Policy.Account == "named"}
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

// pricesOf lists the prices of a plan: those that are bought once, or those of subscriptions.
func pricesOf(c *config.Config, plan string, once bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Plans.Prices)), func(name string) bool {
		p := c.Plans.Prices[name]
		return p.Plan != plan || (p.For > 0) != once
	})
}

// Lacks says what the story needs and does not have here, "" for nothing: a shop does not sell it, or the story is to
// be delivered in a storm.
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
		return "policy.account: named, with which events wait for the one that names their account; " +
			"`pawl dev` alone has customer: run it with a configuration of your own, which `pawl init` writes"
	}
	return ""
}

// Find returns the story of this name.
func Find(name string) (Scenario, bool) {
	i := slices.IndexFunc(All, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return All[i], true
}

// Lasts is how long the story takes where a day lasts so long.
func (s Scenario) Lasts(day time.Duration) time.Duration {
	return time.Duration(s.Steps[len(s.Steps)-1].Day-s.Now) * day
}
