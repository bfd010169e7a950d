package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows/jobs"
)

const (
	// jobStretch is the maximum duration of one activity. After that time, the run records the progress and starts
	// the next activity.
	jobStretch = 30 * time.Second
	// mostTaken is the number of items that are read with one query. Between two queries, the worker checks whether
	// the job is paused. One query returns at most as many items as the job processes in one second.
	mostTaken = 50
	// jobSideBySide is the maximum number of concurrent decisions of a job. Sequential decisions would be too slow
	// for the higher rates.
	jobSideBySide = 8
	// beat is the heartbeat interval. The heartbeat timeout is 20 s.
	beat = 4 * time.Second
	// itemTries is the maximum number of attempts for an item with an unknown outcome, for example after a timeout.
	itemTries = 3
)

// Worker implements the activities of [jobs.Job]. Each item is decided as if it were a single decision. Its request
// ID contains the IDs of the job and of the item, so that an item is not repeated if a worker dies.
type Worker struct {
	Jobs     *job.Store
	Operator *decide.Operator
	Log      *slog.Logger
}

// WorkOnJob processes the items of a job at its rate. It returns when no item is left, when the job is paused or
// cancelled, or after jobStretch. It may be repeated at any time, but must not run concurrently for the same job. It
// returns an error only if the database is unavailable.
func (w *Worker) WorkOnJob(ctx context.Context, in jobs.Input) (jobs.Progress, error) {
	begun, stopped := time.Now(), activity.GetWorkerStopChannel(ctx)
	alive, end := context.WithCancel(ctx)
	defer end()
	go Heartbeat(alive)
	var pace *rate.Limiter
	for {
		j, err := w.Jobs.Get(ctx, in.ID)
		if err != nil {
			return jobs.Progress{}, err
		}
		if pace == nil {
			pace = rate.NewLimiter(rate.Limit(j.Rate), 1)
		}
		select {
		case <-stopped:
			return progress(j), nil
		default:
		}
		if j.State != job.Running || time.Since(begun) > jobStretch {
			return progress(j), nil
		}
		items, err := w.Jobs.Take(ctx, in.ID, min(mostTaken, max(1, int(j.Rate))))
		if err != nil {
			return jobs.Progress{}, err
		}
		if len(items) == 0 {
			j, err := w.Jobs.Finish(ctx, in.ID)
			if err != nil {
				return jobs.Progress{}, err
			}
			return progress(j), nil
		}
		if err := w.takeAll(ctx, j, items, pace); err != nil {
			return jobs.Progress{}, err
		}
	}
}

// Heartbeat records heartbeats until ctx ends. If the worker dies, Temporal starts the activity on another worker.
func Heartbeat(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		activity.RecordHeartbeat(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// takeAll processes the items at the rate of the job and returns when each item has a result.
func (w *Worker) takeAll(ctx context.Context, j *job.Job, items []job.Item, pace *rate.Limiter) error {
	// An item that was started gets its result even if the activity is cancelled.
	lasting := context.WithoutCancel(ctx)
	group, going := errgroup.WithContext(ctx)
	group.SetLimit(jobSideBySide)
	for _, item := range items {
		if pace.Wait(going) != nil {
			break // the activity was cancelled, or a result could not be stored
		}
		group.Go(func() error { return w.take(lasting, j, item) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// take decides about an item and stores the result. It returns an error only if the result could not be stored.
func (w *Worker) take(ctx context.Context, j *job.Job, item job.Item) error {
	result, note := job.Done, ""
	says, err := w.DecideItem(ctx, j, item)
	if j.Noun() != "event" { // only an event has a receipt that shows the result
		note = says
	}
	why, refused := "", false
	if err != nil {
		why, refused = refusal(err)
	}
	switch {
	case err == nil:
	case refused:
		result, note = job.Refused, why
	case item.Attempts+1 < itemTries:
		w.Log.WarnContext(ctx, "pawl retries an item of a job", "job", j.ID, "target", item.Target, "error",
			err)
		return w.Jobs.Tried(ctx, j.ID, item.Target, err.Error())
	default:
		result, note = job.Failed, err.Error()
	}
	return w.Jobs.End(ctx, j.ID, item.Target, result, note)
}

// DecideItem makes the job's decision about an item and returns the result.
func (w *Worker) DecideItem(ctx context.Context, j *job.Job, item job.Item) (says string, err error) {
	d := decide.Decision{
		Verb: j.Action, Target: item.Target, Actor: j.Actor, Reason: j.Reason + " (job " + j.ID + ")",
		Request: requestOf(j.ID, item.Target), Item: &decide.Item{Item: item, Job: j},
		Args: decide.Args{Effect: j.Effect, Reference: j.Reference},
	}
	if v := w.Operator.Verbs.Named(j.Action); v != nil && v.Item != nil {
		return v.Item(ctx, w.Operator, d)
	}
	answer, err := w.Operator.Decide(ctx, d)
	if err != nil {
		return "", err
	}
	return answer.Message, nil
}

// requestOf returns the request ID of an item. It contains a hash if the target is too long for a request ID or has
// spaces.
func requestOf(jobID, target string) string {
	id := jobID + "/" + target
	if len(id) <= decide.MaxRequest && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return id
	}
	sum := sha256.Sum256([]byte(target))
	return jobID + "/" + hex.EncodeToString(sum[:16])
}

// refusal reports whether the error means that the verb cannot be applied to the target. why is the message.
func refusal(err error) (why string, refused bool) {
	if r, ok := errors.AsType[*decide.RefusedError](err); ok {
		return r.Reason, true
	}
	return err.Error(), decide.IsFault(err, decide.Unknown)
}

// StopJob cancels a job after its run was cancelled in Temporal.
func (w *Worker) StopJob(ctx context.Context, in jobs.Input) (jobs.Progress, error) {
	_, err := w.Operator.Decide(ctx, decide.Decision{
		Verb: verbCancelJob, Target: in.ID, Actor: "Temporal", Reason: "its run was cancelled in Temporal",
		Request: activity.GetInfo(ctx).WorkflowExecution.RunID,
		Args:    decide.Args{Found: runCancelled{}},
	})
	if _, refused := errors.AsType[*decide.RefusedError](err); err != nil && !refused {
		return jobs.Progress{}, err
	}
	j, err := w.Jobs.Get(ctx, in.ID)
	if err != nil {
		return jobs.Progress{}, err
	}
	return progress(j), nil
}

func progress(j *job.Job) jobs.Progress {
	return jobs.Progress{State: string(j.State), Note: j.StateNote, Items: j.Items, Done: j.Done,
		Refused: j.Refused, Failed: j.Failed}
}
