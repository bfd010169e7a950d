package workflows

import (
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// The keys of effects: <kind>:<provider>:<mode>[:<connected account>]:<object>. A once effect names the provider's
// object alone; a state effect the account and the version of its target.

func object(s billing.Subject, id string) string { return s.Scope() + ":" + id }

func invoiceObject(c billing.Change, id string) string { return object(c.Subject, id) }

// workspaceSteps bring the workspaces of the account to its target, and of the other accounts where something has
// moved.
func workspaceSteps(c billing.Change) []*step {
	var steps []*step
	if s := workspaceOf(c.Subject, c.After.Access); s != nil {
		// A customer does not pay for a purchase that is refused. A refused suspension is no such case. If the event
		// names nothing that could be withheld, such as a customer's link, a person is asked.
		s.refusalUndoesAll = c.After.Access.Target.State == billing.WorkspaceActive &&
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

// workspaceOf is the step that brings an account's workspace to its target, nil for a workspace that never was. Its key
// holds the target's version: each version is sent once.
func workspaceOf(subject billing.Subject, access billing.Access) *step {
	if access.Target.Version == 0 || access.Account == "" {
		return nil
	}
	of := object(subject, access.Account+":v"+strconv.FormatInt(access.Target.Version, 10))
	s := provisionWorkspace.step(of, activities.WorkspaceOf(subject.Mode, access.Account, access.Target))
	s.then = func(done effect.Result) *step {
		if done.State != effect.Skipped || !done.Unanswered {
			return nil
		}
		// A newer target has superseded this one, and a try of this one was not answered: it may still arrive, behind
		// the newer one. The workspace is told the newest target once more.
		return alignWorkspace.step(of, activities.WorkspaceRef{Mode: subject.Mode, Account: access.Account})
	}
	return s
}

// planWorkspace is the plan of events that change what an account may use, and nothing else.
func planWorkspace(c billing.Change, _ activities.Planning) plan {
	return plan{steps: workspaceSteps(c)}
}

// planRecord is the plan of events that are kept. That they change what an account may use is rare: one names the
// account before any other event does. As rare is that one tells of more that was paid of an invoice than another did.
func planRecord(c billing.Change, _ activities.Planning) plan {
	p := plan{steps: movedWorkspaces(c), review: reviewOf(c)}
	if i := c.After.Invoice; i != nil && len(i.PaidSums) > 1 {
		p.steps = append(p.steps, paymentSteps(c)...)
	}
	return p
}

// movedWorkspaces are the workspace's steps where the target of an account has changed, none otherwise.
func movedWorkspaces(c billing.Change) []*step {
	if c.After.Access.Target.Version == c.Before.Access.Target.Version && len(c.Others) == 0 {
		return nil
	}
	return workspaceSteps(c)
}

// reviewOf asks a person to review what no rule decides about the change's objects: once for each object, whichever
// event completes the reason.
func reviewOf(c billing.Change) *review {
	if i := c.After.Invoice; i != nil && i.Review != "" {
		words := map[string]string{
			billing.ReviewPaidAndVoid:  "was paid, and voided: refund it, or let it stand",
			billing.ReviewPaidThenOpen: "was paid, and is open again: a payment was taken off it in Stripe",
		}[i.Review]
		return &review{object: invoiceObject(c, i.ID), reason: reason{i.Review, "invoice " + i.ID + " " + words}}
	}
	if s := c.After.Subscription; s != nil && s.Review == billing.ReviewImport {
		return &review{object: object(c.Subject, s.ID),
			reason: reason{s.Review, "subscription " + s.ID +
				" has ended by an event, and was alive when it was imported"}}
	}
	return paidAfterEnd(c)
}

// paidAfterEnd asks a person to review invoices that were paid strictly after their subscription had ended, or for one
// that never began, for a period that reaches beyond the end. Nothing is granted for them.
func paidAfterEnd(c billing.Change) *review {
	s := c.After.Subscription
	if s == nil || len(s.PaidAfterEnd) == 0 {
		return nil
	}
	invoice := s.PaidAfterEnd[0]
	what := "was paid after its subscription " + s.ID + " had ended"
	if s.NeverBegan() {
		what = "was paid, and its subscription " + s.ID + " has expired and never began"
	}
	return &review{
		object: invoiceObject(c, invoice),
		reason: reason{"paid_after_end", "invoice " + invoice + " " + what +
			", for a time after the end: refund it, or give access by hand"},
	}
}
