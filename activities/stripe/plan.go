package stripe

import (
	"fmt"
	"strings"
)

// PlanError says that a payload does not tell the plan, or tells two.
type PlanError struct{ Reason string }

func (e *PlanError) Error() string { return e.Reason }

// Plan returns what was bought in our words: prices maps a price ID, a lookup key or a product ID to
// a plan; the subscription's metadata.plan counts where none is mapped. The later period decides
// between lines of different plans; a tie is an error, since guessing would grant or withhold.
func (p PaidInvoice) Plan(prices map[string]string) (string, error) {
	var plan string
	var best Line
	var seen []string
	for _, l := range p.Lines {
		mapped := firstOf(prices, l.Price, l.LookupKey, l.Product)
		seen = append(seen, l.names()...)
		switch {
		case mapped == "" || mapped == plan:
		case plan == "" || l.End.After(best.End) || l.End.Equal(best.End) && best.Amount < 0 && l.Amount >= 0:
			plan, best = mapped, l
		case l.End.Equal(best.End) && l.Amount >= 0:
			return "", &PlanError{fmt.Sprintf("plan_ambiguous: the invoice's lines name the plans %s and %s for the same period", plan, mapped)}
		}
	}
	if plan == "" {
		plan = p.Metadata["plan"]
	}
	if plan == "" {
		return "", &PlanError{fmt.Sprintf("plan_unknown: none of %s stands in plans.prices, and the subscription has no metadata.plan", list(seen))}
	}
	return plan, nil
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

func list(names []string) string {
	if len(names) == 0 {
		return "the (absent) prices"
	}
	return strings.Join(names, ", ")
}
