package decide

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/money"
	"github.com/pawlhq/pawl/schema/pending"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Preview describes the consequence of a decision. Computing it changes nothing.
type Preview struct {
	Verb string `json:"verb"`
	// Receipt is the receipt of the event that the decision is about. For a decision about an account, it is the
	// receipt of the run that the decision starts.
	Receipt timeline.Receipt `json:"receipt"`
	// Message describes the consequence for a target that is neither an event nor an account.
	Message string `json:"message,omitempty"`
	// Access is the access after the decision. It is nil if the decision cannot change access, as for an event.
	Access *fold.Access `json:"access,omitempty"`
	// Refused is the reason if the verb would be refused, and Choices are the alternatives. All other fields are then
	// empty.
	Refused string   `json:"refused,omitempty"`
	Choices []Choice `json:"choices,omitempty"`
	// Requested is set if it would be refused because you requested the decision, and another person must confirm it.
	Requested bool `json:"requested,omitempty"`
	// Consequences describe the decision for people: the customer, the money, the e-mails, and whether the decision can
	// be undone. It is nil for verbs without such a description.
	Consequences []Consequence `json:"consequences,omitempty"`
	workflows.Previewed
	// WaitsFor is the reason why a new run starts later. It is empty if the run starts at once.
	WaitsFor string `json:"waits_for,omitempty"`
	// Warning is a reason to check the decision once more. It is empty if there is no such reason.
	Warning string `json:"warning,omitempty"`
	// FourEyes is set if the decision needs two people. It also reports whether the first person has requested the
	// decision.
	FourEyes string `json:"four_eyes,omitempty"`
	// Pending is the decision of the first person that you can confirm.
	Pending *pending.Decision `json:"pending,omitempty"`
	// Rules lists the changes if the decision activates other billing rules. It is nil for any other decision.
	Rules *RulesPreview `json:"rules,omitempty"`
	// Counts holds the number of effects by forecast. Money holds the sums of their entries by forecast and currency.
	Counts map[workflows.Will]int `json:"counts"`
	Money  []Sum                  `json:"money"`
}

// Consequence describes one consequence of a decision. About is its subject, such as "customer".
type Consequence struct {
	About string `json:"about"`
	Text  string `json:"text"`
}

// RulesPreview lists the changes that other billing rules make: the settings, and the accounts.
type RulesPreview struct {
	Settings []fact.Setting `json:"settings"`
	// Affected is the number of affected accounts. Accounts lists the first of them, the most important changes first.
	Affected int               `json:"affected"`
	Accounts []AffectedAccount `json:"accounts"`
}

// AffectedAccount is an account that other billing rules affect.
type AffectedAccount struct {
	Mode    string `json:"mode"`
	Account string `json:"account"`
	// Change is the kind of change in words. Before and After are the access. They are equal if the access stays.
	Change string `json:"change"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Sum is an amount of money in minor units.
type Sum struct {
	Will     workflows.Will `json:"forecast"`
	Currency string         `json:"currency"`
	Amount   int64          `json:"amount"`
}

// Failed reports whether the verb would be refused.
func (p *Preview) Failed() bool { return p.Refused != "" }

// newPreview returns an empty preview of a verb.
func newPreview(verb string, target any) *Preview {
	p := &Preview{Verb: verb, Previewed: workflows.Previewed{Effects: []workflows.PreviewedEffect{}},
		Counts: map[workflows.Will]int{}, Money: []Sum{}}
	if r, ok := target.(*timeline.Receipt); ok {
		p.Receipt = *r
	}
	return p
}

// Count adds the effects to Counts and Money.
func (p *Preview) Count() {
	for _, e := range p.Effects {
		p.Counts[e.Will]++
		if e.Amount != nil {
			p.Money = AddSum(p.Money, Sum{e.Will, e.Currency, *e.Amount})
		}
	}
}

// AddSum adds an amount to its sum.
func AddSum(sums []Sum, one Sum) []Sum {
	i := slices.IndexFunc(sums, func(s Sum) bool { return s.Will == one.Will && s.Currency == one.Currency })
	if i < 0 {
		return append(sums, one)
	}
	sums[i].Amount = schema.Plus(sums[i].Amount, one.Amount)
	return sums
}

// InputOf returns the input of the event's run.
func InputOf(r *timeline.Receipt) workflows.EventInput {
	return workflows.EventInput{Ref: event.Ref{
		ReceiptID: r.ID, Provider: r.Provider, Account: r.Account, Mode: r.Mode,
		EventID: r.EventID, RelayOf: r.RelayOf, Type: r.Type, ObjectID: r.ObjectID, Correlation: r.CorrelationID,
	}}
}

// Sums formats sums of money in minor units, by currency. It returns "" if there are no sums.
func Sums(amounts map[string]int64) string {
	var sums []string
	for _, currency := range slices.Sorted(maps.Keys(amounts)) {
		sums = append(sums, money.Format(amounts[currency], currency))
	}
	return strings.Join(sums, " + ")
}
