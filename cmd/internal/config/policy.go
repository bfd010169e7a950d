package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

// Policy is what billing leaves to you.
type Policy struct {
	// Grace is how long a subscription grants access after it became past due. Stripe retries for two weeks.
	Grace time.Duration `yaml:"grace" default:"21d" min:"0s" zero:"counts"`
	// Notice is how long before the end of the grace the customer is told that access ends.
	Notice time.Duration `yaml:"notice" default:"3d" min:"0s" zero:"counts"`
	// Renewal is how long after a period's end the invoice of the next one may be paid.
	Renewal time.Duration `yaml:"renewal" default:"4d" min:"0s" zero:"counts"`
	// End says until when an ended subscription grants access.
	End string `yaml:"end" default:"at_once" oneof:"at_once period_end"`
	// Cancel is what the cancellation of a run in Temporal does.
	Cancel string `yaml:"cancel" default:"park" oneof:"park compensate"`
	// ZeroInvoices says whether finance gets an entry of 0.
	ZeroInvoices string `yaml:"zero_invoices" default:"ignore" oneof:"ignore book"`
	// FullRefund is what becomes of access when the newest paid invoice is refunded in full.
	FullRefund string `yaml:"full_refund" default:"keep" oneof:"keep end"`
	// Dispute is what becomes of access while a dispute is open.
	Dispute string `yaml:"dispute" default:"keep" oneof:"keep hold"`
	// DisputeLost is what becomes of access when a dispute is lost.
	DisputeLost string `yaml:"dispute_lost" default:"keep" oneof:"keep end"`
	// GrantPlanOn says when a higher plan, or more seats, are granted.
	GrantPlanOn string `yaml:"grant_plan_on" default:"change" oneof:"change payment"`
	// Unknown is what becomes of a price, or of a connected account, that no mapping knows.
	Unknown string `yaml:"unknown" default:"ask" oneof:"ask leave"`
	// Dunning says how long after the first failed attempt the customer is reminded.
	Dunning []time.Duration `yaml:"dunning" default:"0s 3d 7d 14d" min:"0s"`
	// Account says whether a customer of Stripe's that nothing names an account for is one at once, or once
	// it has settled.
	Account string `yaml:"account" default:"named" oneof:"named customer"`
	// Apart is how long after a failed attempt the customer is not reminded.
	Apart time.Duration `yaml:"apart" default:"1d" min:"0s" zero:"counts"`
	// Settle is how long a paid invoice may be all that is known of a subscription.
	Settle time.Duration `yaml:"settle" default:"10m" min:"0s" zero:"counts"`
	// Keep is how long the workspace of an account without access is kept.
	Keep time.Duration `yaml:"keep" default:"30d" min:"0s" zero:"counts"`
	// AutoApply is how many accounts a meaning that only completes the one in force may hit, to switch by itself.
	AutoApply int `yaml:"auto_apply" default:"20" min:"0" zero:"counts"`
	// Reconcile is in what time each account is compared with what the provider says; 0 for never.
	Reconcile time.Duration `yaml:"reconcile" default:"7d" min:"0s" zero:"counts"`
	// Gaps is what becomes of events that never came, by the hour.
	Gaps string `yaml:"gaps" default:"file" oneof:"file report off"`
	// Endpoint says whether the sources' endpoints are looked at, as their providers know them.
	Endpoint string `yaml:"endpoint" default:"watch" oneof:"watch off"`
	// FourEyes is, by currency and in whole units of it, the most that one person decides about. Without any, one
	// person decides about all.
	FourEyes map[string]int `yaml:"four_eyes" min:"0" max:"1000000000"`
	// Letters says who writes them.
	Letters WhoWrites `yaml:"letters"`
}

// WhoWrites says of each kind of letters who sends them: pawl, or Stripe, which can send its own.
type WhoWrites struct {
	Receipt string `yaml:"receipt" default:"pawl" oneof:"pawl stripe"`
	Dunning string `yaml:"dunning" default:"pawl" oneof:"pawl stripe"`
	Trial   string `yaml:"trial" default:"pawl" oneof:"pawl stripe"`
}

// off lists the letters that Stripe sends.
func (w WhoWrites) off() (off []string) {
	for _, kind := range []struct {
		who   string
		names []string
	}{
		{w.Receipt, []string{letters.Receipt}}, {w.Dunning, []string{letters.ActionRequired, letters.Dunning}},
		{w.Trial, []string{letters.TrialEnding}},
	} {
		if kind.who == "stripe" {
			off = append(off, kind.names...)
		}
	}
	return off
}

const day = 24 * time.Hour

// Watches reports whether the endpoint of a source is looked at. Stripe does not list an endpoint of thin events with
// the others.
func (c *Config) Watches(source string) bool {
	s := c.Sources[source]
	return c.Policy.Endpoint == "watch" && s.APIKey.Value() != "" && s.Options["payload"] != "thin"
}

// check checks the order of the steps of dunning, that a share of the accounts is compared each day, and that two
// persons are asked by the names of currencies, and nowhere passed by.
func (p *Policy) check(c *checker, _ string) {
	if every := p.Reconcile; every%day != 0 {
		c.bad("policy.reconcile", "is not in whole days", "write 7d, or 0s for never")
	}
	if len(p.FourEyes) > 0 && p.Cancel == "compensate" {
		c.bad("policy.cancel", "lets one click in Temporal take back what takes two persons (policy.four_eyes)",
			"write park")
	}
	for _, currency := range slices.Sorted(maps.Keys(p.FourEyes)) {
		if len(currency) != 3 || strings.Trim(currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			c.bad("policy.four_eyes."+currency, "is no currency", "write its code in capitals: EUR")
		}
	}
	steps := p.Dunning
	for i := 1; i < len(steps); i++ {
		if steps[i] <= steps[i-1] {
			c.bad(fmt.Sprintf("policy.dunning[%d]", i), "does not come after the step before it",
				"list the steps in their order, each once")
		}
	}
}
