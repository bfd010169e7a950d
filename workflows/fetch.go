package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// A flow asks the provider when an event leaves a question open and its source has an API key. Asking is a step like
// any other: it is tried, retried and parked, and the ledger has its result. If there is no key, or no such object, the
// order of the model decides.

// complete asks for what the event leaves out, before it is told to anybody: the lines of a paid invoice of which it
// carries only the first ones, once for each invoice, whichever event of it comes first; and the refunds of a charge
// that says only what they come to, once for each sum. Of a thin event, it asks for the object that this is about.
func (w *billingFlow) complete() (whyUndo string, err error) {
	if w.related != nil {
		ask := fetchObject.step(w.in.eventObject(), *w.related)
		whyUndo, err := w.settle(ask)
		if w.facts = fetched(ask.result); err == nil && whyUndo == "" {
			err = w.waitForName()
		}
		return whyUndo, err
	}
	i := slices.IndexFunc(w.facts, func(f billing.Fact) bool { return f.LacksLines() || f.LacksRefunds() })
	if i < 0 || !w.fetches {
		return "", nil
	}
	f := w.facts[i]
	wanted, of := activities.Wanted{Subject: f.Subject, Kind: f.Kind, Object: f.Object}, f.Object
	if f.LacksRefunds() {
		wanted.Kind, wanted.Object = billing.RefundSeen, f.Payment.Charge
		of = fmt.Sprintf("%s:refunds:%d", wanted.Object, *f.Payment.Refunded)
	}
	ask := fetchObject.step(object(f.Subject, of), wanted)
	if whyUndo, err := w.settle(ask); err != nil || whyUndo != "" {
		return whyUndo, err
	}
	w.facts = append(w.facts, fetched(ask.result)...)
	return "", nil
}

// waitForName pauses as loading does, while nothing tells whose the object of a thin event is.
func (w *billingFlow) waitForName() error {
	for w.planning.WaitForName > 0 && len(w.facts) > 0 {
		var loaded activities.LoadFactsResult
		err := w.execute(attempt{
			name: "load", activity: billingState.LoadFacts,
			input: activities.LoadFactsInput{Ref: w.in.Ref, Fetched: w.facts},
		}, &loaded)
		if err != nil || !w.waitsForName(loaded) {
			return err
		}
	}
	return nil
}

// decide asks for what applying the event's facts has left open, and applies what comes. It is the event that has
// left it open which asks.
func (w *billingFlow) decide(done effect.Result) *step {
	change, ok := applied(done)
	if !w.fetches || !ok {
		return nil
	}
	ask := cmp.Or(w.askForOrder(change), askForInvoice(change), askForPayment(change))
	if ask == nil {
		return nil
	}
	ask.then = func(answer effect.Result) *step {
		facts := fetched(answer)
		if len(facts) == 0 {
			return nil
		}
		w.decided = w.applying(w.in.eventObject()+":fetched", facts)
		return w.decided
	}
	return ask
}

// askForOrder asks for a subscription whose changes of one second cannot be put in their order.
func (w *billingFlow) askForOrder(change billing.Change) *step {
	s := change.After.Subscription
	if s == nil || !s.Uncertain {
		return nil
	}
	i := slices.IndexFunc(w.facts,
		func(f billing.Fact) bool { return f.Kind == billing.SubscriptionSeen && f.Object == s.ID })
	if i < 0 {
		return nil
	}
	f := w.facts[i]
	return fetchObject.step(object(f.Subject, s.ID+":"+f.EventID),
		activities.Wanted{Subject: f.Subject, Kind: f.Kind, Object: s.ID, After: f.OccurredAt})
}

// askForInvoice asks which invoice a payment intent has paid, where money of it has moved and nothing has told: since
// 2025-03-31.basil its charge does not say so. It is asked once for each.
func askForInvoice(change billing.Change) *step {
	p := change.After.Payment
	if p == nil || !change.AsksInvoice() {
		return nil
	}
	return fetchObject.step(object(change.Subject, p.ID),
		activities.Wanted{Subject: change.Subject, Kind: billing.PaymentSeen, Object: p.ID})
}

// askForPayment asks what a paid invoice was paid by, where nothing has told: since 2025-03-31.basil it does not say
// whether that went through Stripe. It is asked once for each.
func askForPayment(change billing.Change) *step {
	if !change.AsksPayment() {
		return nil
	}
	id := change.After.Invoice.ID
	return fetchObject.step(object(change.Subject, id+":payment"),
		activities.Wanted{Subject: change.Subject, Kind: billing.PaymentSeen, Object: id, OfInvoice: true})
}

// fetched returns the facts that were asked for, none where there is no such object.
func fetched(answer effect.Result) []billing.Fact {
	var object activities.FetchedObject
	_ = json.Unmarshal(answer.Value, &object) // a step that was skipped has no value
	return object.Facts
}
