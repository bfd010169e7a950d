package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing"
)

// planOf is the plan of a flow, by its name.
func planOf(flow string) func(billing.Change, activities.Planning) plan {
	for _, f := range Flows() {
		if f.Name == flow {
			return f.plan
		}
	}
	return nil
}

// PlannedKeys are the keys of what a flow plans for a change, with those of its undos: "key <- undo".
func PlannedKeys(flow string, c billing.Change, p activities.Planning) (keys []string) {
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

// PlannedReview is the object of the review that a flow asks for, and the code of its reason; "" for none.
func PlannedReview(flow string, c billing.Change) string {
	r := planOf(flow)(c, activities.Planning{}).review
	if r == nil {
		return ""
	}
	return r.object + " " + r.reason.code
}

// Toy is a flow for tests of the engine: whatever was applied, the same effects follow. It asks for a review where the
// planning books zeroes.
func Toy(ctx workflow.Context, in EventInput) (EventResult, error) {
	return Flow{Name: "Toy", plan: planToy}.Run(ctx, in)
}

func planToy(_ billing.Change, p activities.Planning) plan {
	subject := billing.Subject{Provider: "stripe", Mode: "live"}
	access := billing.Access{Account: "acme", Target: billing.Target{Version: 7, State: billing.WorkspaceActive, Plan: "pro"}}
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
		made.review = &review{object: of, reason: reason{"toy_review", "a person must review"}}
	}
	return made
}
