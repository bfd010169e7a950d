package fact

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Setting is a changed setting of a policy, with its configuration key.
type Setting struct {
	Name string `json:"name"`
	// Was is the value before the change, and Is the value after it. An unset setting is empty.
	Was string `json:"before"`
	Is  string `json:"after"`
}

// Changes returns the settings in which p differs from an earlier policy.
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

// Completes reports whether p changes nothing of an earlier policy and only adds prices, connected accounts and new
// plans.
func (p Policy) Completes(before Policy) bool {
	// Without Features, metadata could select any plan. With Features, metadata can select fewer plans, so the change
	// is more than an addition.
	if len(p.Features) > 0 && len(before.Features) == 0 {
		return false
	}
	plans := slices.Concat(before.Order, slices.Collect(maps.Keys(before.Features)))
	for _, price := range before.Prices {
		plans = append(plans, price.Plan)
	}
	known := func(plan string) bool { return slices.Contains(plans, plan) }
	p.Prices, p.Accounts, p.Features = maps.Clone(p.Prices), maps.Clone(p.Accounts), maps.Clone(p.Features)
	maps.DeleteFunc(p.Prices, func(name string, _ Price) bool { _, has := before.Prices[name]; return !has })
	maps.DeleteFunc(p.Accounts, func(of Connected, _ string) bool { _, has := before.Accounts[of]; return !has })
	maps.DeleteFunc(p.Features, func(plan string, _ []string) bool { return !known(plan) })
	p.Order = slices.DeleteFunc(slices.Clone(p.Order), func(plan string) bool { return !known(plan) })
	return p.Sealed().Hash() == before.Sealed().Hash()
}

// Differing returns the price names, plans and connected accounts in which two policies differ. alone is true if the
// policies are equal in everything else.
func (p Policy) Differing(than Policy) (names, connected []string, alone bool) {
	// If only one policy lists features, metadata can select any plan under the other policy.
	alone = (len(p.Features) == 0) == (len(than.Features) == 0)
	var plans []string
	for _, plan := range slices.Concat(p.Order, than.Order) {
		if slices.Contains(p.Order, plan) != slices.Contains(than.Order, plan) {
			plans = append(plans, plan)
		}
	}
	for _, c := range p.Changes(than) {
		if name, is := strings.CutPrefix(c.Name, "plans.prices."); is {
			names = append(names, name)
		} else if plan, is := strings.CutPrefix(c.Name, "plans.features."); is {
			plans = append(plans, plan)
		} else if account, is := strings.CutPrefix(c.Name, "sources.accounts."); is {
			_, id, _ := strings.Cut(account, "/")
			connected = append(connected, id)
		} else if c.Name != "plans.order" {
			alone = false
		}
	}
	others := func(order []string) []string {
		return slices.DeleteFunc(slices.Clone(order), func(plan string) bool { return slices.Contains(plans, plan) })
	}
	for _, side := range []Policy{p, than} {
		for name, price := range side.Prices {
			if slices.Contains(plans, price.Plan) {
				names = append(names, name)
			}
		}
	}
	alone = alone && slices.Equal(others(p.Order), others(than.Order))
	return Unique(append(names, plans...)), Unique(connected), alone
}

// settings returns each setting of the policy as text.
func (p Policy) settings() map[string]string {
	all := map[string]string{
		"plans.order":                 strings.Join(p.Order, ", "),
		"policy.past_due_grace":       p.Grace.String(),
		"policy.renewal_grace":        p.Renewal.String(),
		"policy.on_subscription_end":  either(p.EndAtPeriodEnd, "period_end", "at_once"),
		"policy.full_refund":          either(p.EndOnFullRefund, "end", "keep"),
		"policy.dispute":              either(p.HoldOnDispute, "hold", "keep"),
		"policy.dispute_lost":         either(p.EndOnLostDispute, "end", "keep"),
		"policy.grant_plan_on":        either(p.GrantOnPayment, "payment", "change"),
		"policy.on_unknown_price":     either(p.LeaveUnknown, "ignore", "open_task"),
		"policy.dunning":              fmt.Sprint(p.Dunning),
		"policy.subscription_wait":    p.Settle.String(),
		"policy.workspace_retention":  p.Keep.String(),
		"policy.access_ending_notice": p.Notice.String(),
		"policy.dunning_min_interval": p.Apart.String(),
	}
	for name, price := range p.Prices {
		says := cmp.Or(price.Plan, "adds "+strings.Join(Unique(price.AddOn), ", "))
		if price.For > 0 {
			says += " for " + price.For.String()
		}
		if price.NoSeats {
			says += " without seats"
		}
		if price.NotOurs {
			says = "another product's"
		}
		all["plans.prices."+name] = says
	}
	for plan, features := range p.Features {
		all["plans.features."+plan] = cmp.Or(strings.Join(Unique(features), ", "), "none")
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
