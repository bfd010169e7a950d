package dispatch

import (
	"fmt"
	"slices"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// anotherError means that the run with an event's workflow ID does not belong to the receipt. Either pawl did not start
// the run, or it belongs to another receipt: the database is an older copy, the other receipt was deleted, or the event
// ID exists in both modes. The ledger does not contain the effects of that run, so a person decides whether to run the
// event again.
type anotherError struct {
	workflowID string
	// receiptID is the ID of the other receipt, or "" if pawl did not start the run. flow is the workflow type of the
	// run.
	receiptID, flow string
}

func (e *anotherError) Error() string {
	whose := fmt.Sprintf("a %q that pawl did not start", e.flow)
	if e.receiptID != "" {
		whose = "of another receipt, " + e.receiptID + ": the database is an older copy, that receipt was deleted, or the event came in both modes"
	}
	return fmt.Sprintf("%s: Temporal's run %s is %s. Check in Temporal which effects it has done; `pawl events start` "+
		"runs the event again under the same idempotency keys, and may send its e-mail again", receipt.ForeignRun, e.workflowID, whose)
}

// checkOwner returns an *[anotherError] if the run does not belong to the receipt.
func checkOwner(run *workflowpb.WorkflowExecutionInfo, receiptID string) error {
	whose, ok := owner(run)
	if ok && whose == receiptID {
		return nil
	}
	return &anotherError{run.GetExecution().GetWorkflowId(), whose, run.GetType().GetName()}
}

// owner returns the receipt ID in a run's memo. ok is false if the run is not a flow of pawl, or its memo contains no
// receipt ID.
func owner(run *workflowpb.WorkflowExecutionInfo) (receiptID string, ok bool) {
	ours := slices.ContainsFunc(workflows.Flows(),
		func(f workflows.Flow) bool { return f.Name == run.GetType().GetName() })
	attribute, ok := run.GetSearchAttributes().GetIndexedFields()[workflows.PawlReceipt.GetName()]
	if !ours || !ok || converter.GetDefaultDataConverter().FromPayload(attribute, &receiptID) != nil {
		return "", false
	}
	return receiptID, true
}
