package flowtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/schema/receipt"
)

// An API without versions applies an unanswered request late, after a newer request. The workspace then has the older
// plan, and pawl's table the newer plan. When pawl detects that the older effect is superseded, it sends the newer
// plan again.
func TestWorkspace_OlderTargetLandsLate_ToldTheNewerAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, hanging)
	seed := "late-" + uuid.NewString()[:8]
	r.fault(`{"service":"workspaces","latency_ms":25000,"ignore_version":true}`, `{"service":"workspaces","next":1000,"status":503}`)
	older := purchase(t, seed, "customer.subscription.created", "starter")
	workflowID := r.receive(older)
	r.status(older, receipt.Retrying)

	// Block retries of the older effect until its first attempt was applied.
	key := r.rows(`select key from effects where kind = 'provision-workspace'`)[0]
	run := &commonpb.WorkflowExecution{WorkflowId: workflowID}
	r.until("the older effect is paused", func() bool {
		_, err := r.Temporal.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
			Namespace: "default", Execution: run, Activity: &workflowservice.PauseActivityRequest_Id{Id: key},
		})
		if err != nil {
			return false
		}
		shown, err := r.Temporal.DescribeWorkflow(t.Context(), workflowID, "")
		return err == nil && len(shown.RawResponse.PendingActivities) == 1 && shown.RawResponse.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_PAUSED
	})
	r.clearFaults()
	newer := rename(t, purchaseAt(t, seed, "customer.subscription.updated", "pro", bought.Add(time.Hour)), "evt_"+seed+"_newer")
	r.receive(newer)
	r.status(newer, receipt.Processed)
	plans := func() (plans []string) {
		for _, e := range r.journal("workspaces") {
			plans = append(plans, e.Body["plan"].(string))
		}
		return plans
	}
	r.until("the older one has landed", func() bool { return len(plans()) == 2 })
	if got := plans(); !slices.Equal(got, []string{"pro", "starter"}) {
		t.Fatalf("the workspace received %v, want the older plan behind the newer one", got)
	}
	if got := r.workspace("acct-" + seed); got != "starter" {
		t.Fatalf("the workspace has plan %q, want the late one", got)
	}

	if _, err := r.Temporal.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: "default", Execution: run, Activity: &workflowservice.UnpauseActivityRequest_Id{Id: key},
	}); err != nil {
		t.Fatal(err)
	}
	if result := r.result(workflowID, ""); result.Outcome != "processed" {
		t.Errorf("outcome %s (%s)", result.Outcome, result.Reason)
	}
	if got := r.workspace("acct-" + seed); got != "pro" {
		t.Errorf("the workspace has plan %q in the end, want pro; it received %v", got, plans())
	}
	if got := r.effects(older); got["provision-workspace"] != "skipped" || got["align-workspace"] != "done" {
		t.Errorf("effects of the older event: %v", got)
	}
}

// workspace returns the plan of an account's workspace in the sandbox.
func (r *rig) workspace(account string) string {
	r.Helper()
	resp, err := http.Get(r.sandbox.URL() + "/workspaces/" + account)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	var held struct{ Body struct{ Plan string } }
	if err := json.NewDecoder(resp.Body).Decode(&held); err != nil {
		r.Fatal(err)
	}
	return held.Body.Plan
}
