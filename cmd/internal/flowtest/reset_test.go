package flowtest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/schema/event"
	"github.com/pawlhq/pawl/schema/receipt"
	"github.com/pawlhq/pawl/workflows"
)

// A run is reset and executes its first activity, and a person makes a decision about it. pawl refuses the decision
// with a reason, because no effect waits for it yet, and another reset does not apply it.
func TestReset_DecisionBeforeTheNewRunWaits_Refused(t *testing.T) {
	t.Parallel()
	c := dialTemporal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	queue := "reset-" + uuid.NewString()
	w := worker.New(c, queue, worker.Options{})
	workflows.Register(w)
	named := func(name string, f any) { w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	parked, loading, goOn := make(chan string, 2), make(chan struct{}, 1), make(chan struct{})
	var first string
	named("ParkRun", func(ctx context.Context, _ activities.ParkRunInput) (activities.ParkRunResult, error) {
		parked <- activity.GetInfo(ctx).WorkflowExecution.RunID
		return activities.ParkRunResult{}, nil
	})
	named("LoadRelay", func(ctx context.Context, _ activities.LoadRelayInput) (activities.LoadRelayResult, error) {
		switch info := activity.GetInfo(ctx); {
		case info.WorkflowExecution.RunID == first:
		case info.IsLocalActivity:
			return activities.LoadRelayResult{}, errors.New("the database is away")
		default:
			loading <- struct{}{}
			<-goOn
		}
		return activities.LoadRelayResult{Code: "no_destination", Reason: "nowhere to go"}, nil
	})
	in := workflows.EventInput{Ref: event.Ref{ReceiptID: "r", Provider: "github", Mode: "live", EventID: "evt_" + uuid.NewString()[:8]}}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID(), TaskQueue: queue}, in.Flow(), in)
	if err != nil {
		t.Fatal(err)
	}
	first = run.GetRunID()
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	defer close(goOn)
	await(ctx, t, parked)
	resetTo(ctx, t, c, in.ID(), firstStarted)
	await(ctx, t, loading)
	for _, action := range []string{workflows.UpdateSkip, workflows.UpdateCompensate, workflows.UpdateRetry} {
		err := sendUpdate(ctx, c, in.ID(), action, "r", workflows.DecisionInput{Actor: "ada", Reason: "looked at it"})
		if err == nil || !strings.Contains(err.Error(), "is not waiting for a decision") {
			t.Errorf("%s: %v, want it refused", action, err)
		}
	}
}

// A run parked twice, and a retry completed the failed effect. The run is reset to the point where it parked, with a
// history that contains the failure. The new run does not park for the completed effect.
func TestReset_IntoTheMiddle_WhatWasDoneSinceIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for name, nth := range map[string]int{"to the first park": 1, "to the second one": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			e := purchase(t, "middle-"+uuid.NewString()[:8], "invoice.paid", "starter")
			r.fault(financeDown)
			id := r.receive(e)
			r.status(e, receipt.Dead)
			r.fault(financeDown)
			r.decide(id, workflows.UpdateRetry, workflows.DecisionInput{})
			r.decide(id, workflows.UpdateRetry, workflows.DecisionInput{})
			r.result(id, "")
			before, original := r.footprint(), r.history(id, "")

			run := resetTo(t.Context(), t, r.Temporal, id, parkedAt(original, nth))
			if result := r.result(id, run); result.Outcome != "processed" {
				t.Errorf("the reset run ended %s (%s)", result.Outcome, result.Reason)
			}
			if after := r.footprint(); !reflect.DeepEqual(after, before) {
				t.Errorf("the reset changed\n%v\nto\n%v", before, after)
			}
			history := r.history(id, run)
			if parkedAt(history, nth) != 0 {
				t.Error("the reset run has parked again")
			}
			if err := replay(original, workflow.Execution{}); err != nil {
				t.Errorf("the original run does not replay: %v", err)
			}
			// Without the run's own ID, a replayer assumes the ID of the original run; a worker uses the run's own
			// ID.
			if err := replay(history, workflow.Execution{ID: id, RunID: run}); err != nil {
				t.Errorf("the reset run does not replay: %v", err)
			}
		})
	}
}

// parkedAt returns the event that completed the workflow task in which a run parked for the nth time, or 0.
func parkedAt(history *historypb.History, nth int) int64 {
	for _, event := range history.Events {
		marker := event.GetMarkerRecordedEventAttributes()
		if marker == nil || !strings.Contains(marker.String(), "ParkRun") {
			continue
		}
		if nth--; nth == 0 {
			return marker.WorkflowTaskCompletedEventId
		}
	}
	return 0
}

func await[T any](ctx context.Context, t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatal("waited in vain")
	}
}
