package dispatch

import (
	"context"
	"fmt"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// anotherError says that the run of an event is another receipt's, which is not here any more: the database
// is an older copy and the event was sent again, or the receipt was deleted. What that run has done is not in
// the ledger, so a person decides whether the event is run anew.
type anotherError struct{ workflowID, receiptID string }

func (e *anotherError) Error() string {
	return fmt.Sprintf("%sTemporal's run %s is of receipt %s, which is not here: the database is an older copy, or the receipt was deleted. See there what it has done; "+
		"`pawl events run` runs the event anew, under the same idempotency keys, and may send its mail again", receipt.AnotherRun, e.workflowID, e.receiptID)
}

// askOwner asks Temporal whose the run under workflowID is, and returns an *[anotherError] where it is another
// receipt's. Any other error means that Temporal did not tell.
func (d *Dispatcher) askOwner(ctx context.Context, workflowID, receiptID string) error {
	if d.cfg.Inspect == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	found, err := d.cfg.Inspect.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return fmt.Errorf("look whose run %s is: %w", workflowID, err)
	}
	return checkOwner(found.GetWorkflowExecutionInfo(), receiptID)
}

// checkOwner returns an *[anotherError] where a run says that it is of another receipt. One that says nothing
// is taken for the receipt's own.
func checkOwner(run *workflowpb.WorkflowExecutionInfo, receiptID string) error {
	attribute, ok := run.GetSearchAttributes().GetIndexedFields()[workflows.PawlReceipt.GetName()]
	if !ok {
		return nil
	}
	var other string
	if err := converter.GetDefaultDataConverter().FromPayload(attribute, &other); err != nil || other == receiptID {
		return nil
	}
	return &anotherError{run.GetExecution().GetWorkflowId(), other}
}
