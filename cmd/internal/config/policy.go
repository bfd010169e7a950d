package config

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/activities/letters"
)

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
			c.bad(key, "does not come after the step before it", "list the steps in their order, each once")
		}
	}
	c.oneOf("policy.letters.receipt", p.Letters.Receipt, "pawl", "stripe")
	c.oneOf("policy.letters.dunning", p.Letters.Dunning, "pawl", "stripe")
	c.oneOf("policy.letters.trial", p.Letters.Trial, "pawl", "stripe")
	c.oneOf("policy.full_refund", p.FullRefund, "keep", "end")
	c.oneOf("policy.dispute", p.Dispute, "keep", "hold")
	c.oneOf("policy.dispute_lost", p.DisputeLost, "keep", "end")
}
