package workflows

import (
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// Keys of effects: <kind>:<provider>:<mode>[:<connected account>]:<object>. The key of a once effect contains only
// the provider's object. The key of a state effect contains the account and the version of its target.

func object(s fact.Subject, id string) string { return s.Scope() + ":" + id }

func invoiceObject(c fold.Change, id string) string { return object(c.Subject, id) }

// workspaceSteps brings the workspace of the account to its target, and the workspaces of other accounts that have
// changed.
func workspaceSteps(c fold.Change) []*step {
	var steps []*step
	if s := workspaceOf(c.Subject, c.After.Access); s != nil {
		// A customer must not pay for a refused purchase, so a refusal compensates everything. This does not hold for
		// a refused suspension, or for an event without a grant to withhold, such as a customer's link: those park.
		s.refusalUndoesAll = c.After.Access.Target.State == fold.WorkspaceActive &&
			activities.WithholdingOf(c).Object != ""
		steps = append(steps, s)
	}
	for _, other := range c.Others {
		if s := workspaceOf(c.Subject, other); s != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

// workspaceOf returns the step that brings a workspace to its target, or nil if there never was a workspace. The key
// contains the version of the target, so each version is sent once.
func workspaceOf(subject fact.Subject, access fold.Access) *step {
	if access.Target.Version == 0 || access.Account == "" {
		return nil
	}
	of := object(subject, access.Account+":v"+strconv.FormatInt(access.Target.Version, 10))
	s := provisionWorkspace.step(of, activities.WorkspaceOf(subject.Mode, access.Account, access.Target))
	s.then = func(done effect.Result) *step {
		if done.State != effect.Skipped || !done.Unanswered {
			return nil
		}
		// A newer target has superseded this one, and an attempt with this target got no response: it may still
		// arrive, after the newer one. Send the newest target again.
		return alignWorkspace.step(of, activities.WorkspaceRef{Mode: subject.Mode, Account: access.Account})
	}
	return s
}

// planWorkspace plans events that only change access.
func planWorkspace(c fold.Change, _ activities.Planning) plan {
	return plan{steps: workspaceSteps(c)}
}

// planRecord plans events that are only stored. A few of them have effects: one may be the first to name the account,
// or the only one to report that an invoice was paid or that the payment of a checkout session was captured. It then
// has the plan of the event that usually reports this.
func planRecord(c fold.Change, planning activities.Planning) plan {
	switch now, before := c.After.Invoice, c.Before.Invoice; {
	case sold(c.After.Checkout) && !sold(c.Before.Checkout):
		return planCheckoutPaid(c, planning)
	case now != nil && now.Closed() && (before == nil || len(now.PaidSums) > len(before.PaidSums)):
		return planInvoiceClosed(c, planning)
	case now == nil || now.Status != "paid":
	case before == nil || before.Status != "paid":
		return planInvoicePaid(c, planning)
	case len(now.PaidSums) > len(before.PaidSums):
		return plan{steps: append(movedWorkspaces(c), paymentSteps(c)...)}
	}
	return plan{steps: movedWorkspaces(c)}
}

// movedWorkspaces returns the workspace steps if the target of an account has changed, and nil otherwise.
func movedWorkspaces(c fold.Change) []*step {
	if c.After.Access.Target.Version == c.Before.Access.Target.Version && len(c.Others) == 0 {
		return nil
	}
	return workspaceSteps(c)
}
