package dispatch

import (
	"context"
	"fmt"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// anotherError says that the run of an event is another receipt's. Where that is not here any more, because the
// database is an older copy and the event was sent again, or because the receipt was deleted, the ledger does not have
// what that run has done: so a person decides whether the event is run anew.
type anotherError struct{ workflowID, receiptID string }

func (e *anotherError) Error() string {
	return fmt.Sprintf("%s: Temporal's run %s is of another receipt, %s: the database is an older copy, or that receipt was deleted. See there what it has done; "+
		"`pawl events run` runs the event anew, under the same idempotency keys, and may send its mail again", receipt.AnotherRun, e.workflowID, e.receiptID)
}

// askOwner asks Temporal whose the run under workflowID is, and returns an *[anotherError] where it is another
// receipt's. Any other error means that Temporal did not tell.
func (d *Dispatcher) askOwner(ctx context.Context, workflowID, receiptID string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	found, err := d.cfg.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return fmt.Errorf("ask whose run %s is: %w", workflowID, err)
	}
	return checkOwner(found.GetWorkflowExecutionInfo(), receiptID)
}

// checkOwner returns an *[anotherError] where a run says that it is of another receipt. One that says nothing
// is taken for the receipt's own.
func checkOwner(run *workflowpb.WorkflowExecutionInfo, receiptID string) error {
	other, ok := owner(run)
	if !ok || other == receiptID {
		return nil
	}
	return &anotherError{run.GetExecution().GetWorkflowId(), other}
}

// owner returns the receipt that a run says it is of.
func owner(run *workflowpb.WorkflowExecutionInfo) (receiptID string, ok bool) {
	attribute, ok := run.GetSearchAttributes().GetIndexedFields()[workflows.PawlReceipt.GetName()]
	if !ok || converter.GetDefaultDataConverter().FromPayload(attribute, &receiptID) != nil {
		return "", false
	}
	return receiptID, true
}
