package flowtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pawlhq/pawl/ingress/dispatch"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

// who and why are the identity and reason that a person passes to Temporal.
const (
	interferer = "ada@laptop"
	interfered = "customer called"
)

// timelineOf returns the details of an event's timeline entries of this kind.
func (r *rig) timelineOf(eventID, what string) (details []string) {
	r.Helper()
	event, err := timeline.Show(r.Context(), r.Pool, r.rows(`select id::text from receipts where event_id = $1`, eventID)[0])
	if err != nil {
		r.Fatal(err)
	}
	for _, entry := range event.Timeline {
		if entry.What == what {
			details = append(details, entry.Detail)
		}
	}
	return details
}

// If a person cancels a run in Temporal, the run parks. Temporal's list, the receipt and, after the run has
// continued, the timeline show the person and the reason.
func TestIntervention_Cancelled_ByWhomAndWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(e)
	r.status(e, receipt.Dead)
	begun := time.Now()
	if _, err := r.Temporal.WorkflowService().RequestCancelWorkflowExecution(t.Context(), &workflowservice.RequestCancelWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID}, Identity: interferer, Reason: interfered,
	}); err != nil {
		t.Fatal(err)
	}
	r.status(e, receipt.NeedsReview)
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	const want = "cancelled: the run was cancelled in Temporal by ada@laptop (customer called); executed effects stay. It was parked: finance-export is failed"
	if reason := r.rows(`select reason from receipts`)[0]; !strings.HasPrefix(reason, want) {
		t.Errorf("reason %q, want %q", reason, want)
	}
	r.until("a filter finds it", func() bool { return r.finds(workflowID, "PawlStatus = 'needs_review:cancelled'") })
	r.decide(workflowID, workflows.UpdateRetry, workflows.DecisionInput{})
	r.result(workflowID, "")
	if got := r.timelineOf(e.ID, "run-cancelled"); !slices.Equal(got, []string{"in Temporal by ada@laptop: customer called"}) {
		t.Errorf("timeline %q", got)
	}
}

// If a person terminates a run, the run itself cannot report it. pawl's periodic search for lost runs reports the run
// within a minute.
func TestIntervention_Terminated_ByWhomAndWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
	workflowID := r.receive(e)
	r.status(e, receipt.Dead)
	if _, err := r.Temporal.WorkflowService().TerminateWorkflowExecution(t.Context(), &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID}, Identity: interferer, Reason: interfered,
	}); err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(dispatch.Config{Temporal: r.Temporal, Receipts: r.Receipts, Runs: r.Runs, TaskQueue: "none"})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the end is noticed", func() bool {
		mended, err := d.SearchOnce(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return mended == 1
	})
	const want = "needs_review run_terminated: the run was terminated in Temporal by ada@laptop (customer called); "
	if got := r.rows(`select status || ' ' || reason from receipts`)[0]; !strings.HasPrefix(got, want) || !strings.Contains(got, "it was dead: effect_failed") {
		t.Errorf("receipt is %q, want %q, and its former reason", got, want)
	}
	if got := r.timelineOf(e.ID, "run-terminated"); !slices.Equal(got, []string{"in Temporal by ada@laptop: customer called"}) {
		t.Errorf("timeline %q", got)
	}
	if got := r.timelineOf(e.ID, "run-closed"); !slices.Equal(got, []string{"terminated"}) {
		t.Errorf("the run closed %q, want terminated", got)
	}
}

// After a reset, the new run shows the reason of the reset, whatever the first run's outcome and the reset point
// were. Temporal does not store the person who requested a reset.
func TestIntervention_Reset_Why(t *testing.T) {
	t.Parallel()
	first := func(r *rig, id string) int64 {
		for _, event := range r.history(id, "").Events {
			if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				return event.GetEventId()
			}
		}
		return 0
	}
	for name, c := range map[string]struct {
		parked bool
		point  func(*rig, string) int64
	}{
		"of a run that is done":                  {false, first},
		"of a parked one, from the beginning":    {true, first},
		"of a parked one, to where it waits for": {true, func(r *rig, id string) int64 { return parkedAt(r.history(id, ""), 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			e := purchase(t, uuid.NewString()[:8], "invoice.paid", "starter")
			if c.parked {
				r.fault(financeDown)
			}
			workflowID := r.receive(e)
			if c.parked {
				r.status(e, receipt.Dead)
				r.until("it waits", func() bool { return parkedAt(r.history(workflowID, ""), 1) > 0 })
			} else {
				r.result(workflowID, "")
			}
			r.until("its run is recorded", func() bool { return len(r.rows(`select run_id from runs`)) == 1 })
			original := r.rows(`select run_id from runs`)[0]
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			reset, err := r.Temporal.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
				Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: original},
				Reason: interfered, Identity: interferer, WorkflowTaskFinishEventId: c.point(r, workflowID), RequestId: uuid.NewString(),
			})
			if err != nil {
				t.Fatal(err)
			}
			r.until("the reset is recorded", func() bool {
				return len(r.rows(`select run_id from runs where run_id = $1 and kind = 'reset' and previous_run_id = $2 and reason = $3`,
					reset.GetRunId(), original, interfered)) == 1
			})
			if got := r.timelineOf(e.ID, "run-reset"); !slices.Equal(got, []string{"in Temporal: customer called"}) {
				t.Errorf("timeline %q", got)
			}
		})
	}
}
