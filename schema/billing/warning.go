package billing

import "cmp"

// Warning is what the facts about an early fraud warning fold to: a card's issuer suspects a charge.
type Warning struct {
	ID string
	// Owner is its payment's.
	Owner
	Charge        string
	PaymentIntent string `json:",omitempty"`
	Type          string `json:",omitempty"`
	// Actionable is set while a refund may still keep a dispute away.
	Actionable bool
	Because    string `json:",omitempty"`
}

// Payment names the payment that is suspected.
func (w Warning) Payment() string { return cmp.Or(w.PaymentIntent, w.Charge) }

// FoldWarning makes a warning of the facts about it: the last counts, and what nothing can be done about stays so.
func FoldWarning(id string, facts []Fact) Warning {
	w := Warning{ID: id, Actionable: true}
	for _, f := range InOrder(facts, WarningSeen) {
		seen := f.Warning
		w.Charge, w.PaymentIntent = cmp.Or(seen.Charge, w.Charge), cmp.Or(seen.PaymentIntent, w.PaymentIntent)
		w.Type, w.Actionable, w.Because = cmp.Or(seen.Type, w.Type), w.Actionable && seen.Actionable, f.EventID
	}
	return w
}

var writeWarningSQL = upsert("fraud_warnings", "account", "payment", "invoice", "subscription", "customer", "actionable", "state")
