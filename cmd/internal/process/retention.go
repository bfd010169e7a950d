package process

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/retention"
	"github.com/pawlhq/pawl/workflows/schedules"
)

const (
	// retentionWithin is how long a run may delete. It is shorter than the timeout of the workflow.
	retentionWithin = 40 * time.Minute
	// retentionLook is how often a run measures whether deliveries are answered slowly. An ingress writes its counts
	// every three seconds.
	retentionLook = 5 * time.Second
)

// Retention implements the activity of [schedules.ApplyRetention].
type Retention struct {
	DB  schema.DB
	Log *slog.Logger
}

// DeleteExpired deletes expired rows and measures the size of the database. A retry continues with the counts of the
// attempt before.
func (r *Retention) DeleteExpired(ctx context.Context, in schedules.RetentionInput) (schedules.Result, error) {
	var run retention.Run
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &run); err != nil {
			run = retention.Run{} // another version has written it
		}
	}
	sweep := retention.Sweep{
		DB: r.DB, Ages: retention.Ages(in), Within: retentionWithin, Look: retentionLook,
		Progress: func(run retention.Run) { activity.RecordHeartbeat(ctx, run) },
	}
	run, err := sweep.Run(ctx, run)
	if err != nil {
		return schedules.Result{}, err
	}
	if err := retention.Keep(ctx, r.DB, run); err != nil {
		return schedules.Result{}, err
	}
	message := "deleted " + run.Counts()
	if notes := run.Notes(); notes != "" {
		message += "; " + notes
	}
	r.Log.InfoContext(ctx, "retention ran", "deleted", run.Deleted, "complete", run.Complete, "paused_seconds",
		run.PausedSeconds)
	return schedules.Result{Message: message}, nil
}
