package job

import (
	"context"

	"github.com/pawlhq/pawl/schema/job"
)

// Take decides an item of a job and stores the result.
func (w *Worker) Take(ctx context.Context, j *job.Job, item job.Item) error {
	return w.take(ctx, j, item)
}
