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

// workspaceSteps returns the steps that bring the workspace of the account to its target. It includes the workspaces of
// other accounts if the change affects their targets.
func workspaceSteps(c fold.Change) []*step {
	var steps []*step
	if s := workspaceOf(c.Subject, c.After.Access); s != nil {
		// A customer must not pay for a refused purchase, so a refusal compensates all effects. If the sink refuses a
		// suspension, or if the event grants nothing (for example, it links a customer), the run parks instead.
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
		// A newer target has superseded this target, but an attempt with this target got no response. The workspace may
		// still apply it after the newer target, so send the newest target again.
		return alignWorkspace.step(of, activities.WorkspaceRef{Mode: subject.Mode, Account: access.Account})
	}
	return s
}

// planWorkspace plans events that only change access.
func planWorkspace(c fold.Change, _ activities.Planning) plan {
	return plan{steps: workspaceSteps(c)}
}

// planRecord plans events that usually have no effects. Such an event may be the first to report the account, the
// payment of an invoice, or the capture of a checkout session's payment. It then gets the plan of the event that
// usually reports this.
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
