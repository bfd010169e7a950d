package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/pawlhq/pawl/activities"
	"github.com/pawlhq/pawl/workflows"
)

// A run that a reset made is at its first activity for a while, and somebody decides about it. That is no decision
// that the reset re-applies: nothing waits for it yet, and who decides is told so.
func TestReset_DecisionBeforeTheNewRunWaits_Refused(t *testing.T) {
	t.Parallel()
	c := dialTemporal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	queue := "reset-" + uuid.NewString()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(workflows.Relay)
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
		return activities.LoadRelayResult{Review: "nowhere to go"}, nil
	})
	in := workflows.EventInput{ReceiptID: "r", Provider: "github", Mode: "live", EventID: "evt_" + uuid.NewString()[:8]}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: in.ID(), TaskQueue: queue}, workflows.Relay, in)
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
		update, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: in.ID(), UpdateID: uuid.NewString(), UpdateName: action,
			Args: []any{workflows.DecisionInput{Who: "ada", Why: "looked at it"}}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = update.Get(ctx, nil)
		}
		if err == nil || !strings.Contains(err.Error(), "waits for no decision") {
			t.Errorf("%s: %v, want it refused", action, err)
		}
	}
}

func await[T any](ctx context.Context, t *testing.T, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatal("waited in vain")
	}
}
