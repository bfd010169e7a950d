package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// plan is what follows from a change: effects that run side by side, and a review for a person once they are done.
// Making one is a pure function of the change and of the policy that was loaded with it.
type plan struct {
	steps []*step
	// letters tell what holds once the steps are done: none of them is sent where what they tell of was refused.
	letters []*step
	// told is the invoice whose newest failed attempt a letter tells, "" for none.
	told   string
	review *review
}

// with adds what follows from a change whichever flow it is of. A letter that access was taken is none of the clock's,
// which knows why, nor of a reconciliation's, which mails nothing.
func (p plan) with(c billing.Change, flow string) plan {
	p.steps = slices.Concat(p.steps, bookings(c), dueSteps(c, p.told))
	if flow != ClockFlow && flow != ReconciledFlow {
		p.steps = append(p.steps, takenSteps(c)...)
	}
	return p
}

// codeWithheld is the code of a run that did all but the change that was refused.
const codeWithheld = "withheld"

// codeNotOurs is the code of a run about another product.
const codeNotOurs = "not_ours"

// codeUnknownPrice is the code of a run that did all that does not depend on what a price means.
const codeUnknownPrice = billing.TaskPrice

// review asks a person to review an object, once for each object, whichever event completes the reason for it.
type review struct {
	object string
	reason reason
}

type billingFlow struct {
	*flow
	plan func(billing.Change, activities.Planning) plan

	facts []billing.Fact
	// related is the object that a thin event is about, nil for any other event.
	related  *activities.Wanted
	planning activities.Planning
	relays   []*step
	// asks is set where a person is asked about the event's connected account.
	asks bool
	// fetches is set where objects can be asked for; decided is the step that applied one, nil for none.
	fetches bool
	decided *step
	// waited is how long the run has waited for the account of its customer to be named.
	waited time.Duration
}

// run is the way of every billing event: load its facts, apply them, plan what follows, settle that.
//
// Applying comes first and alone: it is one transaction in our own database, and the other effects follow from its
// result. If those are refused, applying is taken back as well: by a fact that says so.
func (w *billingFlow) run() (EventResult, error) {
	left, err := w.load()
	if err != nil {
		return EventResult{}, err
	}
	if left != (reason{}) {
		w.flow.left = &activities.Left{Code: left.code, Why: left.text}
		return w.leave(left)
	}
	whyUndo, err := w.complete()
	if err != nil {
		return EventResult{}, err
	}
	if whyUndo != "" {
		return w.takeAllBack(whyUndo)
	}
	apply := w.apply()
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
			reason{codeCompensated, "what the event had done was taken back before; what is due is done"})
	}
	switch {
	case refused != "":
		return w.finish(processed, reason{codeWithheld, refused})
	case change.After.Subscription != nil && len(change.After.Subscription.Asks) > 0:
		return w.finish(processed, reason{codeUnknownPrice, "waits for the meaning of price " +
			strings.Join(change.After.Subscription.Asks, ", ") + " in plans.prices: what it gives follows by itself"})
	case change.NotOurs():
		return w.finish(processed, reason{codeNotOurs, "its prices are in plans.ignore: nothing follows"})
	}
	return w.finish(processed, reason{})
}

// consequences plans the effects of a change, does them, and has a person review it. Nothing is done where
// whyUndo says why the facts are taken back.
func (w *billingFlow) consequences(change billing.Change, whyUndo string) (why, refused string, err error) {
	var p plan
	if !change.Silent && !change.NotOurs() {
		p = w.plan(change, w.planning).with(change, w.name)
	}
	if whyUndo != "" {
		// The run that applied the facts may have done the effects since, before it took the facts back.
		w.begin(p.steps)
		_, err = w.refreshSteps(p.steps)
		return whyUndo, "", err
	}
	if why, refused, err = w.do(p, change); err != nil || why != "" {
		return why, refused, err
	}
	why, err = w.ask(p.review)
	return why, refused, err
}

// do runs a plan. A change of a subscription that was refused is withheld, and all else is done: the subscription's
// earlier grant stays, and so does its payment. The workspace is told its target anew, since it may have taken a part.
func (w *billingFlow) do(p plan, change billing.Change) (whyUndo, refused string, err error) {
	whyUndo, err = w.settle(append(p.steps, w.relays...)...)
	gaveBefore := change.Before.Subscription.Gave() || slices.ContainsFunc(w.facts, billing.Fact.GaveBefore)
	switch at := slices.IndexFunc(p.steps, (*step).refused); {
	case err != nil || whyUndo != "" && (at < 0 || !gaveBefore):
		return whyUndo, "", err
	case whyUndo == "":
		whyUndo, err = w.settle(p.letters...)
		return whyUndo, "", err
	default:
		refused, p.steps = whyUndo, slices.Delete(p.steps, at, at+1)
	}
	of := activities.WithholdingOfChange(change)
	if whyUndo, err = w.settle(withholding(w.in.eventObject()+":change", of)); err == nil && whyUndo == "" {
		whyUndo, err = w.settle(append(p.steps, w.relays...)...)
	}
	return whyUndo, refused, err
}

// leave ends a run that does nothing itself. The event is delivered to the consumers of its source all the same.
func (w *billingFlow) leave(why reason) (EventResult, error) {
	steps := w.relays
	if w.asks { // once for all of its events
		steps = append(steps, accountTask.step(w.in.Provider+":"+w.in.Mode+":"+w.in.Account, activities.Task{
			Kind: billing.TaskAccount, Mode: w.in.Mode, Object: w.in.Account,
			Title: "Say which account of yours the connected account " + w.in.Account +
				" is: pawl accounts link, or the accounts of its source",
		}))
	}
	if _, err := w.settle(steps...); err != nil {
		return EventResult{}, err
	}
	if why.code == activities.CodeAccountNotMapped {
		return w.finish(ignored, why)
	}
	return w.finish(processed, why)
}

// takeAllBack ends a run as compensated. Deliveries to consumers cannot be taken back, and are still owed.
func (w *billingFlow) takeAllBack(why string) (EventResult, error) {
	if err := w.compensate(); err != nil {
		return EventResult{}, err
	}
	w.undoing, w.irreversible = false, true
	if _, err := w.settle(w.relays...); err != nil {
		return EventResult{}, err
	}
	return w.finish(compensated, reason{codeCompensated, why})
}

// load reads what the event says, and parks for as long as a person must review it first. It returns a reason where
// the event is left alone: it is not for us, or a person decided so.
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
		w.asks, w.related = loaded.Asks, loaded.Related
		w.cancelCompensates = loaded.Planning.CancelCompensates
		w.relays = w.deliveries(loaded.Consumers)
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

// waitsForName pauses while nothing tells the account of a new customer, and reports whether to load the facts again.
// An event that names it is on its way as a rule; after policy.settle the customer is an account of its own.
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

// apply is the step that appends the facts and folds what they are about. It is done once for each event; two events
// that tell the same leave two facts, and the second changes nothing. For what the clock does, there are no facts to
// append.
func (w *billingFlow) apply() *step {
	if due := w.in.Due; due != nil {
		return applyDue.step(w.in.Provider+":"+w.in.Mode+":"+due.object(), activities.AccountDue{
			Subject: billing.Subject{
				Provider: w.in.Provider, ProviderAccount: w.in.Account, Mode: w.in.Mode,
				EventID: w.in.EventID, EventType: w.in.Type, ReceiptID: w.in.ReceiptID,
			},
			Account: due.Account, At: due.At,
		})
	}
	s := w.applying(w.in.eventObject(), w.facts)
	s.then = w.decide
	return s
}

// applying is the step that appends facts; where what follows from them cannot be had, it is undone by a fact.
func (w *billingFlow) applying(object string, facts []billing.Fact) *step {
	s := applyFacts.step(object, activities.Facts{Facts: facts})
	s.undo = func(done effect.Result) *step {
		change, ok := applied(done)
		if !ok {
			return withholdGrant.step(w.in.eventObject(), activities.Withholding{})
		}
		object := w.in.eventObject()
		if invoice := change.After.Invoice; invoice != nil {
			object = invoiceObject(change, invoice.ID)
		} else if order := change.After.Checkout; order != nil && order.Sells() {
			object = invoiceObject(change, order.ID)
		}
		return withholding(object, activities.WithholdingOf(change))
	}
	return s
}

// withholding takes a grant back, and brings the workspace to the target without it.
func withholding(object string, of activities.Withholding) *step {
	s := withholdGrant.step(object, of)
	s.then = func(done effect.Result) *step {
		after, ok := applied(done)
		if !ok || after.Subject.EventID == "" {
			return nil
		}
		return workspaceOf(after.Subject, after.After.Access)
	}
	return s
}

// changeOf returns the change that applying made. If a fetched fact has decided a question that the event left open,
// the change goes from the state before the event to the state after that fact.
func (w *billingFlow) changeOf(apply *step) (billing.Change, error) {
	change, ok := applied(apply.result)
	if !ok {
		return change, fmt.Errorf("%s has left no change in the ledger", apply.key)
	}
	if w.decided != nil {
		if decided, ok := applied(w.decided.result); ok {
			return change.Decided(decided), nil
		}
	}
	return change, nil
}

// applied is the change that a step of [billing.Apply] or [billing.ApplyDue] came to, false where it has recorded none.
func applied(r effect.Result) (change billing.Change, ok bool) {
	err := json.Unmarshal(r.Value, &change)
	return change, err == nil
}

// ask opens the review that a plan asks for, and waits until a person has decided: approve and skip let things stand,
// reject and compensate return a reason to take everything back; see [AtEnd]. A review that another event of the object
// has opened is that one's to wait for; one that was answered, before a replay, is not asked again.
func (w *billingFlow) ask(r *review) (whyUndo string, err error) {
	if r == nil {
		return "", nil
	}
	task := activities.Task{Kind: activities.TaskReview, Mode: w.in.Mode, Object: r.object, Title: r.reason.text}
	open, answered := reviewTask.step(r.object, task), closeReview.step(r.object, task)
	if whyUndo, err := w.settle(open); err != nil || whyUndo != "" || open.skipped || open.result.By != "" {
		return whyUndo, err
	}
	if w.in.Replay != nil && open.result.State == effect.AlreadyDone {
		if _, err := w.refreshSteps([]*step{answered}); err != nil {
			return "", err
		}
		if answered.settled() {
			w.begin([]*step{answered})
			return "", nil
		}
	}
	w.settling, w.takes = nil, []string{UpdateApprove, UpdateSkip}
	if !w.irreversible {
		w.takes = append(w.takes, UpdateReject, UpdateCompensate)
	}
	d, err := w.park(needsReview, r.reason)
	if err != nil {
		return "", err
	}
	if whyUndo, err := w.follow(d, nil); err != nil || whyUndo != "" {
		return whyUndo, err
	}
	return w.settle(answered)
}

// deliveries are the steps that relay the event to the consumers of its source. Their keys name the event and not the
// provider's object: two events about one object are two messages. A consumer of two sources that both want the event
// gets it once.
func (f *flow) deliveries(consumers []string) []*step {
	of := f.in
	of.EventID = cmp.Or(of.RelayOf, of.EventID)
	var steps []*step
	for _, name := range consumers {
		s := relayEvent.step(of.eventObject()+":"+name, activities.Delivery{Consumer: name})
		s.sink = SinkConsumers + ":" + name
		steps = append(steps, s)
	}
	return steps
}
