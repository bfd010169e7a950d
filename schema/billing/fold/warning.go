package fold

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/schema/billing/fact"
)

// Warning is the state of an early fraud warning, computed from its facts: the card issuer suspects a charge as fraud.
type Warning struct {
	// Ref contains the suspected payment. Its other fields are copied from that payment.
	Ref
	Charge string
	Type   string `json:",omitempty"`
	// Actionable is set while a refund may still prevent a dispute.
	Actionable bool
	// Answered is set if the payment is fully refunded or disputed. The provider sends no event of the warning in these
	// cases.
	Answered bool `json:",omitempty"`
}

// WarningOf computes a warning from the facts about it. The last fact applies. After a fact that is not actionable, the
// warning never becomes actionable again.
func WarningOf(id string, facts []fact.Fact) *Warning {
	w := &Warning{Ref: Ref{ID: id}, Actionable: true}
	intent := ""
	for _, f := range fact.InOrder(facts, fact.WarningSeen) {
		seen := f.Warning
		w.Charge, intent = cmp.Or(seen.Charge, w.Charge), cmp.Or(seen.PaymentIntent, intent)
		w.Type, w.Actionable = cmp.Or(seen.Type, w.Type), w.Actionable && seen.Actionable
	}
	w.Payment = cmp.Or(intent, w.Charge)
	return w
}

// Kind implements [Object].
func (*Warning) Kind() Kind { return KindWarning }

// Assign copies the account from the payment. If the payment is unknown, it uses the account of the subscription or the
// customer.
func (w *Warning) Assign(with Related) {
	w.Ref.Assign(with)
	p, i := Find[*Payment](with.Objects, w.Payment), Find[*Invoice](with.Objects, w.Invoice)
	if p == nil {
		return
	}
	disputed := func(d *Dispute) bool { return d.Payment == w.Payment && !d.Warning() }
	w.Answered = p.Amount > 0 && p.Refunded >= p.Amount || i != nil && i.paidBack() ||
		slices.ContainsFunc(Each[*Dispute](with.Objects), disputed)
}

// Tasks implements [Object].
func (w *Warning) Tasks() []Task {
	return []Task{taskWhile(w.Actionable && !w.Answered, TaskWarning, w.Ref,
		fmt.Sprintf("Charge %s is suspected as fraud: refund it, or wait for the dispute", w.Charge))}
}
