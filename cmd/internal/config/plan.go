package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Plans configures the plans and the prices that buy them.
type Plans struct {
	// Prices maps price IDs, lookup keys and product IDs to plans and features.
	Prices map[string]Price `yaml:"prices"`
	// Ignore lists prices and products that do not belong to your plans.
	Ignore []string `yaml:"ignore"`
	// Features lists the features of each plan. Its keys are the plans.
	Features map[string][]string `yaml:"features"`
	// Order lists the plans, lowest first. It may be omitted for a single plan.
	Order []string `yaml:"order"`
	// Onboarding lists the plans with an onboarding task for new customers.
	Onboarding []string `yaml:"onboarding"`
}

// Price maps a price. In the file it is the name of a plan, or a mapping of keys.
type Price struct {
	Plan string `yaml:"plan"`
	// Adds lists the features that a price without a plan adds to a subscription.
	Adds []string `yaml:"adds"`
	// For is how long a one-off price grants its plan. Zero means a subscription price.
	For time.Duration `yaml:"for" min:"0s"`
	// Seats defines whether the quantity counts the seats of the plan.
	Seats string `yaml:"seats" oneof:"quantity none"`
}

// UnmarshalText parses the name of a plan.
func (p *Price) UnmarshalText(text []byte) error {
	p.Plan = string(text)
	return nil
}

func (p *Plans) setDefaults() {
	if len(p.Features) == 1 && p.Order == nil {
		p.Order = slices.Collect(maps.Keys(p.Features))
	}
}

func (p *Plans) check(c *checker, _ string) {
	plans := slices.Sorted(maps.Keys(p.Features))
	known := func(key, plan string) {
		fix := "add it to plans.features"
		if len(plans) > 0 {
			fix += ", or use one of " + strings.Join(plans, ", ")
		}
		if !slices.Contains(plans, plan) {
			c.bad(key, fmt.Sprintf("plan %q is not in plans.features", plan), fix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		price, key := p.Prices[name], "plans.prices."+name
		switch {
		case price.Plan != "" && len(price.Adds) > 0:
			c.bad(key, "has both a plan and added features", "write either plan or adds")
		case price.Plan == "" && len(price.Adds) == 0:
			c.bad(key, "has no plan and no features", "write a plan, or {adds: [FEATURE]}")
		case price.Plan == "" && price.Seats != "":
			c.bad(key+".seats", "is not allowed for a price without a plan, which has no seats", "remove it")
		case price.Plan != "":
			known(key, price.Plan)
		}
	}
	for i, name := range p.Ignore {
		if _, mapped := p.Prices[name]; mapped {
			c.bad(fmt.Sprintf("plans.ignore[%d]", i), fmt.Sprintf("%q is also in plans.prices", name),
				"remove it here or there")
		}
	}
	for i, plan := range p.Onboarding {
		known(fmt.Sprintf("plans.onboarding[%d]", i), plan)
	}
	for i, plan := range p.Order {
		known(fmt.Sprintf("plans.order[%d]", i), plan)
	}
	for _, plan := range plans {
		if len(p.Order) == 0 {
			c.bad("plans.order", "is missing", "list the plans, lowest first: an account with two plans gets the highest. By name they are "+strings.Join(plans, ", "))
		}
		if !slices.Contains(p.Order, plan) {
			c.bad("plans.order", fmt.Sprintf("does not contain %q", plan),
				"list every plan, lowest first")
		}
	}
}
