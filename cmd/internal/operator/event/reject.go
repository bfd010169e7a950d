package event

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/role"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// Reject implements `pawl events reject`.
var Reject = decide.Verb{
	Name: workflows.UpdateReject, Judges: true, Command: "events reject", Target: "ID", Needs: role.RightMoney,
	Rule:     ruleOf(checkReject, forecastReject),
	Previews: true, Many: parkedStatuses, Short: "Reject an event that needs a review",
	Long: "Reject an event that needs a review" + ofReview,
}

// A rejection before the first run ignores the event.
func checkReject(ctx context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
	if askedBeforeRun(r) {
		return dismissed(d, r), nil
	}
	return checkParked(ctx, d, r)
}

func forecastReject(ctx context.Context, d *decide.Decision, r *timeline.Receipt, p *decide.Preview) error {
	p.Consequences = explain(r, d.Verb)
	if askedBeforeRun(r) {
		p.Outcome, p.Reason = string(receipt.Ignored), receipt.Dismissed
		return nil
	}
	return forecastParked(ctx, d, r, p)
}

// dismissed returns the change that ignores an event that needs a decision and has no run.
func dismissed(d *decide.Decision, r *timeline.Receipt) *decide.Change {
	c := changeOf(r, map[string]any{"status": receipt.Ignored})
	c.Do = func(ctx context.Context, tx pgx.Tx) error {
		reason := fmt.Sprintf("%s: rejected by %s: %s", receipt.Dismissed, d.Actor, d.Reason)
		return came(ctx, d, r,
			receipt.MoveIn(ctx, tx, r.ID, receipt.Status(r.Status), r.Reason, receipt.Ignored, reason))
	}
	return c
}
