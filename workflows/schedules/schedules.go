// Package schedules contains the workflows that Temporal starts on a schedule. Each of them executes one activity.
package schedules

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/pawlhq/pawl/workflows/markdown"
)

// These are the names of the schedules. If a name ends with a colon, the name of the source follows.
const (
	Reconcile = "reconcile"
	Gaps      = "gaps:"
	Endpoint  = "endpoint:"
	Retention = "retention"
)

// ID returns the ID of a schedule for the workers of a task queue, e.g. "pawl:reconcile".
func ID(queue, name string) string { return queue + ":" + name }

// These are the names of the activities of schedules. Packages operator and process implement them.
const (
	ActivityReconcileDue    = "ReconcileDue"
	ActivityFindGaps        = "FindGaps"
	ActivityExamineEndpoint = "ExamineEndpoint"
	ActivityDeleteExpired   = "DeleteExpired"
)

// ReconcileInput sets the period. Every account is compared with the provider's data once in this period.
type ReconcileInput struct{ Every time.Duration }

// GapsInput names a source and the period to search for missing events. If File is set, the missing events are stored.
type GapsInput struct {
	Source string
	Back   time.Duration
	File   bool
}

// EndpointInput names a source.
type EndpointInput struct{ Source string }

// RetentionInput is how long each kind of row is kept. Zero means forever.
type RetentionInput struct{ Payloads, Redeliveries, Runs, PublishedEvents, Jobs time.Duration }

// Result is the result of a scheduled run.
type Result struct {
	Message string
	// Left is the number of missing events that were not stored.
	Left int `json:",omitempty"`
}

// ReconcileAccounts runs daily. It creates the job that compares the accounts that are due. The job has a run of its
// own, which takes as long as its rate requires.
func ReconcileAccounts(ctx workflow.Context, in ReconcileInput) (Result, error) {
	return scheduled(ctx, ActivityReconcileDue, in)
}

// FindGaps runs hourly. It finds missing events.
func FindGaps(ctx workflow.Context, in GapsInput) (Result, error) {
	return scheduled(ctx, ActivityFindGaps, in)
}

// WatchEndpoint checks the settings of a source's webhook endpoint at the provider.
func WatchEndpoint(ctx workflow.Context, in EndpointInput) (Result, error) {
	return scheduled(ctx, ActivityExamineEndpoint, in)
}

// ApplyRetention runs hourly. It deletes rows that have expired.
func ApplyRetention(ctx workflow.Context, in RetentionInput) (Result, error) {
	return scheduled(ctx, ActivityDeleteExpired, in)
}

// scheduledWithin is the timeout of a run. After a timeout, the next run repeats the work.
const scheduledWithin = 50 * time.Minute

// scheduled executes the work of a schedule as one activity, which is safe to repeat.
func scheduled(ctx workflow.Context, activity string, in any) (r Result, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: scheduledWithin, ScheduleToCloseTimeout: scheduledWithin,
		HeartbeatTimeout: 20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Second, BackoffCoefficient: 2,
			MaximumInterval: 5 * time.Minute},
	})
	if err = workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &r); err == nil {
		workflow.SetCurrentDetails(ctx, markdown.Text(r.Message))
	}
	return r, err
}
