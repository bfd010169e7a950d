package dispatch

import (
	"fmt"
	"slices"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// anotherError says that the run under an event's workflow ID is not the receipt's. Either it is another receipt's:
// the database is an older copy, that receipt was deleted, or the event ID came in both modes. Or somebody else
// started the run. The ledger does not know that run's effects, so a person decides whether the event runs anew.
type anotherError struct {
	workflowID string
	// receiptID is the other receipt, "" if pawl did not start the run. flow is the run's type.
	receiptID, flow string
}

func (e *anotherError) Error() string {
	whose := fmt.Sprintf("a %q that pawl has not started", e.flow)
	if e.receiptID != "" {
		whose = "of another receipt, " + e.receiptID + ": the database is an older copy, that receipt was deleted, or the event came in both modes"
	}
	return fmt.Sprintf("%s: Temporal's run %s is %s. See there what it has done; "+
		"`pawl events run` runs the event anew, under the same idempotency keys, and may send its mail again", receipt.AnotherRun, e.workflowID, whose)
}

// checkOwner returns an *[anotherError] if a run is not the receipt's.
func checkOwner(run *workflowpb.WorkflowExecutionInfo, receiptID string) error {
	whose, ok := owner(run)
	if ok && whose == receiptID {
		return nil
	}
	return &anotherError{run.GetExecution().GetWorkflowId(), whose, run.GetType().GetName()}
}

// owner returns the ID of the receipt that a run names. ok is false for a run of another type than pawl's flows, and
// for a run that names no receipt.
func owner(run *workflowpb.WorkflowExecutionInfo) (receiptID string, ok bool) {
	ours := slices.ContainsFunc(workflows.Flows(),
		func(f workflows.Flow) bool { return f.Name == run.GetType().GetName() })
	attribute, ok := run.GetSearchAttributes().GetIndexedFields()[workflows.PawlReceipt.GetName()]
	if !ours || !ok || converter.GetDefaultDataConverter().FromPayload(attribute, &receiptID) != nil {
		return "", false
	}
	return receiptID, true
}
