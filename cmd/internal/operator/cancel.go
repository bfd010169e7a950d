package operator

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"github.com/pawlhq/pawl/schema/timeline"
)

// checkCancel cancels a running run, for example one that waits for a sink. The run then parks.
func checkCancel(d *Decision, r *timeline.Receipt) (*change, error) {
	if s := situationOf(d.o, r); s != working {
		return nil, d.refuseEvent(r, "%s", s.words(r, "cancel is for a run that is at work"))
	}
	return eventChange(r, map[string]any{"workflow_id": workflowOf(r)}), nil
}

// cancelRun cancels the run in Temporal. It is safe to repeat.
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
