package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The names of schedules. The source's name follows where they end with a colon.
const (
	ScheduleReconcile = "reconcile"
	ScheduleGaps      = "gaps:"
	ScheduleEndpoint  = "endpoint:"
)

// ScheduleID is the ID of a schedule of the workers of a task queue: "pawl:reconcile".
func ScheduleID(queue, name string) string { return queue + ":" + name }

// The activities of schedules. They are in package operator, like those of jobs.
const (
	ActivityReconcileDue    = "ReconcileDue"
	ActivityFindGaps        = "FindGaps"
	ActivityExamineEndpoint = "ExamineEndpoint"
)

// ReconcileInput says in what time each account is compared with what the provider says.
type ReconcileInput struct{ Every time.Duration }

// GapsInput names a source, and what becomes of the events of the last days that never came: File takes them in.
type GapsInput struct {
	Source string
	Back   time.Duration
	File   bool
}

// EndpointInput names a source.
type EndpointInput struct{ Source string }

// ScheduledResult is what a schedule's run came to.
type ScheduledResult struct {
	Says string
	// Left counts the events that never came, and were not taken in.
	Left int `json:",omitempty"`
}

// ReconcileAccounts is a day's run of the schedule: it makes the job that compares the accounts whose turn it is. The
// job has a run of its own, which lasts as long as its rate asks.
func ReconcileAccounts(ctx workflow.Context, in ReconcileInput) (ScheduledResult, error) {
	return scheduled(ctx, ActivityReconcileDue, in)
}

// FindGaps is an hour's run of the schedule: it finds the events that never came.
func FindGaps(ctx workflow.Context, in GapsInput) (ScheduledResult, error) {
	return scheduled(ctx, ActivityFindGaps, in)
}

// WatchEndpoint is a run of the schedule that looks at a source's endpoint as its provider knows it.
func WatchEndpoint(ctx workflow.Context, in EndpointInput) (ScheduledResult, error) {
	return scheduled(ctx, ActivityExamineEndpoint, in)
}

// scheduledWithin bounds a run: the next one does the same work.
const scheduledWithin = 50 * time.Minute

// scheduled does the work of a schedule as one activity, which may be done again at any time.
func scheduled(ctx workflow.Context, activity string, in any) (r ScheduledResult, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: scheduledWithin, ScheduleToCloseTimeout: scheduledWithin,
		HeartbeatTimeout: 20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Second, BackoffCoefficient: 2,
			MaximumInterval: 5 * time.Minute},
	})
	if err = workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &r); err == nil {
		workflow.SetCurrentDetails(ctx, prose(r.Says))
	}
	return r, err
}
