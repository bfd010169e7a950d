package billing

import (
	"cmp"
	"slices"
	"time"
)

// purchase is what the items of a subscription, or the lines of an invoice, come to.
type purchase struct {
	plan       string
	quantity   int64
	addOns     []string // sorted, without duplicates
	start, end time.Time
	// unknown is a price that no mapping knows, where no price is mapped to a plan.
	unknown string
}

// bought returns what items come to. The highest plan counts, with the seats of all items of it that are not metered.
// The others add their features. The period is that of the plan's items, of all items where no plan is known.
func bought(items []Item, p Policy) purchase {
	var b purchase
	for _, i := range items {
		if p.Compare(i.Plan, b.plan) > 0 {
			b.plan = i.Plan
		}
	}
	for _, i := range items {
		b.addOns = append(b.addOns, i.AddOn...)
		if i.Plan != b.plan {
			b.addOns = append(b.addOns, p.Features[i.Plan]...)
			continue
		}
		if i.PeriodEnd.After(b.end) {
			b.start, b.end = i.PeriodStart, i.PeriodEnd
		}
		switch {
		case i.Plan == "" && len(i.AddOn) == 0 && b.unknown == "":
			b.unknown = i.Price
		case i.Plan != "" && !i.Metered:
			b.quantity += i.Quantity
		}
	}
	b.addOns = set(b.addOns)
	return b
}

// boughtByLines returns what the lines of an invoice come to: those of its newest period, and what was bought beside
// them that is not over when it begins. What takes back, what was used before (metered), and what belongs to another
// subscription does not count. Without a subscription there are no periods: all lines count.
func boughtByLines(lines []Line, subscription string, p Policy) purchase {
	var counting []Line
	var newest Line
	for _, l := range lines {
		if l.Credit || l.Metered || l.Subscription != "" && l.Subscription != subscription {
			continue
		}
		counting = append(counting, l)
		if l.newer(newest) {
			newest = l
		}
	}
	var items []Item
	for _, l := range counting {
		if subscription == "" || l.PeriodStart.Equal(newest.PeriodStart) || l.Plan == "" && l.PeriodEnd.After(newest.PeriodStart) {
			items = append(items, Item{Price: l.Price, Plan: l.Plan, AddOn: l.AddOn, Quantity: l.Quantity, PeriodStart: l.PeriodStart, PeriodEnd: l.PeriodEnd})
		}
	}
	return bought(items, p)
}

// newer reports whether a line is the one that says the period: one of a known plan before all others, then the later.
func (l Line) newer(than Line) bool {
	if known := l.Plan != ""; known != (than.Plan != "") {
		return known
	}
	return cmp.Or(l.PeriodStart.Compare(than.PeriodStart), l.PeriodEnd.Compare(than.PeriodEnd)) > 0
}

// grantsFor returns how long what was bought outside of any subscription grants: the longest of the plan's lines, of
// all lines where there is no plan.
func grantsFor(lines []Line, plan string) time.Duration {
	var longest time.Duration
	for _, l := range lines {
		if l.Plan == plan && !l.Credit {
			longest = max(longest, l.For)
		}
	}
	return longest
}

// set returns values sorted and without duplicates, nil for none.
func set(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
