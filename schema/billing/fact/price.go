package fact

import (
	"cmp"
	"slices"
	"time"
)

// Bought is the purchased quantity of a price.
type Bought struct {
	Price    string
	Quantity int64 `json:",omitempty"`
}

// Sale is the grant of an object: a plan with its seats, and features.
type Sale struct {
	// Plan is the mapped plan of the prices. It is empty if no price is mapped.
	Plan     string   `json:",omitempty"`
	Quantity int64    `json:",omitempty"`
	AddOns   []string `json:",omitempty"` // features in addition to the plan, sorted, without duplicates
	// Prices lists the mapped prices, sorted and without metered prices. If the plan is unknown, it lists all prices.
	Prices []Bought `json:",omitempty"`
}

// Purchase adds up the items of a subscription or the lines of an invoice.
type Purchase struct {
	Sale
	Start, End time.Time
	// Unknown is an unmapped price. It is set only if no price is mapped to a plan. Asks lists all unmapped prices that
	// open a task. It omits metered prices if there is a plan, because usage grants nothing.
	Unknown string
	Asks    []string
	// ByUse is set if all items of the plan are metered. Such a plan has no quantity that could be the number of seats.
	ByUse bool
	// Lasts is how long the purchase grants access without a subscription. If several lines of the plan have a
	// duration, the longest applies.
	Lasts time.Duration
}

// sold is a line of an invoice, or an item of a subscription, with the entry of its price in the billing rules.
type sold struct {
	Line
	means Price
}

// sold adds the entry of its price to a line. The entry is empty if the line has quantity 0 and no amount, or if the
// price belongs to another product.
func (p Policy) sold(l Line) sold {
	means := p.price(l.Price, l.LookupKey, l.Product)
	if l.None = l.None && l.Amount == 0 || means.NotOurs; l.None {
		return sold{Line: l}
	}
	return sold{l, means}
}

// LinesNotOurs reports whether all mapped lines belong to another product. It returns false if no line is mapped to
// another product.
func (p Policy) LinesNotOurs(lines []Line) (is bool) {
	for _, l := range lines {
		means := p.price(l.Price, l.LookupKey, l.Product)
		if means.Plan != "" || len(means.AddOn) > 0 {
			return false
		}
		is = is || means.NotOurs
	}
	return is
}

// NotOurs reports whether all facts of an event are about another product. It returns false if an event left out lines,
// because those lines may belong to our product.
func (p Policy) NotOurs(facts []Fact) (are bool) {
	for _, f := range facts {
		switch {
		case f.Subscription != nil:
			are = !f.Subscription.Partial && p.LinesNotOurs(f.Subscription.Lines())
		case f.Invoice != nil:
			are = !f.Invoice.Partial && p.LinesNotOurs(f.Invoice.Lines)
		}
		if !are {
			return false
		}
	}
	return are
}

// Lines returns the items of a subscription as lines.
func (s *Subscription) Lines() (list []Line) {
	for _, i := range s.Items {
		list = append(list, Line{
			Price: i.Price, LookupKey: i.LookupKey, Product: i.Product, Quantity: i.Quantity, None: i.None,
			Metered:     i.Metered,
			PeriodStart: i.PeriodStart, PeriodEnd: i.PeriodEnd,
		})
	}
	return list
}

// Purchase returns the sum of the items of a subscription.
func (s *Subscription) Purchase(p Policy) Purchase {
	var list []sold
	for _, l := range s.Lines() {
		list = append(list, p.sold(l))
	}
	if plan := p.plan(s.Plan); plan != "" && len(list) > 0 && !slices.ContainsFunc(list, sold.ofPlan) {
		// The plan in metadata applies if no price is mapped to a plan. Only one item gets that plan, because the
		// quantities of several items would be added up.
		i := slices.IndexFunc(list, func(i sold) bool { return len(i.means.AddOn) == 0 && !i.Metered && !i.None })
		if i < 0 {
			i = slices.IndexFunc(list, func(i sold) bool { return !i.None })
		}
		if i >= 0 {
			list[i].means = Price{Plan: plan}
			b := bought(list, p)
			b.Asks = nil // the plan in metadata covers the whole subscription, so no price needs a mapping
			return b
		}
	}
	return bought(list, p)
}

func (s sold) ofPlan() bool { return s.means.Plan != "" }

// bought adds up lines or items to one purchase. The highest plan applies, with the seats of its items. Metered items
// and items without seats add no seats, but a plan with only metered items has one seat. Items of lower plans add only
// their features. Items with quantity 0 add nothing. The period is the period of the plan's items, or of all items if
// no plan is known.
func bought(list []sold, p Policy) Purchase {
	var b Purchase
	for _, i := range list {
		if p.Compare(i.means.Plan, b.Plan) > 0 {
			b.Plan = i.means.Plan
		}
	}
	for _, i := range list {
		if !i.ofPlan() && !i.None && len(i.means.AddOn) == 0 && i.Price != "" && !(i.Metered && b.Plan != "") {
			b.Asks = append(b.Asks, i.Price)
		}
		b.AddOns = append(b.AddOns, i.means.AddOn...)
		if i.means.Plan != b.Plan {
			b.AddOns = append(b.AddOns, p.Features[i.means.Plan]...)
			b.count(i)
			continue
		}
		if i.PeriodEnd.After(b.End) {
			b.Start, b.End = i.PeriodStart, i.PeriodEnd
		}
		b.Lasts = max(b.Lasts, i.means.For)
		if !i.ofPlan() && !i.None && len(i.means.AddOn) == 0 {
			b.Unknown = cmp.Or(b.Unknown, i.Price)
		}
		b.count(i)
		if i.ofPlan() && !i.Metered && !i.means.NoSeats {
			b.Quantity += i.Quantity
		}
	}
	ofPlan := func(i sold) bool { return i.ofPlan() && i.means.Plan == b.Plan }
	b.ByUse = slices.ContainsFunc(list, ofPlan) &&
		!slices.ContainsFunc(list, func(i sold) bool { return ofPlan(i) && !i.Metered })
	if b.ByUse {
		b.Quantity = 1
	}
	b.AddOns, b.Asks = Unique(b.AddOns), Unique(b.Asks)
	b.Prices = SortedPrices(b.Prices)
	return b
}

// SortedPrices returns the prices sorted by name and quantity.
func SortedPrices(prices []Bought) []Bought {
	prices = slices.Clone(prices)
	slices.SortFunc(prices, func(a, b Bought) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.Quantity, b.Quantity))
	})
	return prices
}

// count adds an item to Prices. It skips an unmapped item if a plan is known.
func (b *Purchase) count(i sold) {
	means := i.ofPlan() || len(i.means.AddOn) > 0
	if !i.Metered && !i.None && (means || b.Plan == "") {
		b.Prices = append(b.Prices, Bought{i.Price, i.Quantity})
	}
}

// PurchaseOf adds up the lines of an invoice for their newest period, and one-off lines that still grant access when
// this period begins. It skips credits, metered lines and lines of another subscription. An invoice without a
// subscription has no periods, so PurchaseOf adds up all of its lines. named is the plan in the metadata of the
// subscription.
func PurchaseOf(lines []Line, subscription, named string, p Policy) Purchase {
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

// soldBy returns the lines with the entries of their prices. If no price is mapped to a plan, the first line in the
// order of [tells] gets the plan in metadata.
func soldBy(lines []Line, subscription, named string, p Policy) (list []sold) {
	for _, l := range lines {
		s := p.sold(l)
		if l.Subscription != "" {
			s.means.For = 0
		}
		if s.means.For > 0 && !l.PeriodStart.IsZero() {
			// A one-off line has no period: its sale is a moment.
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

// tells sorts invoice lines, with the lines that describe the purchase best at the start: lines without proration
// first, then lines with a later end, then lines with a longer period. The order of the lines in the invoice has no
// meaning.
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

// newer reports whether line s, and not line than, determines the period. A line with a known plan takes precedence,
// then the line with the later period.
func (s sold) newer(than sold) bool {
	if s.ofPlan() != than.ofPlan() {
		return s.ofPlan()
	}
	return cmp.Or(s.PeriodStart.Compare(than.PeriodStart), s.PeriodEnd.Compare(than.PeriodEnd)) > 0
}

// Unique returns the values sorted and without duplicates. It returns nil for an empty list.
func Unique(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
