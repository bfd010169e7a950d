package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/activities/effect"
	"github.com/pawlhq/pawl/schema/billing/fact"
	"github.com/pawlhq/pawl/schema/billing/fold"
	"github.com/pawlhq/pawl/workflows/plan"
)

// KindsWithoutActivity returns the kinds of effects that have no activity.
func KindsWithoutActivity() (names []string) {
	for _, kind := range plan.Catalogue() {
		if executors[kind.Name] == nil {
			names = append(names, kind.Name)
		}
	}
	return names
}

// Toy is a flow for tests of the engine: it plans the same effects for every change. It opens a review if the
// planning configuration books entries of amount 0.
func Toy(ctx workflow.Context, in EventInput) (EventResult, error) {
	return Flow{Name: "Toy", plan: planToy}.Run(ctx, in)
}

func planToy(_ fold.Change, p activities.Planning) plan.Plan {
	subject := fact.Subject{Provider: "stripe", Mode: "live"}
	access := fold.Access{Account: "acme", Target: fold.Target{Version: 7, State: fold.WorkspaceActive, Plan: "pro"}}
	workspace := plan.Workspace(subject, access)
	workspace.RefusalUndoesAll = true
	const of = "stripe:live:in_1"
	made := plan.Plan{Steps: []*plan.Step{
		workspace,
		plan.FinanceExport.Step(of, activities.Entry{}).UndoneBy(plan.ReverseEntry.Step(of, activities.Entry{})),
		plan.ReceiptEmail.Step(of, activities.Letter{}).UndoneBy(plan.CorrectionNotice.Step(of, activities.Letter{})),
	}}
	if p.Onboards("pro") {
		made.Steps = append(made.Steps, plan.OnboardingTask.Step(of, activities.Task{}).UndoneBy(plan.CancelOnboarding.Step(of, activities.Task{})))
	}
	if p.BookZero {
		made.Review = &plan.Review{Object: of, Code: "toy_review", Reason: "a person must review", Receipt: made.Steps[2], Correction: made.Steps[2].Undo(effect.Result{})}
	}
	return made
}
