package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/plan"
)

// A flow fetches an object from the provider if the event does not contain enough data and its source has an API key.
// Fetching is a step like any other: it is retried, it can park the run, and the ledger stores its result. Without an
// API key, pawl uses only the data of the events.

// complete runs before all effects. It fetches the lists that the event contains only in part or not at all. If a list
// cannot be fetched soon, the run continues with the known part: see [activities.Wanted].
//
// A thin event contains no object, so complete fetches the object. If that is impossible, complete returns the reason,
// and the run executes no effect.
func (w *billingFlow) complete() (nothing reason, whyUndo string, err error) {
	if w.related != nil {
		return w.fetchRelated()
	}
	for n, f := range w.facts {
		wanted, of := w.lacks(f)
		if of == "" || !w.fetches {
			continue
		}
		ask := newStep(plan.FetchObject.Step(plan.Object(f.Subject, of), wanted))
		if whyUndo, err = w.settle(ask); err != nil || whyUndo != "" {
			break
		}
		if answer := fetched(ask.result); f.LacksSale() {
			w.facts[n] = f.WithSale(answer)
		} else {
			w.facts = append(w.facts, answer...)
		}
		break
	}
	return reason{}, whyUndo, err
}

// lacks returns the list to fetch for a fact, and the name of the request. The name is "" if no list has to be
// fetched. The lines of a paid invoice or a one-off session are fetched once per object, and the items of a
// subscription once per event. If a charge contains only the sum of its refunds, the refunds are fetched once per
// sum.
func (w *billingFlow) lacks(f fact.Fact) (wanted activities.Wanted, of string) {
	wanted = activities.Wanted{Subject: f.Subject, Kind: f.Kind, Object: f.Object, List: true}
	switch {
	case f.LacksLines(), f.LacksSale() && w.planning.SellsOnce:
		of = f.Object
	case f.LacksItems():
		wanted.Shown, wanted.After, of = &f, f.OccurredAt, f.Object+":items:"+f.EventID
	case f.LacksRefunds():
		wanted.Kind, wanted.Object = fact.RefundSeen, f.Payment.Charge
		of = fmt.Sprintf("%s:refunds:%d", wanted.Object, *f.Payment.Refunded)
	}
	return wanted, of
}

// fetchRelated fetches the object that a thin event names. If the object cannot be fetched, fetchRelated returns the
// reason, and the run executes no effect. A replay tries again to fetch the object.
func (w *billingFlow) fetchRelated() (nothing reason, whyUndo string, err error) {
	ask := newStep(plan.FetchObject.Step(w.in.eventObject(), *w.related))
	if whyUndo, err = w.settle(ask); err != nil || whyUndo != "" {
		return reason{}, whyUndo, err
	}
	if r := w.in.Replay; ask.result.State == effect.Skipped && !ask.skipped && r != nil && r.Request != "" {
		ask = newStep(plan.FetchObject.Step(w.in.eventObject()+":"+r.Request, *w.related))
		if whyUndo, err = w.settle(ask); err != nil || whyUndo != "" {
			return reason{}, whyUndo, err
		}
	}
	if ask.result.State == effect.Skipped {
		return reason{codeDismissed, "nothing done: " + ask.result.Reason}, "", nil
	}
	w.facts = fetched(ask.result)
	return reason{}, "", w.waitForName()
}

// waitForName pauses until another event reports the account of the thin event's object.
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

// decide fetches an object if the facts of the event are not sufficient to determine the state, and returns the step
// that applies the facts of that object.
func (w *billingFlow) decide(done effect.Result) *plan.Step {
	change, ok := plan.Applied(done)
	if !w.fetches || !ok {
		return nil
	}
	ask := cmp.Or(w.askForOrder(change), askForInvoice(change), askForPayment(change))
	if ask == nil {
		return nil
	}
	ask.Then = func(answer effect.Result) *plan.Step {
		return w.applyFetched(w.in.eventObject()+":fetched", fetched(answer))
	}
	return ask
}

// applyFetched returns the step that applies fetched facts, or nil if there are no facts. The facts about each payment
// of an invoice are applied one after the other.
func (w *billingFlow) applyFetched(object string, facts []fact.Fact) *plan.Step {
	if len(facts) == 0 {
		return nil
	}
	n := 1
	for n < len(facts) && (facts[n].Kind != fact.PaymentSeen || facts[n].Object == facts[0].Object) {
		n++
	}
	s := w.applying(object, facts[:n])
	s.Then = func(effect.Result) *plan.Step {
		if n == len(facts) {
			return nil
		}
		return w.applyFetched(w.in.eventObject()+":fetched:"+facts[n].Object, facts[n:])
	}
	w.decided = append(w.decided, s)
	return s
}

// applyUnexplained runs if Stripe does not return the payments of an invoice. It applies the facts again, so that the
// amount in the invoice becomes one payment. It does nothing for an invoice that only fetched facts name: the runs of
// its own events ask for all of its payments.
func (w *billingFlow) applyUnexplained(change fold.Change) (now fold.Change, whyUndo string, err error) {
	if i := change.After.Invoice; i == nil || i.Unexplained == 0 || !w.namesInvoice {
		return change, "", nil
	}
	w.fetches = false
	apply := newStep(w.applying(w.in.eventObject()+":untold", w.facts))
	whyUndo, err = w.settle(apply)
	if decided, ok := plan.Applied(apply.result); ok {
		change = change.Decided(decided)
	}
	return change, whyUndo, err
}

// askForOrder fetches a subscription that changed twice in one second, so that pawl cannot determine the newer state
// from the events.
func (w *billingFlow) askForOrder(change fold.Change) *plan.Step {
	s := change.After.Subscription
	if s == nil || !s.Uncertain {
		return nil
	}
	i := slices.IndexFunc(w.facts,
		func(f fact.Fact) bool { return f.Kind == fact.SubscriptionSeen && f.Object == s.ID })
	if i < 0 {
		return nil
	}
	f := w.facts[i]
	return plan.FetchObject.Step(plan.Object(f.Subject, s.ID+":"+f.EventID),
		activities.Wanted{Subject: f.Subject, Kind: f.Kind, Object: s.ID, After: f.OccurredAt})
}

// askForInvoice fetches the invoice of a payment intent, once per intent, if the payment has succeeded and no event has
// reported the invoice: since API version 2025-03-31.basil, charges do not contain their invoice.
func askForInvoice(change fold.Change) *plan.Step {
	p := change.After.Payment
	if p == nil || !change.AsksInvoice() {
		return nil
	}
	return plan.FetchObject.Step(plan.Object(change.Subject, p.ID),
		activities.Wanted{Subject: change.Subject, Kind: fact.PaymentSeen, Object: p.ID})
}

// askForPayment fetches the payments of an invoice if no event has reported them: since API version 2025-03-31.basil,
// an invoice contains only their sum. It fetches them once per invoice, and again if the sum has grown.
func askForPayment(change fold.Change) *plan.Step {
	if !change.AsksPayment() {
		return nil
	}
	i := change.After.Invoice
	of := i.ID + ":payment"
	if len(i.PaidSums) > 0 && i.Unexplained > 0 {
		of += fmt.Sprintf(":%d", i.Paid)
	}
	return plan.FetchObject.Step(plan.Object(change.Subject, of),
		activities.Wanted{Subject: change.Subject, Kind: fact.PaymentSeen, Object: i.ID, OfInvoice: true})
}

// fetched returns the facts of the fetched object. It returns nil if there is no such object.
func fetched(answer effect.Result) []fact.Fact {
	var object activities.FetchedObject
	_ = json.Unmarshal(answer.Value, &object) // a skipped step has no value
	return object.Facts
}
