package operator

import (
	"context"

	"github.com/pawlhq/pawl/schema/job"
)

// DecideItem decides an item of a job, as its run does.
func (w *JobWorker) DecideItem(ctx context.Context, j *job.Job, item job.Item) (string, error) {
	return w.decide(ctx, j, item)
}
