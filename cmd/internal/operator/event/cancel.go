package event

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
)

const verbCancel = "cancel"

// Cancel implements `pawl events cancel`.
var Cancel = decide.Verb{
	Name: verbCancel, Command: "events cancel", Target: "ID", Rule: cancelRule, Short: "Cancel a run and park it",
	Previews: true,
	Long: `Cancel a run that is in progress, for example a run that waits for a sink. Effects that are done stay done, effects
in progress end, and no other effect starts. The run then parks and waits for a decision; retry continues it. If
policy.on_workflow_cancel is compensate, the finished effects are taken back instead, which cannot be undone.`,
}

var cancelRule = func() decide.Rule[*timeline.Receipt, *Result] {
	r := ruleOf(checkCancel, forecastCancel)
	r.Act = answerCancel
	return r
}()

// checkCancel checks the cancellation of a running run, for example of a run that waits for a sink. The run then
// parks.
func checkCancel(_ context.Context, d *decide.Decision, r *timeline.Receipt) (*decide.Change, error) {
	if s := situationOf(d.Operator, r); s != working {
		return nil, refuseEvent(d, r, "%s", s.words(r, "cancel is for a run that is in progress"))
	}
	return changeOf(r, map[string]any{"workflow_id": workflowOf(r)}), nil
}

// forecastCancel describes the parked event. Without policy.on_workflow_cancel, no step is taken back.
func forecastCancel(_ context.Context, d *decide.Decision, _ *timeline.Receipt, p *decide.Preview) error {
	p.Consequences = explainCancel(d.Operator.CancelCompensates)
	p.Outcome, p.Reason = string(receipt.NeedsReview), "cancelled"
	if d.Operator.CancelCompensates {
		p.Outcome, p.Reason = string(receipt.Compensated), ""
	}
	return nil
}

func answerCancel(ctx context.Context, d *decide.Decision, r *timeline.Receipt, rec decide.Recorded) (string, *Result,
	error) {
	_, res, err := readEvent(r, rec)
	switch {
	case err != nil:
		return "", nil, err
	case situationOf(d.Operator, r) == working:
		return "the run stops and parks for a decision", res, cancelRun(ctx, d, r)
	}
	return r.EventID + " is " + r.Status + " now", res, nil
}

// cancelRun cancels the run in Temporal. It is safe to repeat.
func cancelRun(ctx context.Context, d *decide.Decision, r *timeline.Receipt) error {
	ctx, stop := context.WithTimeout(ctx, decideTimeout)
	defer stop()
	err := d.Operator.Temporal.CancelWorkflow(ctx, workflowOf(r), "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return d.Refuse("has a run that has ended in Temporal; pawl updates the event shortly")
	}
	if err != nil {
		return fmt.Errorf("cancel %s: %w", workflowOf(r), err)
	}
	return nil
}
