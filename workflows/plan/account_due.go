package plan

import (
	"slices"
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// AccountDue plans the scheduled actions of an account: a planned end, the end of a grace period, a payment
// reminder, or a task. They belong to the receipt of the fact that caused them, and cannot be compensated.
func AccountDue(c fold.Change, _ activities.Planning) Plan {
	p := Plan{notByEvent: true}
	follows := slices.ContainsFunc(c.Due, func(d fold.Due) bool {
		return d.Kind == fold.DueHold || d.Kind == fold.DueRefold ||
			d.Kind == fold.DueBook && d.Money.Checkout != nil
	})
	if c.After.Access.Target.Version == c.Before.Access.Target.Version && !follows {
		return p
	}
	if s := Workspace(c.Subject, c.After.Access); s != nil { // RefusalUndoesAll is false: a refusal parks the run
		p.Steps = []*Step{s}
	}
	return p
}

// dueSteps returns the effects of the scheduled actions of a change. If a fact arrives late, its actions may be due
// already; dueSteps includes them. notified is an invoice that needs no reminder, because the plan already sends an
// e-mail about it.
func dueSteps(c fold.Change, notified string) []*Step {
	var steps []*Step
	for _, d := range c.Due {
		subject := fact.Subject{
			Provider: d.Cause.Provider, ProviderAccount: d.Cause.ProviderAccount, Mode: c.Subject.Mode,
			EventID: d.Cause.EventID, ReceiptID: d.Cause.ReceiptID, OccurredAt: d.At,
		}
		switch d.Kind {
		case fold.DueDunning:
			switch {
			case d.Object == notified:
			case d.Step == 0:
				steps = append(steps, actionRequired(subject, *d.Invoice))
			default:
				steps = append(steps, reminder(subject, d))
			}
		case fold.DueEnd, fold.DueGrace:
			steps = append(steps, endedSteps(c, subject, d.Subscription)...)
			if c.Before.Access.Target.State == fold.WorkspaceActive && d.Subscription != nil {
				steps = append(steps, subscriptionAccessEnded(c, subject, d.Subscription, d.Subscription.Taken())...)
			}
		case fold.DueChanged:
			if d.Subscription != nil {
				steps = append(steps, changed(subject, d.Subscription))
			}
		case fold.DueHold:
			steps = append(steps, subscriptionAccessEnded(c, subject, d.Subscription, "held")...)
		case fold.DueEnding:
			steps = append(steps, endingSteps(c, subject, d.Subscription, "unpaid")...)
		case fold.DueSettle:
			steps = append(steps, reconcile(subject, c, d, billing.WhileUnsettled, "",
				" is paid, but no event has reported it as active: check it in the provider's dashboard"))
		case fold.DueRenewal:
			steps = append(steps, reconcile(subject, c, d, billing.WhileOverdue, ":"+strconv.FormatInt(d.At.Unix(), 10),
				" was due for renewal, but no event has reported it: check whether events arrive, and check it in the provider's dashboard"))
		case fold.DueAddOn:
			if addsToNothing(c.After.Access, d.Object) {
				version := ":v" + strconv.FormatInt(c.After.Access.Target.Version, 10)
				steps = append(steps, reconcile(subject, c, d, billing.WhileSuspended, version,
					" is an add-on to a plan that the account does not have, and is still charged: cancel it in the provider's dashboard, or sell the account a plan"))
			}
		case fold.DueBook:
			steps = append(steps, moneySteps(subject, d.Money)...)
		case fold.DueKeep:
			if s := release(subject, d.Object, c); s != nil {
				steps = append(steps, s)
			}
		}
	}
	return steps
}
