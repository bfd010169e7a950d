package stripe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PlanError says that a payload does not tell the plan for sure, or tells two.
type PlanError struct{ Reason string }

func (e *PlanError) Error() string { return e.Reason }

// Plan returns what was bought in our words: prices maps a price ID, a lookup key or a product ID to
// a plan; the subscription's metadata.plan counts where none is mapped. Between lines of different
// plans one that charges decides before one that takes money back, and then the later period; a tie
// is an error, since guessing would grant or withhold. The order of lines means nothing.
//
// A part of the lines is an error as well. Stripe sorts the prorations before the subscription's own
// lines (API reference, invoice.lines): what decides can be what is missing, and an event cannot be
// asked for the rest. And so are lines that only take money back: they name what was left.
func (p PaidInvoice) Plan(prices map[string]string) (string, error) {
	if p.Partial {
		return "", &PlanError{"lines_incomplete: the event carries only the first of the invoice's lines (lines.has_more), " +
			"which tell neither plan nor period for sure; look at the invoice at Stripe, provide by hand what it bought, then skip the event"}
	}
	if len(p.Lines) > 0 && !slices.ContainsFunc(p.Lines, func(l Line) bool { return !l.credit() }) {
		return "", &PlanError{"nothing_bought: all that the invoice's lines do is take money back, as when a subscription is canceled or " +
			"an item removed with a proration; look at the subscription at Stripe, provide by hand what is left of it, then skip the event"}
	}
	var plan, other string
	var best Line
	var seen []string
	for _, l := range p.Lines {
		mapped := firstOf(prices, l.Price, l.LookupKey, l.Product)
		seen = append(seen, l.names()...)
		switch {
		case mapped == "":
		case plan == "" || best.yields(l):
			plan, other, best = mapped, "", l
		case mapped != plan && !l.yields(best):
			other = mapped
		}
	}
	if other != "" {
		return "", &PlanError{fmt.Sprintf("plan_ambiguous: the invoice's lines name the plans %s and %s for the same period", plan, other)}
	}
	if plan == "" {
		plan = p.Metadata["plan"]
		if why := Unusable(plan, mostText); why != "" {
			return "", &PlanError{"plan_unusable: the subscription's metadata.plan " + why}
		}
	}
	if plan == "" {
		return "", &PlanError{fmt.Sprintf("plan_unknown: none of %s stands in plans.prices, and the subscription has no metadata.plan", list(seen))}
	}
	return plan, nil
}

// yields reports whether the other line decides before l.
func (l Line) yields(to Line) bool {
	if l.credit() != to.credit() {
		return l.credit()
	}
	return l.End.Before(to.End)
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
