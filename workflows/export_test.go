package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
)

// planOf returns the plan function of a flow by its name.
func planOf(flow string) func(fold.Change, activities.Planning) plan {
	for _, f := range Flows() {
		if f.Name == flow {
			return f.plan
		}
	}
	return nil
}

// PlannedKeys returns the keys of the effects that a flow plans for a change, with the keys of their undos: "key <-
// undo".
func PlannedKeys(flow string, c fold.Change, p activities.Planning) (keys []string) {
	made := planOf(flow)(c, p).with(c, flow)
	for _, s := range slices.Concat(made.steps, made.letters) {
		key := s.key
		if s.undo != nil {
			key += " <- " + s.undo(effect.Result{}).key
		}
		keys = append(keys, key)
	}
	return keys
}

// PlannedReview returns the object of the review that a flow opens and the code of its reason, or "".
func PlannedReview(flow string, c fold.Change) string {
	r := planOf(flow)(c, activities.Planning{}).with(c, flow).review
	if r == nil {
		return ""
	}
	return r.object + " " + r.reason.code
}

// Toy is a flow for tests of the engine: it has the same effects for every change. It opens a review if the planning
// books entries of amount 0.
func Toy(ctx workflow.Context, in EventInput) (EventResult, error) {
	return Flow{Name: "Toy", plan: planToy}.Run(ctx, in)
}

func planToy(_ fold.Change, p activities.Planning) plan {
	subject := fact.Subject{Provider: "stripe", Mode: "live"}
	access := fold.Access{Account: "acme", Target: fold.Target{Version: 7, State: fold.WorkspaceActive, Plan: "pro"}}
	workspace := workspaceOf(subject, access)
	workspace.refusalUndoesAll = true
	const of = "stripe:live:in_1"
	made := plan{steps: []*step{
		workspace,
		financeExport.step(of, activities.Entry{}).undoneBy(reverseEntry.step(of, activities.Entry{})),
		receiptEmail.step(of, activities.Letter{}).undoneBy(correctionNotice.step(of, activities.Letter{})),
	}}
	if p.Onboards("pro") {
		made.steps = append(made.steps, onboardingTask.step(of, activities.Task{}).undoneBy(cancelOnboarding.step(of, activities.Task{})))
	}
	if p.BookZero {
		made.review = &review{object: of, reason: reason{"toy_review", "a person must review"}, letter: made.steps[2], corrects: made.steps[2].undo(effect.Result{})}
	}
	return made
}
