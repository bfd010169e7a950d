package billing

import (
	"cmp"
	"slices"
	"time"
)

// Bought is how much of a price is bought.
type Bought struct {
	Price    string
	Quantity int64 `json:",omitempty"`
}

// Sale is what was sold, and what an object grants while it grants at all.
type Sale struct {
	// Plan is what the prices are mapped to, "" where no mapping knows any of them.
	Plan     string   `json:",omitempty"`
	Quantity int64    `json:",omitempty"`
	AddOns   []string `json:",omitempty"` // features beside the plan's, sorted, without duplicates
	// Prices are those with a meaning, sorted, without metered ones; of an unknown plan, all.
	Prices []Bought `json:",omitempty"`
}

// purchase is what the items of a subscription, or the lines of an invoice, come to.
type purchase struct {
	Sale
	start, end time.Time
	// unknown is a price that no mapping knows, where no price is mapped to a plan. asks are all that no mapping knows,
	// but for metered ones beside a plan: use grants nothing.
	unknown string
	asks    []string
	// lasts is how long it grants outside of any subscription: the longest of the plan's lines.
	lasts time.Duration
}

// sold is a line of an invoice, or an item of a subscription, with the meaning of its price.
type sold struct {
	Line
	means Price
}

// sold returns a line with its meaning. A price at quantity 0 means nothing, unless it costs something, and
// neither does one that is not ours.
func (p Policy) sold(l Line) sold {
	means := p.meaning(l.Price, l.LookupKey, l.Product)
	if l.None = l.None && l.Amount == 0 || means.NotOurs; l.None {
		return sold{Line: l}
	}
	return sold{l, means}
}

// notOurs reports whether lines are of another product: some are, and none has a meaning.
func (p Policy) notOurs(lines []Line) (is bool) {
	for _, l := range lines {
		means := p.meaning(l.Price, l.LookupKey, l.Product)
		if means.Plan != "" || len(means.AddOn) > 0 {
			return false
		}
		is = is || means.NotOurs
	}
	return is
}

// NotOurs reports whether the facts of one event tell of another product, and of nothing else.
func (p Policy) NotOurs(facts []Fact) (are bool) {
	for _, f := range facts {
		switch {
		case f.Subscription != nil:
			are = p.notOurs(f.Subscription.lines())
		case f.Invoice != nil:
			are = p.notOurs(f.Invoice.Lines)
		}
		if !are {
			return false
		}
	}
	return are
}

// lines are the items of a subscription.
func (s *SubscriptionFact) lines() (list []Line) {
	for _, i := range s.Items {
		list = append(list, Line{
			Price: i.Price, LookupKey: i.LookupKey, Product: i.Product, Quantity: i.Quantity, None: i.None,
			Metered:     i.Metered,
			PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd,
		})
	}
	return list
}

// purchase returns what a subscription's items come to.
func (s *SubscriptionFact) purchase(p Policy) purchase {
	var list []sold
	for _, l := range s.lines() {
		list = append(list, p.sold(l))
	}
	if plan := p.plan(s.Plan); plan != "" && len(list) > 0 && !slices.ContainsFunc(list, sold.ofPlan) {
		// Metadata counts where no price is mapped to a plan, and for one item: the quantities of several would be
		// summed.
		i := slices.IndexFunc(list, func(i sold) bool { return len(i.means.AddOn) == 0 && !i.Metered && !i.None })
		if i < 0 {
			i = slices.IndexFunc(list, func(i sold) bool { return !i.None })
		}
		if i >= 0 {
			list[i].means = Price{Plan: plan}
			b := bought(list, p)
			b.asks = nil // metadata tells what the whole is
			return b
		}
	}
	return bought(list, p)
}

func (s sold) ofPlan() bool { return s.means.Plan != "" }

// bought sums up list as one purchase. The highest plan counts, with the seats of all items of it that are not
// metered, nor without seats. The others add their features; those at quantity 0 add nothing. The period is that of the
// plan's items, of all items where no plan is known.
func bought(list []sold, p Policy) purchase {
	var b purchase
	for _, i := range list {
		if p.Compare(i.means.Plan, b.Plan) > 0 {
			b.Plan = i.means.Plan
		}
	}
	for _, i := range list {
		if !i.ofPlan() && !i.None && len(i.means.AddOn) == 0 && i.Price != "" && !(i.Metered && b.Plan != "") {
			b.asks = append(b.asks, i.Price)
		}
		b.AddOns = append(b.AddOns, i.means.AddOn...)
		if i.means.Plan != b.Plan {
			b.AddOns = append(b.AddOns, p.Features[i.means.Plan]...)
			b.count(i)
			continue
		}
		if i.PeriodEnd.After(b.end) {
			b.start, b.end = i.PeriodStart, i.PeriodEnd
		}
		b.lasts = max(b.lasts, i.means.For)
		if !i.ofPlan() && !i.None && len(i.means.AddOn) == 0 {
			b.unknown = cmp.Or(b.unknown, i.Price)
		}
		b.count(i)
		if i.ofPlan() && !i.Metered && !i.means.NoSeats {
			b.Quantity += i.Quantity
		}
	}
	b.AddOns, b.asks = set(b.AddOns), set(b.asks)
	b.Prices = sorted(b.Prices)
	return b
}

func sorted(prices []Bought) []Bought {
	prices = slices.Clone(prices)
	slices.SortFunc(prices, func(a, b Bought) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Quantity, b.Quantity))
	})
	return prices
}

// count adds an item to the prices. One without a meaning counts where no plan is known.
func (b *purchase) count(i sold) {
	means := i.ofPlan() || len(i.means.AddOn) > 0
	if !i.Metered && !i.None && (means || b.Plan == "") {
		b.Prices = append(b.Prices, Bought{i.Price, i.Quantity})
	}
}

// boughtByLines sums up the lines of an invoice's newest period, and the one-off purchases that last beyond its
// beginning. Credits, metered lines and lines of another subscription do not count. An invoice outside of any
// subscription has no periods: all of its lines count. named is the plan that the subscription's metadata names.
func boughtByLines(lines []Line, subscription, named string, p Policy) purchase {
	var counting []sold
	var newest sold
	for _, l := range soldBy(lines, subscription, p.plan(named), p) {
		if l.Credit || l.Metered || l.Subscription != "" && l.Subscription != subscription {
			continue
		}
		counting = append(counting, l)
		if l.newer(newest) {
			newest = l
		}
	}
	if subscription != "" {
		counting = slices.DeleteFunc(counting, func(l sold) bool {
			return !l.PeriodStart.Equal(newest.PeriodStart) && (l.ofPlan() || !l.PeriodEnd.After(newest.PeriodStart))
		})
	}
	return bought(counting, p)
}

// soldBy returns lines with the meaning of their prices. If no price is mapped to a plan, the plan that metadata
// names goes to the subscription's first line by [tells].
func soldBy(lines []Line, subscription, named string, p Policy) (list []sold) {
	for _, l := range lines {
		s := p.sold(l)
		if l.Subscription != "" {
			s.means.For = 0
		}
		if s.means.For > 0 && !l.PeriodStart.IsZero() {
			// A one-off line has the moment of the sale as its period.
			s.PeriodEnd = l.PeriodStart.Add(s.means.For)
		}
		list = append(list, s)
	}
	if named == "" || subscription == "" || slices.ContainsFunc(list, sold.ofPlan) {
		return list
	}
	best := -1
	for n, l := range list {
		if l.Subscription != subscription || l.Credit || l.Metered || l.None || len(l.means.AddOn) > 0 {
			continue
		}
		if best < 0 || tells(l.Line, list[best].Line) < 0 {
			best = n
		}
	}
	if best >= 0 {
		list[best].means.Plan = named
	}
	return list
}

// tells puts the line first that is better evidence of the purchase: one that is no proration, then one that ends
// later, then one of a longer period. The order of an invoice's lines means nothing.
func tells(a, b Line) int {
	if a.Proration != b.Proration {
		if b.Proration {
			return -1
		}
		return 1
	}
	return cmp.Or(b.PeriodEnd.Compare(a.PeriodEnd), a.PeriodStart.Compare(b.PeriodStart),
		cmp.Compare(a.Price, b.Price), cmp.Compare(b.Quantity, a.Quantity))
}

// newer reports whether a line is the one that says the period: one of a known plan before all others, then the later.
func (s sold) newer(than sold) bool {
	if s.ofPlan() != than.ofPlan() {
		return s.ofPlan()
	}
	return cmp.Or(s.PeriodStart.Compare(than.PeriodStart), s.PeriodEnd.Compare(than.PeriodEnd)) > 0
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
