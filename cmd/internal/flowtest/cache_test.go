package flowtest

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
)

// Many later runs evict a parked run from its worker's cache. Temporal still sends only new events to that worker:
// https://github.com/temporalio/temporal/issues/7741. The run still accepts a decision with one workflow task, and no
// workflow task fails.
//
// The test is not parallel, because it purges the cache of all workers of this process.
func TestDecide_RunOutOfMemory_NoTaskFails(t *testing.T) {
	r := newRig(t, nil)
	r.fault(`{"service": "finance", "status": 404}`)
	e := purchase(t, "memory-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	r.until("its task is over", func() bool {
		run, err := r.Temporal.DescribeWorkflow(t.Context(), id, "")
		return err == nil && run.RawResponse.GetPendingWorkflowTask() == nil
	})
	worker.PurgeStickyWorkflowCache()
	answer := r.mustAsk(event.Retry.Name, e)
	r.result(id, "")
	var failed []string
	for _, event := range r.history(id, "").Events {
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
			failed = append(failed, event.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage())
		}
	}
	if len(failed) > 0 {
		t.Errorf("workflow tasks have failed: %s", strings.Join(failed, "; "))
	}
	if got := r.rows(`select count(*)::text from operator_actions where request_id like '%' || $1`, answer.Request)[0]; got != "1" || r.done("finance") != 1 {
		t.Errorf("%s decisions, and %d entries at finance; want one of each", got, r.done("finance"))
	}
}
