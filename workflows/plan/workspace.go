package plan

import (
	"strconv"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// workspaceSteps returns the steps that bring the workspace of the account to its target. It includes the workspaces of
// other accounts if the change affects their targets.
func workspaceSteps(c fold.Change) []*Step {
	var steps []*Step
	if s := Workspace(c.Subject, c.After.Access); s != nil {
		// A customer must not pay for a refused purchase, so a refusal compensates all effects. If the sink refuses a
		// suspension, or if the event grants nothing (for example, it links a customer), the run parks instead.
		s.RefusalUndoesAll = c.After.Access.Target.State == fold.WorkspaceActive &&
			activities.WithholdingOf(c).Object != ""
		steps = append(steps, s)
	}
	for _, other := range c.Others {
		if s := Workspace(c.Subject, other); s != nil {
			steps = append(steps, s)
		}
	}
	return steps
}

// Workspace returns the step that brings a workspace to its target, or nil if there never was a workspace. The key
// contains the version of the target, so each version is sent once.
func Workspace(subject fact.Subject, access fold.Access) *Step {
	if access.Target.Version == 0 || access.Account == "" {
		return nil
	}
	of := Object(subject, access.Account+":v"+strconv.FormatInt(access.Target.Version, 10))
	s := ProvisionWorkspace.Step(of, activities.WorkspaceOf(subject.Mode, access.Account, access.Target))
	s.Then = func(done effect.Result) *Step {
		if done.State != effect.Skipped || !done.Unanswered {
			return nil
		}
		// A newer target has superseded this target, but an attempt with this target got no response. The workspace may
		// still apply it after the newer target, so send the newest target again.
		return AlignWorkspace.Step(of, activities.WorkspaceRef{Mode: subject.Mode, Account: access.Account})
	}
	return s
}

// movedWorkspaces returns the workspace steps if the target of an account has changed, and nil otherwise.
func movedWorkspaces(c fold.Change) []*Step {
	if c.After.Access.Target.Version == c.Before.Access.Target.Version && len(c.Others) == 0 {
		return nil
	}
	return workspaceSteps(c)
}

// Withhold returns the step that withholds a grant. Its follow-up step brings the workspace to the resulting target.
func Withhold(object string, of activities.Withholding) *Step {
	s := WithholdGrant.Step(object, of)
	s.Then = func(done effect.Result) *Step {
		after, ok := Applied(done)
		if !ok || after.Subject.EventID == "" {
			return nil
		}
		return Workspace(after.Subject, after.After.Access)
	}
	return s
}
