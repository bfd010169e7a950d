package operator

import (
	"slices"

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Preview is what a verb would do to its target. Nothing was changed to know it.
type Preview struct {
	Verb string `json:"verb"`
	// Receipt is the event's. For an account it is the one that the run of the clock would belong to.
	Receipt timeline.Receipt `json:"receipt"`
	// Says is the preview of a target that is neither an event nor an account.
	Says string `json:"says,omitempty"`
	// Access is what the account that is held or released may use then; nil for an event.
	Access *billing.Access `json:"access,omitempty"`
	// Refused says why the verb would not be taken, and Choices what can be done instead; the rest is then empty.
	Refused string   `json:"refused,omitempty"`
	Choices []Choice `json:"choices,omitempty"`
	workflows.Previewed
	// WaitsFor says what a new run waits for before it is started, "" where it is started at once.
	WaitsFor string `json:"waits_for,omitempty"`
	// FourEyes says why it takes two persons, and whether one has asked for it; "" where one decides.
	FourEyes string `json:"four_eyes,omitempty"`
	// Counts are how many effects each thing happens to, Money what their entries book, by that and currency.
	Counts map[workflows.Will]int `json:"counts"`
	Money  []Sum                  `json:"money"`
}

// Sum is an amount of money in minor units.
type Sum struct {
	Will     workflows.Will `json:"will"`
	Currency string         `json:"currency"`
	Amount   int64          `json:"amount"`
}

// Failed reports whether the verb would be refused.
func (p *Preview) Failed() bool { return p.Refused != "" }

// newPreview returns the preview of a verb about a target before anything is known.
func newPreview(verb string, target any) *Preview {
	p := &Preview{Verb: verb, Previewed: workflows.Previewed{Effects: []workflows.PreviewedEffect{}},
		Counts: map[workflows.Will]int{}, Money: []Sum{}}
	if r, ok := target.(*timeline.Receipt); ok {
		p.Receipt = *r
	}
	return p
}

// count sums up what happens to the effects.
func (p *Preview) count() {
	for _, e := range p.Effects {
		p.Counts[e.Will]++
		if e.Amount != nil {
			p.Money = add(p.Money, Sum{e.Will, e.Currency, *e.Amount})
		}
	}
}

// add adds an amount to its sum.
func add(sums []Sum, one Sum) []Sum {
	i := slices.IndexFunc(sums, func(s Sum) bool { return s.Will == one.Will && s.Currency == one.Currency })
	if i < 0 {
		return append(sums, one)
	}
	sums[i].Amount += one.Amount
	return sums
}
