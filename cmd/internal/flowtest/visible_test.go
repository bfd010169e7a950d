package flowtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/pawlhq/pawl/cmd/internal/config"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// The Temporal UI shows the data that this test requests.
func TestInvoicePaid_FailingEffect_SeenUnderItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Sinks["finance"].Retries.MaxElapsed = 240 * time.Hour })
	r.fault(`{"service":"finance","next":1000,"status":503}`)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(e)
	var described *workflowservice.DescribeWorkflowExecutionResponse
	r.until("the failing effect is pending", func() bool {
		found, err := r.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
		if err != nil {
			return false
		}
		described = found.RawResponse
		return len(described.PendingActivities) == 1 && described.PendingActivities[0].LastFailure != nil
	})
	key := r.rows(`select key from effects where kind = 'finance-export'`)[0]
	pending := described.PendingActivities[0]
	if pending.ActivityId != key || pending.ActivityType.Name != "PostEntry" || pending.Attempt < 2 {
		t.Errorf("pending activity %q of type %s, attempt %d; want its ID to be %q", pending.ActivityId, pending.ActivityType.Name, pending.Attempt, key)
	}
	if message := pending.LastFailure.GetMessage(); !strings.Contains(message, "503") || !strings.Contains(message, "finance-export") {
		t.Errorf("its failure is %q", message)
	}
	var summary string
	if err := converter.GetDefaultDataConverter().FromPayload(described.ExecutionConfig.UserMetadata.GetSummary(), &summary); err != nil {
		t.Fatal(err)
	}
	if object := r.rows(`select object_id from receipts`)[0]; summary != "invoice.paid "+object {
		t.Errorf("summary %q, want type and object", summary)
	}
	receiptID := r.rows(`select id::text from receipts`)[0]
	want := map[string]string{"PawlProvider": "stripe", "PawlType": "invoice.paid", "PawlReceipt": receiptID}
	for name, value := range want {
		var got string
		payload := described.WorkflowExecutionInfo.SearchAttributes.GetIndexedFields()[name]
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &got); err != nil || got != value {
			t.Errorf("search attribute %s is %q, want %q (%v)", name, got, value, err)
		}
	}
	r.until("the run is found by its receipt", func() bool {
		found, err := r.Temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: "default", Query: fmt.Sprintf("PawlReceipt = '%s'", receiptID),
		})
		return err == nil && len(found.Executions) == 1 && found.Executions[0].Execution.WorkflowId == workflowID
	})
	if got := r.status(e, receipt.Retrying); got != receipt.Retrying {
		t.Errorf("receipt is %s", got)
	}
	r.clearFaults()
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		t.Errorf("outcome %s (%s)", result.Outcome, result.Reason)
	}
}

// currentDetails returns the current details in the Temporal UI, or "" if the query fails.
func (r *rig) currentDetails(workflowID string) string {
	r.Helper()
	value, err := r.Temporal.QueryWorkflow(r.Context(), workflowID, "", "__temporal_workflow_metadata")
	if err != nil {
		return ""
	}
	var metadata sdkpb.WorkflowMetadata
	if err := value.Get(&metadata); err != nil {
		r.Fatal(err)
	}
	return metadata.GetCurrentDetails()
}

// A parked run shows in Temporal what it waits for, in its details and as a filter, and a failed effect does not look
// done.
func TestInvoicePaid_Parked_SeenInTemporal(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(e)
	r.status(e, receipt.Dead)
	var details string
	r.until("the details say why it is parked", func() bool {
		details = r.currentDetails(workflowID)
		return strings.HasPrefix(details, "**dead:effect_failed** finance-export is failed")
	})
	for _, part := range []string{
		"**NOT DONE, failed**: finance-export · done: apply-facts, provision-workspace, receipt-email",
		"pawl events show " + e.ID + "\n",
		"pawl events retry " + e.ID + " --reason REASON\n",
		"pawl events mark-done " + e.ID + " --effect finance-export --reference REFERENCE --reason REASON\n",
		"pawl events skip " + e.ID + " --effect finance-export --reason REASON\n",
		"pawl events compensate " + e.ID + " --reason REASON\n",
	} {
		if !strings.Contains(details, part) {
			t.Errorf("the details lack %q:\n%s", part, details)
		}
	}
	if lines := strings.Count(details, "\n"); lines > 12 {
		t.Errorf("the details have %d lines, which do not fit their box:\n%s", lines, details)
	}
	for _, query := range []string{"PawlStatus = 'dead:effect_failed'", "PawlStatus STARTS_WITH 'dead'", "PawlStatus IS NOT NULL"} {
		r.until("a filter finds it: "+query, func() bool { return r.finds(workflowID, query) })
	}
	failed := 0
	for _, event := range r.history(workflowID, "").Events {
		if strings.Contains(event.GetActivityTaskFailedEventAttributes().GetFailure().GetMessage(), "the effect is failed: exhausted: ") {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d activities have failed in the history, want only the finance export", failed)
	}

	r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
	r.result(workflowID, "")
	if got := r.rows(`select concat_ws('|', actor, action, target, reason) from operator_actions`); fmt.Sprint(got) != "[ada|retry|"+e.ID+"|looked at it]" {
		t.Errorf("audit trail %v", got)
	}
	r.until("no filter finds it any more", func() bool {
		return !r.finds(workflowID, "PawlStatus IS NOT NULL") && r.finds(workflowID, "PawlStatus IS NULL")
	})
}

// A run without problems has no status.
func TestInvoicePaid_Well_NoStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	workflowID := r.receive(purchase(t, uuid.NewString()[:8], "invoice.paid", "starter"))
	r.result(workflowID, "")
	described, err := r.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
	if err != nil {
		t.Fatal(err)
	}
	if value, there := described.RawResponse.WorkflowExecutionInfo.SearchAttributes.GetIndexedFields()["PawlStatus"]; there {
		t.Errorf("it has a PawlStatus: %v", value)
	}
	r.until("a filter finds it", func() bool { return r.finds(workflowID, "PawlStatus IS NULL") })
}

// finds reports whether a list query of Temporal finds a run of the workflow.
func (r *rig) finds(workflowID, query string) bool {
	r.Helper()
	found, err := r.Temporal.ListWorkflow(r.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", Query: fmt.Sprintf("WorkflowId = '%s' AND %s", workflowID, query),
	})
	return err == nil && len(found.Executions) == 1
}
