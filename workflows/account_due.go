package workflows

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
)

// ClockFlow is the workflow type of the clock's runs.
const ClockFlow = "AccountDue"

// DueInput names an account and since when something is due for it.
type DueInput struct {
	Account string
	At      time.Time
	// Compensated is set if the event's effects were taken back: its receipt stays so.
	Compensated bool `json:",omitempty"`
}

const (
	duePrefix = "due:"
	// dueTime has no colon, which separates the parts of an ID.
	dueTime = "20060102T150405.999999Z"
)

// id is the run's workflow ID: "due:live:acme:20260322T000010Z".
func (d DueInput) id(mode string) string { return bounded(duePrefix + mode + ":" + d.object()) }

func (d DueInput) object() string {
	return printable(d.Account, ":") + ":" + d.At.UTC().Format(dueTime)
}

// DueOf reads the workflow ID of a run of the clock. It returns false for any other run.
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

// planAccountDue is the clock's work for an account: a planned end comes, grace is over, a customer is reminded of an
// open invoice, a person is asked about an object that does not settle. It is planned like the effects of an event, and
// belongs to the receipt of the fact that made it due. Nothing of it can be taken back.
func planAccountDue(c billing.Change, _ activities.Planning) plan {
	follows := slices.ContainsFunc(c.Due, func(d billing.Due) bool {
		return d.Why == billing.DueHold || d.Why == billing.DueRefold ||
			d.Why == billing.DueBook && d.Money.Checkout != nil
	})
	if c.After.Access.Target.Version == c.Before.Access.Target.Version && !follows {
		return plan{}
	}
	if s := workspaceOf(c.Subject, c.After.Access); s != nil { // it stands in for nothing: a refusal parks
		return plan{steps: []*step{s}}
	}
	return plan{}
}

// dueSteps are what the clock does with a change: of a fact whose consequences were due before it came, too. An invoice
// whose failed attempt is told by this event needs no reminder beside it.
func dueSteps(c billing.Change, told string) []*step {
	var steps []*step
	for _, d := range c.Due {
		subject := billing.Subject{
			Provider: d.Cause.Provider, ProviderAccount: d.Cause.ProviderAccount, Mode: c.Subject.Mode,
			EventID: d.Cause.EventID, ReceiptID: d.Cause.ReceiptID, OccurredAt: d.At,
		}
		switch d.Why {
		case billing.DueDunning:
			if d.Object != told {
				steps = append(steps, reminder(subject, d))
			}
		case billing.DueEnd:
			steps = append(steps, endedSteps(c, subject, d.Subscription)...)
		case billing.DueGrace:
			if c.Before.Access.Target.State == billing.WorkspaceActive && d.Subscription != nil {
				steps = append(steps, subscriptionTaken(c, subject, d.Subscription, d.Subscription.Taken())...)
			}
		case billing.DueChanged:
			if d.Subscription != nil {
				steps = append(steps, changed(subject, d.Subscription))
			}
		case billing.DueEnded:
			steps = append(steps, endedSteps(c, subject, d.Subscription)...)
		case billing.DueTaken:
			of := billing.State{Subscription: d.Subscription, Invoice: d.Invoice, Checkout: d.Money.Checkout}
			steps = append(steps, takenFrom(c, subject, of)...)
		case billing.DueHold:
			steps = append(steps, subscriptionTaken(c, subject, d.Subscription, "held")...)
		case billing.DueEnding:
			steps = append(steps, endingSteps(c, subject, d.Subscription, "unpaid")...)
		case billing.DueSettle:
			steps = append(steps, reconcile(subject, c, d, "",
				" was paid for, and no event says that it is active: review it in the provider's dashboard"))
		case billing.DueRenewal:
			steps = append(steps, reconcile(subject, c, d, ":"+strconv.FormatInt(d.At.Unix(), 10),
				" was to be renewed, and no event tells of it: look whether the provider's events come, and review it in its dashboard"))
		case billing.DueAddOn:
			if addsToNothing(c.After.Access, d.Object) {
				steps = append(steps, reconcile(subject, c, d, ":v"+strconv.FormatInt(c.After.Access.Target.Version, 10),
					" adds to a plan that its account does not have, and goes on being charged: end it in the provider's dashboard, or sell a plan beside it"))
			}
		case billing.DueBook:
			steps = append(steps, moneySteps(subject, d.Money)...)
		case billing.DueKeep:
			if s := release(subject, d.Object, c); s != nil {
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// reconcile asks a person to hold a subscription against the provider's, once each time.
func reconcile(subject billing.Subject, c billing.Change, d billing.Due, time, why string) *step {
	return reconcileTask.step(object(subject, d.Object+time), activities.Task{
		Kind: activities.TaskReconcile, Mode: subject.Mode, Account: c.After.Access.Account, Object: d.Object,
		Subscription: d.Object, Title: "Subscription " + d.Object + why,
	})
}

// addsToNothing reports whether a subscription grants features alone, and the account has no plan.
func addsToNothing(access billing.Access, subscription string) bool {
	return access.Target.State == billing.WorkspaceSuspended && slices.ContainsFunc(access.Grants,
		func(g billing.Grant) bool { return g.Object == subscription && g.Plan == "" })
}

// release asks a person to release the workspace of an account that has no access, once each time that it has lost it.
func release(subject billing.Subject, account string, c billing.Change) *step {
	access := c.After.Access
	for _, other := range c.Others {
		if other.Account == account {
			access = other
		}
	}
	if access.Account != account || access.Target.State != billing.WorkspaceSuspended {
		return nil
	}
	of := access.Target.Kept(account)
	return releaseTask.step(object(subject, of), activities.Task{
		Kind: activities.TaskRelease, Mode: subject.Mode, Account: account, Object: of,
		Title: "The workspace of " + account + " was kept since its access ended: release it",
	})
}
