package flowtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pawlhq/pawl/cmd/internal/dev/forge"
	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/cmd/internal/operator/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// runsOf returns the runs of an event in order, each with kind, actor, reason, whether it follows the previous run,
// and the outcome.
func (r *rig) runsOf(e forge.Event) []string {
	r.Helper()
	return r.rows(`select concat_ws('|', kind, requested_by, runs.reason, previous_run_id = lag(run_id, 1, '') over (order by started_at), outcome)
		from runs join receipts on receipts.id = receipt_id where event_id = $1 order by started_at`, e.ID)
}

// replayed requests a replay and waits for its end.
func (r *rig) replayed(e forge.Event, workflowID string) workflows.EventResult {
	r.Helper()
	before := r.Temporal.GetWorkflow(r.Context(), workflowID, "").GetRunID()
	answer := r.mustAsk(event.Replay.Name, e)
	if answer.WorkflowID != workflowID || answer.PreviousRun != before {
		r.Errorf("answered %+v, want a run of %s after %s", answer, workflowID, before)
	}
	return r.nextRun(workflowID, before)
}

// nextRun waits until the run that follows another run has ended.
func (r *rig) nextRun(workflowID, before string) workflows.EventResult {
	r.Helper()
	var run string
	r.until("the next run has begun", func() bool {
		found, err := r.Temporal.DescribeWorkflow(r.Context(), workflowID, "")
		if err == nil {
			run = found.WorkflowExecution.RunID
		}
		return err == nil && run != before
	})
	return r.result(workflowID, run)
}

// A replay runs the event again under its workflow ID. Every effect is already done, and the list of runs shows the
// actor and the reason.
func TestFlows_EveryBranch_Replayed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		faults  []string
		outcome string
	}{
		"replayed":             {nil, "processed"},
		"replayed-compensated": {[]string{refuse}, "compensated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.fault(tt.faults...)
			seed := branchSeed(name)
			e := purchase(t, seed, "invoice.paid", "enterprise")
			id := r.receive(e)
			r.result(id, "")
			r.status(e, receipt.Status(tt.outcome))
			before := r.footprint()
			if result := r.replayed(e, id); result.Outcome != tt.outcome {
				t.Errorf("the replay ended %s (%s), want %s", result.Outcome, result.Reason, tt.outcome)
			}
			r.status(e, receipt.Status(tt.outcome))
			after := r.footprint()
			delete(before, "audit")
			for name := range before {
				if !reflect.DeepEqual(before[name], after[name]) {
					t.Errorf("the replay changed %s\nfrom %v\nto   %v", name, before[name], after[name])
				}
			}
			want := []string{"original|||t|" + tt.outcome, "replay|uid:1(ada)|looked at it|t|" + tt.outcome}
			if got := r.runsOf(e); !slices.Equal(got, want) {
				t.Errorf("runs\n got %q\nwant %q", got, want)
			}
			if recording() {
				writeGolden(t, "InvoicePaid", name, r.history(id, ""))
			}
		})
	}
}

// One request creates one replay: after a lost response, after the run's end, and if the dispatcher crashes after it
// started the run and before it recorded the start.
func TestReplay_SameRequest_OneRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := purchase(t, "once-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.result(id, "")
	r.status(e, receipt.Processed)
	first := r.Temporal.GetWorkflow(t.Context(), id, "").GetRunID()
	again := func(a *decide.Decision) { a.Request = "replay-1" }
	answer := r.mustAsk(event.Replay.Name, e, again)
	r.nextRun(id, first)
	r.status(e, receipt.Processed)
	if repeated := r.mustAsk(event.Replay.Name, e, again); !repeated.Repeated || repeated.PreviousRun != answer.PreviousRun || repeated.WorkflowID != id {
		t.Errorf("once more: %+v, want the first call's answer", repeated)
	}
	// The start was not recorded: the request is still pending.
	r.exec(`update receipts set status = 'received', dispatch_at = now(), rerun = jsonb_build_object('request', 'replay-1', 'actor', 'ada', 'reason', 'x', 'previous', $2::text) where event_id = $1`, e.ID, first)
	r.until("the run is found by its request", func() bool {
		return r.rows(`select concat_ws(' ', status, rerun is null) from receipts where event_id = $1`, e.ID)[0] == "processing t"
	})
	if got := r.runsOf(e); len(got) != 2 {
		t.Errorf("runs %q, want the one replay", got)
	}
	if got := r.rows(`select action from operator_actions`); !slices.Equal(got, []string{"replay"}) {
		t.Errorf("audited %q", got)
	}
}

// After a run was terminated, a replay continues it, even if Temporal has deleted the run. The replay completes the
// missing effects.
func TestReplay_TerminatedAndForgotten_GoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, "ended-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	r.clearFaults()
	if _, err := r.ask(event.Replay.Name, e); err == nil || !strings.Contains(err.Error(), "waits for a decision") || !strings.Contains(err.Error(), "events retry "+e.ID) {
		t.Errorf("a replay of what waits for a decision: %v", err)
	}
	if err := r.Temporal.TerminateWorkflow(t.Context(), id, "", "by a person"); err != nil {
		t.Fatal(err)
	}
	// pawl has not detected the termination yet. The refusal of a retry names the verb that works.
	if _, err := r.ask(event.Retry.Name, e); err == nil || !strings.Contains(err.Error(), "events replay "+e.ID) {
		t.Errorf("a retry of a terminated run: %v, want it to name the replay", err)
	}
	if result := r.replayed(e, id); result.Outcome != "processed" || r.done("finance") != 1 || r.done("email") != 1 {
		t.Errorf("the replay ended %s (%s), with %d entries and %d mails", result.Outcome, result.Reason, r.done("finance"), r.done("email"))
	}
	r.status(e, receipt.Processed)
	// Temporal has deleted the run after its retention.
	r.exec(`update receipts set workflow_id = workflow_id || ':gone' where event_id = $1`, e.ID)
	answer := r.mustAsk(event.Replay.Name, e)
	if answer.PreviousRun != "" || answer.WorkflowID != id+":gone" {
		t.Errorf("answered %+v", answer)
	}
	r.until("the forgotten run has run again", func() bool {
		return len(r.rows(`select run_id from runs where workflow_id = $1 and outcome = 'processed' and kind = 'replay'`, id+":gone")) == 1
	})
	if n := r.done("finance"); n != 1 {
		t.Errorf("finance has %d entries", n)
	}
}

// A person resets the run in Temporal after the replay was requested and before it starts. The run of the reset
// replaces the replay, and the receipt shows that run.
func TestReplay_ResetCameFirst_StandsIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fault(financeDown)
	e := purchase(t, "reset-first-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.status(e, receipt.Dead)
	first := r.Temporal.GetWorkflow(t.Context(), id, "").GetRunID()
	// Set the state that exists if the run ended and was reset at once.
	r.exec(`update receipts set status = 'received', dispatch_at = now(), rerun = '{"request":"r","actor":"ada","reason":"x","previous":"another"}' where event_id = $1`, e.ID)
	r.until("the run that goes on is taken for it", func() bool {
		return r.rows(`select concat_ws(' ', status, rerun is null) from receipts where event_id = $1`, e.ID)[0] == "processing t"
	})
	if run := r.Temporal.GetWorkflow(t.Context(), id, "").GetRunID(); run != first {
		t.Errorf("a run %s was started beside %s", run, first)
	}
}

// A scheduled action of a receipt has run. A replay runs the event, not the scheduled action.
func TestReplay_AfterTheClock_RunsTheEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	e := purchase(t, "clock-"+uuid.NewString()[:8], "invoice.paid", "starter")
	id := r.receive(e)
	r.result(id, "")
	r.status(e, receipt.Processed)
	due := fmt.Sprintf("due:live:acct-%s:20260322T000010Z", strings.TrimPrefix(e.ID, "evt_"))
	r.exec(`update receipts set workflow_id = $2 where event_id = $1`, e.ID, due)
	r.exec(`insert into runs (workflow_id, run_id, receipt_id, kind, started_at, closed_at, outcome)
		select $2, 'due-run', id, 'due', $3, $3, 'processed' from receipts where event_id = $1`, e.ID, due, time.Now())
	if answer := r.mustAsk(event.Replay.Name, e); answer.WorkflowID != id {
		t.Errorf("replays %s, want %s", answer.WorkflowID, id)
	}
	r.until("the event has run again", func() bool {
		return len(r.rows(`select run_id from runs where workflow_id = $1 and kind = 'replay' and outcome = 'processed'`, id)) == 1
	})
}
