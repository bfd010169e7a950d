package operator

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

	"github.com/pawlhq/pawl/schema/billing"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows"
)

const (
	// jobStretch is how long an activity works on a job before it lets its run say how far it is.
	jobStretch = 30 * time.Second
	// mostTaken is how many items are read at once. A pause is seen between two readings: they are a second's work.
	mostTaken = 50
	// jobSideBySide is how many decisions of a job are under way at once, for rates that one after the other does not
	// reach.
	jobSideBySide = 8
	// beat is how often a worker says that it lives. Its run gives it up after 20 s of silence.
	beat = 4 * time.Second
	// itemTries is how often an item is tried that ends in doubt: nobody answers, or the answer makes no sense.
	itemTries = 3
)

// JobWorker works on jobs: its methods are the activities of [workflows.Job]. Each item goes through the use case
// that a single event goes through, with a request ID that is made of the job's and the item's, so that a worker
// which dies in between repeats nothing.
type JobWorker struct {
	Jobs     *job.Store
	Operator *Operator
	Log      *slog.Logger
}

// WorkOnJob takes the items of a job at its rate, until none is left, the job is paused or cancelled, or a while is
// over. It may be called again at any time, but not twice at once. Its error is a database that is away.
func (w *JobWorker) WorkOnJob(ctx context.Context, in workflows.JobInput) (workflows.JobProgress, error) {
	begun, stopped := time.Now(), activity.GetWorkerStopChannel(ctx)
	alive, end := context.WithCancel(ctx)
	defer end()
	go heartbeat(alive)
	var pace *rate.Limiter
	for {
		j, err := w.Jobs.Get(ctx, in.ID)
		if err != nil {
			return workflows.JobProgress{}, err
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
			return workflows.JobProgress{}, err
		}
		if len(items) == 0 {
			j, err := w.Jobs.Finish(ctx, in.ID)
			if err != nil {
				return workflows.JobProgress{}, err
			}
			return progress(j), nil
		}
		if err := w.takeAll(ctx, j, items, pace); err != nil {
			return workflows.JobProgress{}, err
		}
	}
}

// heartbeat tells Temporal that the worker lives, until ctx ends: where it dies, another one goes on a moment later.
func heartbeat(ctx context.Context) {
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

// takeAll takes items at their pace, and returns when each has come to something.
func (w *JobWorker) takeAll(ctx context.Context, j *job.Job, items []job.Item, pace *rate.Limiter) error {
	// An item that was begun gets its result, also when the activity is cancelled meanwhile.
	lasting := context.WithoutCancel(ctx)
	group, going := errgroup.WithContext(ctx)
	group.SetLimit(jobSideBySide)
	for _, item := range items {
		if pace.Wait(going) != nil {
			break // the activity ends, or an item could not be recorded
		}
		group.Go(func() error { return w.take(lasting, j, item) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// take takes the decision about an item and records what came of it. Its error means that this could not be recorded.
func (w *JobWorker) take(ctx context.Context, j *job.Job, item job.Item) error {
	result, note := job.Done, ""
	says, err := w.decide(ctx, j, item)
	if j.Noun() != "event" { // it has no receipt that shows what came of it
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
		w.Log.WarnContext(ctx, "an item of a job is tried again", "job", j.ID, "target", item.Target, "error",
			err)
		return w.Jobs.Tried(ctx, j.ID, item.Target, err.Error())
	default:
		result, note = job.Failed, err.Error()
	}
	return w.Jobs.End(ctx, j.ID, item.Target, result, note)
}

// decide does what the job does about an item, and returns what came of it.
func (w *JobWorker) decide(ctx context.Context, j *job.Job, item job.Item) (says string, err error) {
	d := Decision{
		Verb: j.Action, Target: item.Target, Who: j.Who, Why: j.Why + " (job " + j.ID + ")",
		Request: requestOf(j.ID, item.Target), item: &item,
		madeBy: Identity{j.Issuer, j.Subject},
		Args: Args{Effect: j.Effect, Reference: j.Reference, Found: j,
			To: billing.Announcement{OnlyTo: j.Filter["to"], Provision: j.Filter["provision"] == "true"}},
	}
	if j.Action == job.CloseTask {
		d.Mode, d.Kind, d.Target = taskOf(item.Target)
	}
	if j.Action == job.Reconcile {
		return w.reconcile(ctx, d, j.Filter["source"])
	}
	answer, err := w.Operator.Decide(ctx, d)
	if err != nil {
		return "", err
	}
	return answer.Says, nil
}

// taskOf reads the target of an item that is a task.
func taskOf(target string) (mode, kind, object string) {
	mode, rest, _ := strings.Cut(target, "/")
	kind, object, _ = strings.Cut(rest, "/")
	return mode, kind, object
}

// requestOf is the ID of the request about an item. An account's ID may be longer than a request's, or have spaces.
func requestOf(jobID, target string) string {
	id := jobID + "/" + target
	if len(id) <= MaxRequest && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return id
	}
	sum := sha256.Sum256([]byte(target))
	return jobID + "/" + hex.EncodeToString(sum[:16])
}

// refusal says in a line why an error means that a verb does nothing about an event as it is, false if it does not
// mean that.
func refusal(err error) (why string, refused bool) {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		return r.Why, true
	}
	return err.Error(), IsFault(err, Unknown)
}

// StopJob cancels a job whose run was cancelled in Temporal.
func (w *JobWorker) StopJob(ctx context.Context, in workflows.JobInput) (workflows.JobProgress, error) {
	_, err := w.Operator.Decide(ctx, Decision{
		Verb: verbCancelJob, Target: in.ID, Who: "Temporal", Why: "its run was cancelled there",
		Request: activity.GetInfo(ctx).WorkflowExecution.RunID,
		fromRun: true,
	})
	if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
		return workflows.JobProgress{}, err
	}
	j, err := w.Jobs.Get(ctx, in.ID)
	if err != nil {
		return workflows.JobProgress{}, err
	}
	return progress(j), nil
}

func progress(j *job.Job) workflows.JobProgress {
	return workflows.JobProgress{State: string(j.State), Note: j.StateNote, Items: j.Items, Done: j.Done,
		Refused: j.Refused, Failed: j.Failed}
}
