package workflows

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// ClockFlow is the workflow type of runs that execute scheduled actions.
const ClockFlow = "AccountDue"

// DueInput identifies a scheduled run: the account, and the time at which its actions became due.
type DueInput struct {
	Account string
	At      time.Time
	// Compensated is set if the event was compensated before. The status of the receipt then does not change.
	Compensated bool `json:",omitempty"`
}

const (
	duePrefix = "due:"
	// dueTime is the format of the time in a workflow ID. It contains no colon, because colons separate the parts of an
	// ID.
	dueTime = "20060102T150405.999999Z"
)

// id returns the workflow ID of the run, e.g. "due:live:acme:20260322T000010Z".
func (d DueInput) id(mode string) string { return bounded(duePrefix + mode + ":" + d.object()) }

func (d DueInput) object() string {
	return printable(d.Account, ":") + ":" + d.At.UTC().Format(dueTime)
}

// DueOf parses the workflow ID of a scheduled run. It returns false for any other workflow ID.
func DueOf(workflowID string) (*DueInput, bool) {
	parts := strings.Split(workflowID, ":")
	if len(parts) != 4 || parts[0]+":" != duePrefix {
		return nil, false
	}
	account, err := url.PathUnescape(parts[2])
	if err != nil {
		return nil, false
	}
	at, err := time.Parse(dueTime, parts[3])
	return &DueInput{Account: account, At: at}, err == nil
}

// planAccountDue plans the scheduled actions of an account: a planned end, the end of a grace period, a payment
// reminder, or a task. They belong to the receipt of the fact that caused them, and cannot be compensated.
func planAccountDue(c fold.Change, _ activities.Planning) plan {
	follows := slices.ContainsFunc(c.Due, func(d fold.Due) bool {
		return d.Why == fold.DueHold || d.Why == fold.DueRefold ||
			d.Why == fold.DueBook && d.Money.Checkout != nil
	})
	if c.After.Access.Target.Version == c.Before.Access.Target.Version && !follows {
		return plan{}
	}
	if s := workspaceOf(c.Subject, c.After.Access); s != nil { // refusalUndoesAll is false: a refusal parks the run
		return plan{steps: []*step{s}}
	}
	return plan{}
}

// dueSteps returns the effects of the scheduled actions of a change. If a fact arrives late, its actions may be due
// already; dueSteps includes them. notified is an invoice that needs no reminder, because the plan already sends an
// e-mail about it.
func dueSteps(c fold.Change, notified string) []*step {
	var steps []*step
	for _, d := range c.Due {
		subject := fact.Subject{
			Provider: d.Cause.Provider, ProviderAccount: d.Cause.ProviderAccount, Mode: c.Subject.Mode,
			EventID: d.Cause.EventID, ReceiptID: d.Cause.ReceiptID, OccurredAt: d.At,
		}
		switch d.Why {
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

// reconcile returns the step that opens a task to compare a subscription with the provider's data. The key contains
// time, so there is one task per subscription and time.
func reconcile(subject fact.Subject, c fold.Change, d fold.Due, while billing.While, time, why string) *step {
	return reconcileTask.step(object(subject, d.Object+time), activities.Task{
		Kind: activities.TaskReconcile, Mode: subject.Mode, Account: c.After.Access.Account, Object: d.Object,
		Subscription: d.Object, While: while, Title: "Subscription " + d.Object + why,
	})
}

// addsToNothing reports whether a subscription grants only features and the account has no plan.
func addsToNothing(access fold.Access, subscription string) bool {
	return access.Target.State == fold.WorkspaceSuspended && slices.ContainsFunc(access.Grants,
		func(g fold.Grant) bool { return g.Object == subscription && g.Plan == "" })
}

// release returns the step that opens a task to release the workspace of an account without access. A new task is
// opened each time access ends.
func release(subject fact.Subject, account string, c fold.Change) *step {
	access := c.After.Access
	for _, other := range c.Others {
		if other.Account == account {
			access = other
		}
	}
	if access.Account != account || access.Target.State != fold.WorkspaceSuspended {
		return nil
	}
	of := access.Target.Kept(account)
	return releaseTask.step(object(subject, of), activities.Task{
		Kind: activities.TaskRelease, Mode: subject.Mode, Account: account, Object: of,
		While: billing.WhileSuspended,
		Title: "The workspace of " + account + " has been kept since its access ended: release it",
	})
}
