package billing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Setting is one thing that a policy says, by the name that configuration has for it.
type Setting struct {
	Name string `json:"name"`
	// Was and Is are "" where it is not set.
	Was string `json:"was"`
	Is  string `json:"is"`
}

// Changes returns what a policy says otherwise than one before it.
func (p Policy) Changes(since Policy) (changes []Setting) {
	was, is := since.settings(), p.settings()
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			changes = append(changes, Setting{name, was[name], is[name]})
		}
	}
	return changes
}

// settings says each thing that a policy says, in words.
func (p Policy) settings() map[string]string {
	all := map[string]string{
		"plans.order": strings.Join(p.Order, ", "), "policy.grace": p.Grace.String(),
		"policy.renewal": p.Renewal.String(), "policy.end": either(p.EndAtPeriodEnd, "period_end", "at_once"),
		"policy.full_refund":   either(p.EndOnFullRefund, "end", "keep"),
		"policy.dispute":       either(p.HoldOnDispute, "hold", "keep"),
		"policy.dispute_lost":  either(p.EndOnLostDispute, "end", "keep"),
		"policy.grant_plan_on": either(p.GrantOnPayment, "payment", "change"),
		"policy.dunning":       fmt.Sprint(p.Dunning), "policy.settle": p.Settle.String(),
		"policy.keep": p.Keep.String(),
	}
	for name, price := range p.Prices {
		says := cmp.Or(price.Plan, "adds "+strings.Join(set(price.AddOn), ", "))
		if price.For > 0 {
			says += " for " + price.For.String()
		}
		all["plans.prices."+name] = says
	}
	for plan, features := range p.Features {
		all["plans.features."+plan] = cmp.Or(strings.Join(set(features), ", "), "none")
	}
	for theirs, ours := range p.Accounts {
		all["sources.accounts."+theirs.Mode+"/"+theirs.ID] = ours
	}
	return all
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
