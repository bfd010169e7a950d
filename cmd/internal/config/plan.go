package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

// Plans says what is sold.
type Plans struct {
	// Prices says what a price ID, lookup key or product ID means.
	Prices map[string]Price `yaml:"prices"`
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
	For time.Duration `yaml:"for"`
}

// UnmarshalText reads the name of a plan.
func (p *Price) UnmarshalText(text []byte) error {
	p.Plan = string(text)
	return nil
}

// Policy is what billing leaves to you.
type Policy struct {
	// Grace is how long a subscription grants access after it became past due; default 21d.
	Grace time.Duration `yaml:"grace"`
	// Renewal is how long after a period's end the invoice of the next one may be paid; default 4d.
	Renewal time.Duration `yaml:"renewal"`
	// End is "at_once" (default) or "period_end": until when an ended subscription grants access.
	End string `yaml:"end"`
	// Cancel is "park" (default) or "compensate": what the cancellation of a run in Temporal does.
	Cancel string `yaml:"cancel"`
	// ZeroInvoices is "ignore" (default) or "book": whether finance gets an entry of 0.
	ZeroInvoices string `yaml:"zero_invoices"`
	// FullRefund is "keep" (default) or "end": what becomes of access when the newest paid invoice is refunded in full.
	FullRefund string `yaml:"full_refund"`
	// Dispute is "keep" (default) or "hold": what becomes of access while a dispute is open.
	Dispute string `yaml:"dispute"`
	// DisputeLost is "keep" (default) or "end": what becomes of access when a dispute is lost.
	DisputeLost string `yaml:"dispute_lost"`
	// GrantPlanOn is "change" (default) or "payment": when a higher plan, or more seats, are granted.
	GrantPlanOn string `yaml:"grant_plan_on"`
	// Dunning says how long after the first failed attempt the customer is reminded; default 0d, 3d, 7d, 14d.
	Dunning []time.Duration `yaml:"dunning"`
	// Settle is how long a paid invoice may be all that is known of a subscription; default 10m.
	Settle time.Duration `yaml:"settle"`
	// Keep is how long the workspace of an account without access is kept; default 30d.
	Keep time.Duration `yaml:"keep"`
	// Letters says who writes them.
	Letters WhoWrites `yaml:"letters"`
}

// WhoWrites says of each kind of letters who sends them: "pawl" (default), or "stripe", which can send its own.
type WhoWrites struct {
	Receipt string `yaml:"receipt"`
	Dunning string `yaml:"dunning"`
	Trial   string `yaml:"trial"`
}

// off lists the letters that Stripe sends.
func (w WhoWrites) off() (off []string) {
	for _, kind := range []struct {
		who   string
		names []string
	}{
		{w.Receipt, []string{letters.Receipt}}, {w.Dunning, []string{letters.ActionRequired, letters.Dunning}}, {w.Trial, []string{letters.TrialEnding}},
	} {
		if kind.who == "stripe" {
			off = append(off, kind.names...)
		}
	}
	return off
}

const day = 24 * time.Hour

func (p *Plans) setDefaults() {
	if len(p.Features) == 1 && p.Order == nil {
		p.Order = slices.Collect(maps.Keys(p.Features))
	}
}

func (p *Policy) setDefaults() {
	or(&p.Grace, 21*day) // Stripe retries for two weeks
	or(&p.Renewal, 4*day)
	or(&p.End, "at_once")
	or(&p.Cancel, "park")
	or(&p.ZeroInvoices, "ignore")
	or(&p.GrantPlanOn, "change")
	if p.Dunning == nil {
		p.Dunning = []time.Duration{0, 3 * day, 7 * day, 14 * day}
	}
	or(&p.Settle, 10*time.Minute)
	or(&p.Keep, 30*day)
	or(&p.Letters.Receipt, "pawl")
	or(&p.Letters.Dunning, "pawl")
	or(&p.Letters.Trial, "pawl")
	or(&p.FullRefund, "keep")
	or(&p.Dispute, "keep")
	or(&p.DisputeLost, "keep")
}

func (c *checker) policy() {
	p := c.cfg.Policy
	c.positive("policy.grace", p.Grace)
	c.positive("policy.renewal", p.Renewal)
	c.oneOf("policy.end", p.End, "at_once", "period_end")
	c.oneOf("policy.cancel", p.Cancel, "park", "compensate")
	c.oneOf("policy.zero_invoices", p.ZeroInvoices, "ignore", "book")
	c.oneOf("policy.grant_plan_on", p.GrantPlanOn, "change", "payment")
	c.positive("policy.settle", p.Settle)
	c.positive("policy.keep", p.Keep)
	for i, after := range p.Dunning {
		key := fmt.Sprintf("policy.dunning[%d]", i)
		c.positive(key, after)
		if i > 0 && after <= p.Dunning[i-1] {
			c.bad(key, fmt.Sprintf("%s does not come after the step before it", after), "list the steps in their order, each once")
		}
	}
	c.oneOf("policy.letters.receipt", p.Letters.Receipt, "pawl", "stripe")
	c.oneOf("policy.letters.dunning", p.Letters.Dunning, "pawl", "stripe")
	c.oneOf("policy.letters.trial", p.Letters.Trial, "pawl", "stripe")
	c.oneOf("policy.full_refund", p.FullRefund, "keep", "end")
	c.oneOf("policy.dispute", p.Dispute, "keep", "hold")
	c.oneOf("policy.dispute_lost", p.DisputeLost, "keep", "end")
}

func (c *checker) plans() {
	p := c.cfg.Plans
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
		case price.Plan != "":
			known(key, price.Plan)
		}
		c.noDuplicates(key+".adds", price.Adds)
		c.positive(key+".for", price.For)
	}
	for i, plan := range p.Onboarding {
		known(fmt.Sprintf("plans.onboarding[%d]", i), plan)
	}
	c.noDuplicates("plans.onboarding", p.Onboarding)
	for _, plan := range plans {
		c.noDuplicates("plans.features."+plan, p.Features[plan])
	}
	for i, plan := range p.Order {
		known(fmt.Sprintf("plans.order[%d]", i), plan)
	}
	c.noDuplicates("plans.order", p.Order)
	for _, plan := range plans {
		if len(p.Order) == 0 {
			c.bad("plans.order", "is missing", "list the plans, the lowest first: who has two gets the highest, as in order: ["+strings.Join(plans, ", ")+"]")
		}
		if !slices.Contains(p.Order, plan) {
			c.bad("plans.order", fmt.Sprintf("does not tell where %q stands", plan),
				"list every plan, the lowest first")
		}
	}
}
