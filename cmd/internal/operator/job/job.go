// Package job implements bulk jobs: their verbs, their preview, and the worker that decides about each item.
package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows"
)

const (
	// LeastRate is the minimum rate, in events per second.
	LeastRate = 0.1
	// MostRate is the maximum rate, in events per second. Each decision needs several milliseconds of Postgres and
	// Temporal.
	MostRate = 100.0
	// MaxID is the maximum length of a job ID in bytes. The request IDs of its items start with it.
	MaxID = 60
	// maxJobWhy is the maximum length of the reason in bytes. The decisions about its items append the job ID to it.
	maxJobWhy = workflows.MaxWhy - 500
	// startJobWithin is the timeout for starting the job's run.
	startJobWithin = 10 * time.Second
)

// Details is a job with its results.
type Details struct {
	*job.Job
	// Events counts the events that the job has decided about, by their current status.
	Events []job.Standing `json:"events"`
	// List contains some of the items, failed and refused items first.
	List []job.Item `json:"list"`
}

// Show returns a job with at most limit items. only selects the items with a result, or the "open" items.
func Show(ctx context.Context, o *decide.Operator, id, only string, limit int) (*Details, error) {
	j, err := get(ctx, o, id)
	if err != nil {
		return nil, err
	}
	d, store := &Details{Job: j}, job.New(o.DB)
	if d.Events, err = store.Standing(ctx, id); err != nil {
		return nil, err
	}
	d.List, err = store.Items(ctx, id, only, limit)
	return d, err
}

func get(ctx context.Context, o *decide.Operator, id string) (*job.Job, error) {
	j, err := job.New(o.DB).Get(ctx, id)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, decide.Unknownf("no job %q: pawl jobs list shows all jobs", id)
	}
	return j, err
}

// runCancelled is the [decide.Args].Found of a decision that cancels a job because its run was cancelled in Temporal.
type runCancelled struct{}

// ruleOf returns the rule that moves a job from one of the given states to another state. The note in the job starts
// with the parameter note, and stays empty if note is empty. Pause and cancel let running items finish, and work
// without Temporal. Resume also starts the run if Temporal never accepted it, or if it was terminated.
func ruleOf(to job.State, note string, from ...job.State) decide.Rule[*job.Job, *job.Job] {
	return decide.Rule[*job.Job, *job.Job]{
		Find: func(ctx context.Context, d *decide.Decision) (*job.Job, string, error) {
			j, err := get(ctx, d.Operator, d.Target)
			return j, "job/" + d.Target, err
		},
		Check: func(_ context.Context, d *decide.Decision, j *job.Job) (*decide.Change, error) {
			if !slices.Contains(from, j.State) {
				return nil, refused(d, j)
			}
			text := ""
			if note != "" {
				text = note + d.Actor + ": " + d.Reason
			}
			return &decide.Change{
				Target: j.ID, After: map[string]any{"state": to},
				Before: map[string]any{"state": j.State, "done": j.Done, "refused": j.Refused, "failed": j.Failed,
					"remaining": j.Left()},
				Do: func(ctx context.Context, tx pgx.Tx) error {
					now, moved, err := job.MoveIn(ctx, tx, j.ID, to, text, from...)
					if err == nil && !moved { // the job has finished after the check
						err = refused(d, now)
					}
					return err
				},
			}, nil
		},
		Act: func(ctx context.Context, d *decide.Decision, j *job.Job, _ decide.Recorded) (string, *job.Job, error) {
			j, err := get(ctx, d.Operator, j.ID)
			if err != nil {
				return "", nil, err
			}
			_, stopped := d.Found.(runCancelled)
			switch {
			case to == job.Cancelled && !stopped:
				// The signal wakes up a paused run. A running run notices the change without a signal, so an error is
				// ignored.
				_ = run(ctx, d.Operator, j)
			case to != job.Cancelled && j.State == job.Running:
				// if the first call failed before it started the run, a repeated request starts it
				err = run(ctx, d.Operator, j)
			}
			return fmt.Sprintf("it is %s: %d done, %d refused, %d failed, %d left", j.State, j.Done, j.Refused,
				j.Failed, j.Left()), j, err
		},
	}
}

// refused returns the refusal of a change that the state of the job does not allow.
func refused(d *decide.Decision, j *job.Job) error {
	switch j.State {
	case job.Finished:
		return d.Refuse("is finished: there is nothing to do")
	case job.Cancelled:
		return d.Refuse("is cancelled: start a new job for the remaining items")
	}
	return d.Refuse("is %s already", j.State)
}
