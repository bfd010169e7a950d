package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/plan"
)

// codeWithheld is the reason code of a run that executed everything except a refused change.
const codeWithheld = "withheld"

// codeProductIgnored is the reason code of a run about a product that plans.ignore lists.
const codeProductIgnored = "product_ignored"

// codeUnknownPrice is the reason code of a run with a price that plans.prices does not contain. The run has executed
// every effect that does not depend on the price.
const codeUnknownPrice = billing.TaskPrice

type billingFlow struct {
	*flow
	plan func(fold.Change, activities.Planning) plan.Plan

	facts []fact.Fact
	// related is the object of a thin event. It is nil for other events.
	related  *activities.Wanted
	planning activities.Planning
	relays   []*step
	// asks is set if the run must open a task to link the event's connected account.
	asks bool
	// fetches is set if the source has an API key to fetch objects. decided lists the steps that applied fetched
	// objects.
	fetches bool
	decided []*plan.Step
	// namesInvoice is set if the event's own facts name the invoice of the change. It is false if only fetched facts
	// name the invoice.
	namesInvoice bool
	// rejected is the reason for the rejection of the reviewed object, or "".
	rejected string
	// waited is the time that the run has already waited for an event that names the customer's account.
	waited time.Duration
}

// run executes a billing event: load the facts, apply them, plan the effects, run the effects.
//
// The apply step runs before all other effects, because the plan depends on its result. If an effect is refused, the
// run also compensates the applied facts, by a fact that withholds the grant.
func (w *billingFlow) run() (EventResult, error) {
	left, err := w.load()
	if err != nil {
		return EventResult{}, err
	}
	if left != (reason{}) {
		w.flow.left = &activities.Left{Code: left.code, Reason: left.text}
		return w.leave(left)
	}
	left, whyUndo, err := w.complete()
	switch {
	case err != nil:
		return EventResult{}, err
	case whyUndo != "":
		return w.takeAllBack(whyUndo)
	case left != (reason{}):
		return w.leave(left)
	}
	apply := newStep(w.apply())
	if whyUndo, err = w.settle(apply); err != nil {
		return EventResult{}, err
	}
	if apply.skipped || whyUndo == "" && apply.result.State == effect.Skipped {
		return w.leave(reason{codeDismissed, "nothing done: " + apply.result.Reason})
	}
	change, err := w.changeOf(apply)
	if err != nil && whyUndo == "" {
		return EventResult{}, err
	}
	var refused string
	if whyUndo, refused, err = w.consequences(change, whyUndo); err != nil {
		return EventResult{}, err
	}
	if whyUndo != "" {
		return w.takeAllBack(whyUndo)
	}
	if due := w.in.Due; due != nil && due.Compensated {
		return w.finish(compensated,
			reason{codeCompensated, "the event was compensated before; its scheduled actions are executed"})
	}
	switch s := change.After.Subscription; {
	case w.rejected != "":
		return w.finish(processed, reason{codeWithheld, w.rejected})
	case refused != "":
		return w.finish(processed, reason{codeWithheld, refused})
	case s != nil && s.Refused && !s.Ended():
		return w.finish(processed, reason{codeWithheld, "the order of " + s.ID + " was refused before"})
	case len(change.Asks()) > 0:
		return w.finish(processed, reason{codeUnknownPrice, "price " +
			strings.Join(change.Asks(), ", ") + " is not in plans.prices: its grant follows once it is mapped"})
	case change.NotOurs():
		return w.finish(processed, reason{codeProductIgnored, "its prices are in plans.ignore, so it has no effects"})
	case w.withholds:
		return w.finish(processed, withheld())
	}
	return w.finish(processed, reason{})
}

// consequences plans the effects of a change, runs them, and opens the review. If whyUndo is set, the run compensates
// the facts, and consequences executes no effect.
func (w *billingFlow) consequences(change fold.Change, whyUndo string) (why, refused string, err error) {
	if whyUndo == "" {
		if change, whyUndo, err = w.applyUnexplained(change); err != nil {
			return "", "", err
		}
	}
	var p plan.Plan
	if w.withholds = w.withholds || change.Silent && !w.releases(); !change.NotOurs() {
		p = w.plan(change, w.planning).With(change)
	}
	steps := newSteps(p.Steps)
	if whyUndo != "" {
		// The run that applied the facts may have executed these effects before it compensated the facts.
		w.begin(steps)
		_, err = w.refreshSteps(steps)
		return whyUndo, "", err
	}
	switch {
	case w.withholds && w.in.Due != nil: // apply-due has recorded it
		return "", "", nil
	case w.withholds:
		return "", "", w.withhold(slices.Concat(steps, newSteps(p.Letters), w.relays), change.After.Access.Account)
	}
	switch why, refused, err = w.do(steps, newSteps(p.Letters), change); {
	case err != nil || why != "":
		return why, refused, err
	case p.Review == nil && !w.irreversible && change.PaidInVain(): // as if the order had been refused in this run
		return "its order was refused before, and nothing is granted", "", nil
	}
	why, err = w.ask(p.Review)
	return why, refused, err
}

// do runs the steps of a plan, and then its e-mails (letters). If the workspace refuses a change of a subscription,
// do withholds the change and runs the other effects. The earlier order stays granted, and the payment stays booked.
// do sends the earlier target again, because the workspace may have applied a part of the refused target.
func (w *billingFlow) do(steps, letters []*step, change fold.Change) (whyUndo, refused string, err error) {
	whyUndo, err = w.settle(append(steps, w.relays...)...)
	s := change.After.Subscription
	switch at := slices.IndexFunc(steps, (*step).refused); {
	case err != nil || whyUndo != "" && (at < 0 || s == nil || !s.FallsBack):
		return whyUndo, "", err
	case whyUndo == "":
		whyUndo, err = w.settle(letters...)
		return whyUndo, "", err
	default:
		refused, steps = whyUndo, slices.Delete(steps, at, at+1)
	}
	of := activities.WithholdingOfChange(change)
	if whyUndo, err = w.settle(newStep(plan.Withhold(w.in.eventObject()+":change", of))); err == nil && whyUndo == "" {
		whyUndo, err = w.settle(append(steps, w.relays...)...)
	}
	return whyUndo, refused, err
}

// leave ends the run without effects, except that it still relays the event to the destinations of its source.
func (w *billingFlow) leave(why reason) (EventResult, error) {
	var steps []*step
	if !w.withholds {
		steps = w.relays
	} else if err := w.withhold(w.relays, ""); err != nil {
		return EventResult{}, err
	}
	if w.asks { // the key is the same for all events of the connected account
		link := plan.AccountTask.Step(w.in.Provider+":"+w.in.Mode+":"+w.in.Account, activities.Task{
			Kind: billing.TaskAccount, Mode: w.in.Mode, Object: w.in.Account,
			Title: "Link connected account " + w.in.Account +
				" to one of your accounts, with pawl accounts link or in the accounts of its source",
		})
		steps = append(steps, newStep(link))
	}
	if _, err := w.settle(steps...); err != nil {
		return EventResult{}, err
	}
	if why.code == activities.CodeAccountNotMapped {
		return w.finish(ignored, why)
	}
	return w.finish(processed, why)
}

// takeAllBack compensates all effects and ends the run as compensated. It still relays the event, because a relay
// cannot be compensated.
func (w *billingFlow) takeAllBack(why string) (EventResult, error) {
	if err := w.compensate(); err != nil {
		return EventResult{}, err
	}
	w.undoing, w.irreversible = false, true
	if w.withholds {
		if err := w.withhold(w.relays, ""); err != nil {
			return EventResult{}, err
		}
	} else if _, err := w.settle(w.relays...); err != nil {
		return EventResult{}, err
	}
	return w.finish(compensated, reason{codeCompensated, why})
}

// load reads the facts of the event. If the event requires a review first, load parks the run. It returns a reason if
// the run must not execute effects: the event is ignored, or a person dismissed it.
func (w *billingFlow) load() (left reason, err error) {
	for {
		var loaded activities.LoadFactsResult
		if err := w.execute(attempt{
			name: "load", activity: billingState.LoadFacts,
			input: activities.LoadFactsInput{Ref: w.in.Ref, Due: w.in.Due != nil},
		}, &loaded); err != nil {
			return reason{}, err
		}
		w.facts, w.planning, w.settings, w.fetches = loaded.Facts, loaded.Planning, loaded.Sinks, loaded.Fetches
		w.asks, w.related, w.paid = loaded.Asks, loaded.Related, loaded.Paid
		w.beforeEffects(loaded.Withhold)
		w.cancelCompensates = loaded.Planning.CancelCompensates
		w.relays = w.deliveries(loaded.Destinations, loaded.Undecided)
		switch {
		case loaded.Ignored:
			return reason{loaded.Code, loaded.Reason}, nil
		case loaded.Code == "" && w.waitsForName(loaded):
			continue
		case loaded.Code == "":
			return reason{}, nil
		}
		if left, err := w.review(reason{loaded.Code, loaded.Reason}); err != nil || left != (reason{}) {
			return left, err
		}
	}
}

// waitsForName pauses if the account of a new customer is still unknown, and reports whether to load the facts again.
// Another event usually reports the account within seconds. After policy.subscription_wait, pawl creates an account for
// the customer.
func (w *billingFlow) waitsForName(loaded activities.LoadFactsResult) (again bool) {
	left := w.planning.WaitForName - w.waited
	if loaded.Unnamed == "" || left <= 0 {
		return false
	}
	next := min(max(w.waited, time.Second), time.Minute, left)
	w.waited += next
	w.show("waits for an event that names the account of customer " + loaded.Unnamed)
	return w.pause(next)
}

// apply returns the step that stores the facts and computes the states of their objects. The step runs once per event.
// A scheduled run has no facts to store.
func (w *billingFlow) apply() *plan.Step {
	if due := w.in.Due; due != nil {
		return plan.ApplyDue.Step(w.in.Provider+":"+w.in.Mode+":"+due.object(), activities.AccountDue{
			Subject: fact.Subject{
				Provider: w.in.Provider, ProviderAccount: w.in.Account, Mode: w.in.Mode,
				EventID: w.in.EventID, EventType: w.in.Type, ReceiptID: w.in.ReceiptID,
			},
			Account: due.Account, At: due.At,
		})
	}
	s := w.applying(w.in.eventObject(), w.facts)
	s.Then = w.decide
	return s
}

// applying returns the step that stores facts. The undo of the step stores another fact, which withholds the grant.
func (w *billingFlow) applying(object string, facts []fact.Fact) *plan.Step {
	s := plan.ApplyFacts.Step(object, activities.Facts{Facts: facts, Withhold: w.withholds, Asks: w.fetches})
	s.Undo = func(done effect.Result) *plan.Step {
		change, ok := plan.Applied(done)
		if !ok {
			return plan.WithholdGrant.Step(w.in.eventObject(), activities.Withholding{})
		}
		object := w.in.eventObject()
		if invoice := change.After.Invoice; invoice != nil {
			object = plan.Object(change.Subject, invoice.ID)
		} else if order := change.After.Checkout; order != nil && order.Sells() {
			object = plan.Object(change.Subject, order.ID)
		}
		return plan.Withhold(object, activities.WithholdingOf(change))
	}
	return s
}

// changeOf returns the change of the apply step. If the run also applied fetched objects, the change covers all these
// steps: from the state before the event to the state after the last fetched fact.
func (w *billingFlow) changeOf(apply *step) (fold.Change, error) {
	change, ok := plan.Applied(apply.result)
	if !ok {
		return change, fmt.Errorf("%s has left no change in the ledger", apply.Key)
	}
	w.namesInvoice = change.After.Invoice != nil
	for _, s := range w.steps {
		if !slices.Contains(w.decided, s.Step) {
			continue
		}
		if decided, ok := plan.Applied(s.result); ok {
			change = change.Decided(decided)
		}
	}
	return change, nil
}

// deliveries returns the steps that relay the event to destinations. The key of a relay contains the event, and not the
// object of the provider: two events about one object are two messages. If two sources relay the event to the same
// destination, the destination gets it once.
func (f *flow) deliveries(destinations, undecided []string) []*step {
	of := f.in
	of.EventID = cmp.Or(of.RelayOf, of.EventID)
	return newSteps(plan.Deliveries(of.eventObject(), destinations, undecided))
}
