package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// NotParkedError means that an event's run waits for no decision.
type NotParkedError struct {
	ID, Status string
	// Run is set where the event has a run that takes no decision.
	Run bool
}

func (e *NotParkedError) Error() string {
	// Two people decide at once: for the second, too, the event was parked when it was looked at.
	if parked := e.Status == string(receipt.NeedsReview) || e.Status == string(receipt.Dead); parked && e.Run {
		return fmt.Sprintf("%s was %s, and its run waits for no decision: another one came first, or the run has ended; look at the event before you decide again", e.ID, e.Status)
	}
	return fmt.Sprintf("%s is %s: only a parked event (needs_review or dead) with a run takes a decision", e.ID, e.Status)
}

// decideTimeout is how long a decision may take to reach the audit trail: a run that is parked takes milliseconds.
const decideTimeout = 30 * time.Second

// Updater sends updates to workflows; a client.Client.
type Updater interface {
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
}

// Decide takes an operator's decision about a parked event, which [FindEvent] found under id, to its run: one of
// workflows.UpdateRetry, UpdateSkip and UpdateCompensate. It returns when the decision is in the audit trail; the run
// goes on by itself. It waits 30 s at most; a decision that was not answered by then may still be followed. The error
// is a [*NotParkedError] where nothing waits.
func Decide(ctx context.Context, temporalClient Updater, id string, r *timeline.Receipt, action string, in workflows.DecisionInput) (workflows.DecisionResult, error) {
	var result workflows.DecisionResult
	if r.WorkflowID == "" {
		return result, &NotParkedError{ID: id, Status: r.Status}
	}
	// Without a worker nobody answers, and the SDK would ask for ever.
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	handle, err := temporalClient.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.WorkflowID, UpdateName: action, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &result)
	}
	var refused *temporal.ApplicationError
	var gone *serviceerror.NotFound
	var stuck *serviceerror.WorkflowNotReady
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &refused) && refused.Type() == workflows.ErrTypeNotParked, errors.As(err, &gone):
		return result, &NotParkedError{ID: id, Status: r.Status, Run: true}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return result, fmt.Errorf("%s %s: no answer within %s: does a worker run, and is Temporal well? The decision may still be followed: look at the event before you decide again", action, r.WorkflowID, decideTimeout)
	case errors.As(err, &stuck):
		return result, fmt.Errorf("%s %s: no worker can go on with the run: its workflow task fails, and the workers' log says why; where the run is older than the flow, reset the workflow and decide then", action, r.WorkflowID)
	case errors.As(err, &refused):
		return result, errors.New(refused.Message())
	}
	return result, fmt.Errorf("%s %s: %w", action, r.WorkflowID, err)
}
