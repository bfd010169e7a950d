package plan

import (
	"slices"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// restOfLists returns a step that opens a task for an object if a missing part of its list may grant something.
func restOfLists(c fold.Change) (steps []*Step) {
	ask := func(account, id, subscription string, while billing.While, what string) {
		steps = append(steps, ReconcileTask.Step(Object(c.Subject, id+":list"), activities.Task{
			Kind: activities.TaskReconcile, Mode: c.Subject.Mode, Account: account, Object: id,
			Subscription: subscription, While: while,
			Title: what + " " + id + " has more items than its events contain, and they were not fetched: set an api_key " +
				"with read permission on its source, then run pawl reconcile",
		}))
	}
	if s := c.After.Subscription; s != nil && s.Partial && s.Granting() && !s.NotOurs {
		ask(s.Account, s.ID, s.ID, billing.WhilePartial, "Subscription")
	}
	if i := c.After.Invoice; i != nil && i.Cut && !i.NotOurs {
		ask(i.Account, i.ID, "", "", "Invoice")
	}
	return steps
}

// reconcile returns the step that opens a task to compare a subscription with the provider's data. The key contains
// time, so there is one task per subscription and time.
func reconcile(subject fact.Subject, c fold.Change, d fold.Due, while billing.While, time, why string) *Step {
	return ReconcileTask.Step(Object(subject, d.Object+time), activities.Task{
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
func release(subject fact.Subject, account string, c fold.Change) *Step {
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
	return ReleaseTask.Step(Object(subject, of), activities.Task{
		Kind: activities.TaskRelease, Mode: subject.Mode, Account: account, Object: of,
		While: billing.WhileSuspended,
		Title: "The workspace of " + account + " has been kept since its access ended: release it",
	})
}
