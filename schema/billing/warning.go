package billing

import (
	"cmp"
	"fmt"
)

// Warning is what the facts about an early fraud warning fold to: a card's issuer suspects a charge.
type Warning struct {
	// Ref names the payment that is suspected; the rest is the payment's.
	Ref
	Charge string
	Type   string `json:",omitempty"`
	// Actionable is set while a refund may still keep a dispute away.
	Actionable bool
}

// FoldWarning makes a warning of the facts about it: the last counts, and what nothing can be done about stays so.
func FoldWarning(id string, facts []Fact) *Warning {
	w := &Warning{Ref: Ref{ID: id}, Actionable: true}
	intent := ""
	for _, f := range InOrder(facts, WarningSeen) {
		seen := f.Warning
		w.Charge, intent = cmp.Or(seen.Charge, w.Charge), cmp.Or(seen.PaymentIntent, intent)
		w.Type, w.Actionable = cmp.Or(seen.Type, w.Type), w.Actionable && seen.Actionable
	}
	w.Payment = cmp.Or(intent, w.Charge)
	return w
}

func (*Warning) kind() kind { return kindWarning }

func (w *Warning) tasks() []settledTask {
	return []settledTask{taskWhile(w.Actionable, TaskWarning, w.Ref,
		fmt.Sprintf("Charge %s is suspected as fraud: refund it, or wait for the dispute", w.Charge))}
}
