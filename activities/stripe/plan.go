package stripe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PlanError says that a payload does not tell the plan for sure, or tells two.
type PlanError struct{ Reason string }

func (e *PlanError) Error() string { return e.Reason }

// Purchase is what an invoice paid for, in our words.
type Purchase struct {
	Plan string
	// Start and End bound what was paid for of the plan.
	Start, End time.Time
}

// Purchase returns what was bought: prices maps a price ID, a lookup key or a product ID to a plan; the
// subscription's metadata.plan counts where none is mapped. Among lines of different plans the lowest rank
// decides, and then the later period; a tie is an error, since guessing would grant or withhold. The order
// of lines means nothing. The period is that of the lines which decided: what is sold beside a plan can be
// billed for longer (subscriptions of mixed intervals).
//
// A part of the lines is an error as well. Stripe sorts the prorations before the subscription's own
// lines (API reference, invoice.lines): what decides can be what is missing, and an event cannot be
// asked for the rest. And so are lines that take money back and charge for nothing that comes after: they
// name what was left.
func (p PaidInvoice) Purchase(prices map[string]string) (Purchase, error) {
	if p.Partial {
		return Purchase{}, &PlanError{"lines_incomplete: the event carries only the first of the invoice's lines (lines.has_more), " +
			"which tell neither plan nor period for sure; look at the invoice at Stripe, provide by hand what it bought, then skip the event"}
	}
	if len(p.Lines) > 0 && !slices.ContainsFunc(p.Lines, func(l Line) bool { return !l.credit() }) {
		return Purchase{}, &PlanError{"nothing_bought: the invoice's lines take money back and charge for nothing that comes after, as when a subscription is canceled or " +
			"an item removed with a proration; look at the subscription at Stripe, provide by hand what is left of it, then skip the event"}
	}
	for rank := range ranks {
		bought, found, err := p.mapped(rank, prices)
		if err != nil || found {
			return bought, err
		}
	}
	plan := p.Metadata["plan"]
	if why := Unusable(plan, mostText); why != "" {
		return Purchase{}, &PlanError{"plan_unusable: the subscription's metadata.plan " + why}
	}
	if plan == "" {
		var seen []string
		for _, l := range p.Lines {
			seen = append(seen, l.names()...)
		}
		return Purchase{}, &PlanError{fmt.Sprintf("plan_unknown: none of %s stands in plans.prices, and the subscription has no metadata.plan", list(seen))}
	}
	return Purchase{plan, p.PeriodStart, p.PeriodEnd}, nil
}

// mapped returns what the lines of a rank buy by their prices, and false where none of them is mapped.
func (p PaidInvoice) mapped(rank int, prices map[string]string) (bought Purchase, found bool, err error) {
	var last []Line
	for _, l := range p.Lines {
		if l.rank != rank || l.credit() || firstOf(prices, l.names()...) == "" {
			continue
		}
		if len(last) > 0 && l.End.After(last[0].End) {
			last = nil
		}
		if len(last) == 0 || l.End.Equal(last[0].End) {
			last = append(last, l)
		}
	}
	if len(last) == 0 {
		return Purchase{}, false, nil
	}
	bought.Plan = firstOf(prices, last[0].names()...)
	for _, l := range last {
		if other := firstOf(prices, l.names()...); other != bought.Plan {
			return Purchase{}, false, &PlanError{fmt.Sprintf("plan_ambiguous: the invoice's lines name the plans %s and %s for the same period", bought.Plan, other)}
		}
	}
	if bought.Start, bought.End = span(last); bought.Start.IsZero() || bought.End.IsZero() {
		bought.Start, bought.End = p.PeriodStart, p.PeriodEnd
	}
	return bought, true, nil
}

func (l Line) names() []string {
	var names []string
	for _, n := range []string{l.Price, l.LookupKey, l.Product} {
		if n != "" {
			names = append(names, n)
		}
	}
	return names
}

func firstOf(prices map[string]string, names ...string) string {
	for _, n := range names {
		if plan := prices[n]; n != "" && plan != "" {
			return plan
		}
	}
	return ""
}

// list names what was looked up. It is stored as the reason of a review, and escapes what cannot be.
func list(names []string) string {
	if len(names) == 0 {
		return "the (absent) prices"
	}
	escaped := make([]string, len(names))
	for i, n := range names {
		quoted := strconv.Quote(n)
		escaped[i] = quoted[1 : len(quoted)-1]
	}
	return strings.Join(escaped, ", ")
}
