package operator

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/pawlhq/pawl/schema/timeline"
)

// checkCancel stops a run that is at work: one that waits for a sink, say. The run parks for a decision.
func checkCancel(d *Decision, r *timeline.Receipt) (*change, error) {
	if s := situationOf(d.o, r); s != working {
		return nil, d.refuseEvent(r, "%s", s.words(r, "cancel is for a run that is at work"))
	}
	return eventChange(r, map[string]any{"workflow_id": workflowOf(r)}), nil
}

// cancelRun asks Temporal to cancel the run. It may be called twice.
func (d *Decision) cancelRun(ctx context.Context, r *timeline.Receipt) error {
	ctx, stop := context.WithTimeout(ctx, decideTimeout)
	defer stop()
	err := d.o.Temporal.CancelWorkflow(ctx, workflowOf(r), "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return d.refuse("has a run that has ended in Temporal, as pawl is about to notice")
	}
	if err != nil {
		return fmt.Errorf("cancel %s: %w", workflowOf(r), err)
	}
	return nil
}
