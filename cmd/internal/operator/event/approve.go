package event

import (
	"context"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

const ofReview = `. The command shows the consequence first. docs/operations/review.md lists the
questions and the consequences of each answer.`

// Approve implements `pawl events approve`.
var Approve = decide.Verb{
	Name: workflows.UpdateApprove, Judges: true, Command: "events approve", Target: "ID", Needs: role.RightMoney,
	Rule:     ruleOf(checkApprove, forecastApprove),
	Previews: true, Many: parkedStatuses, Short: "Approve an event that needs a review",
	Long: "Approve an event that needs a review" + ofReview,
}

// An approval before the first run starts that run.
func checkApprove(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
	if askedBeforeRun(r) {
		return checkRun(ctx, d, r)
	}
	return checkParked(ctx, d, r)
}

func forecastApprove(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
	p.Consequences = explain(r, d.Verb)
	if askedBeforeRun(r) {
		return forecastRun(ctx, d, r, p)
	}
	return forecastParked(ctx, d, r, p)
}
