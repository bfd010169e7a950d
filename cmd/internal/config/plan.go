package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Plans describes the plans, and the prices that buy them.
type Plans struct {
	// Prices says what a price ID, lookup key or product ID means.
	Prices map[string]Price `yaml:"prices"`
	// Ignore lists prices and products that belong to something else than our plans.
	Ignore []string `yaml:"ignore"`
	// Features lists what a plan enables; its keys are the plans there are.
	Features map[string][]string `yaml:"features"`
	// Order lists the plans, lowest first. One plan alone needs none.
	Order []string `yaml:"order"`
	// Onboarding lists the plans whose customers get an onboarding task.
	Onboarding []string `yaml:"onboarding"`
}

// Price is what a price means. In the file it is the name of a plan, or these.
type Price struct {
	Plan string `yaml:"plan"`
	// Adds lists the features that a price without a plan adds to a subscription.
	Adds []string `yaml:"adds"`
	// For is how long a price that is paid once grants its plan; zero for a price of subscriptions.
	For time.Duration `yaml:"for" min:"0s"`
	// Seats says whether its quantity counts the seats of the plan.
	Seats string `yaml:"seats" oneof:"quantity none"`
}

// UnmarshalText reads the name of a plan.
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
			c.bad(key, fmt.Sprintf("%q is a plan without features", plan), fix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Prices)) {
		price, key := p.Prices[name], "plans.prices."+name
		switch {
		case price.Plan != "" && len(price.Adds) > 0:
			c.bad(key, "has a plan, and adds features", "write a plan, or what it adds to the plan of another price")
		case price.Plan == "" && len(price.Adds) == 0:
			c.bad(key, "means nothing", "write a plan, or {adds: [FEATURE]}")
		case price.Plan == "" && price.Seats != "":
			c.bad(key+".seats", "is of a price without a plan, which counts no seats", "leave it out")
		case price.Plan != "":
			known(key, price.Plan)
		}
	}
	for i, name := range p.Ignore {
		if _, mapped := p.Prices[name]; mapped {
			c.bad(fmt.Sprintf("plans.ignore[%d]", i), fmt.Sprintf("%q has a meaning in plans.prices", name),
				"leave it out here, or there")
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
			c.bad("plans.order", "is missing", "list the plans, the lowest first, since who has two gets the highest; by name they are "+strings.Join(plans, ", "))
		}
		if !slices.Contains(p.Order, plan) {
			c.bad("plans.order", fmt.Sprintf("does not tell where %q stands", plan),
				"list every plan, the lowest first")
		}
	}
}
