package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/cmd/internal/operator/decide"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/workflows/jobs"
)

// CheckMany validates the event status and the rate of a bulk decision.
func CheckMany(v *decide.Verb, status string, rate float64) error {
	if !slices.Contains(v.Many, status) {
		return fmt.Errorf("status: %s is possible for events that are %s", v.Name, strings.Join(v.Many, " or "))
	}
	return checkRate(rate, "event")
}

func checkRate(rate float64, noun string) error {
	if rate >= LeastRate && rate <= MostRate { // rejects NaN, too
		return nil
	}
	return fmt.Errorf("rate: write a number of %ss per second, from %g to %g", noun, LeastRate, MostRate)
}

// Check validates the limits of a job.
func Check(d *decide.Decision, rate float64, noun string) error {
	switch {
	case len(d.Request) > MaxID:
		return fmt.Errorf("the request ID of a job has %d characters at most", MaxID)
	case len(d.Reason) > maxJobWhy:
		return fmt.Errorf("the reason of a job has %d bytes at most", maxJobWhy)
	}
	return checkRate(rate, noun)
}

// Authored returns the job with the person and the reason of the decision.
func Authored(d *decide.Decision, j job.Job) job.Job {
	by := d.Identity()
	j.Actor, j.Issuer, j.Subject, j.Reason = d.Actor, by.Issuer, by.Subject, d.Reason
	return j
}

// Insert inserts the job in tx. It refuses an ID that another job has.
func Insert(ctx context.Context, d *decide.Decision, tx pgx.Tx, j job.Job, items []job.Item) error {
	err := job.MakeIn(ctx, tx, j, items)
	if errors.Is(err, job.ErrTaken) {
		err = d.Reused("another job")
	}
	return err
}

// run starts the run of the job. If the run exists, run signals to it that the job has changed.
func run(ctx context.Context, o *decide.Operator, j *job.Job) error {
	ctx, cancel := context.WithTimeout(ctx, startJobWithin)
	defer cancel()
	in := jobs.Input{ID: j.ID}
	_, err := o.Temporal.SignalWithStartWorkflow(ctx, in.WorkflowID(), jobs.SignalChanged, nil,
		client.StartWorkflowOptions{
			TaskQueue: o.TaskQueue, StaticSummary: fmt.Sprintf("%s of %d %ss", j.Action, j.Items, j.Noun()),
		}, jobs.Job, in)
	if err != nil {
		return fmt.Errorf("the job %s is stored, but Temporal did not start its run: %w; a worker starts it as soon as Temporal accepts it: pawl jobs show %[1]s", j.ID, err)
	}
	return job.New(o.DB).Started(ctx, j.ID)
}

// RunNew returns a new job and starts its run.
func RunNew(ctx context.Context, o *decide.Operator, id string) (*job.Job, error) {
	j, err := get(ctx, o, id)
	if err == nil && j.State == job.Running {
		err = run(ctx, o, j)
	}
	return j, err
}

// Sweep starts the runs of jobs that Temporal did not accept when the jobs were created. It does not restart a run
// that was terminated.
func Sweep(ctx context.Context, o *decide.Operator) error {
	list, err := job.New(o.DB).Unstarted(ctx)
	if err != nil {
		return err
	}
	for _, j := range list {
		if err := run(ctx, o, &j); err != nil {
			return err
		}
	}
	return nil
}

const verbStart = "start-job"

// Start is the decision to start a job. Its Found is a [*decide.NewJob], and its result a [*job.Job].
var Start = decide.Verb{Name: verbStart, Target: "ID", Short: "Decide about many events", Rule: startRule}

// startRule creates a job and starts its run. The audit record is committed with the job, before the first item is
// processed. The ID of the job is the request ID. If Temporal is unavailable, a worker starts the run later.
var startRule = decide.Rule[*decide.NewJob, *job.Job]{
	Find: func(ctx context.Context, d *decide.Decision) (j *decide.NewJob, key string, err error) {
		j, key, err = decide.Shown(func(*decide.NewJob) string { return "job" })(ctx, d)
		if err == nil && j.Confirms != "" && !d.DryRun {
			return confirmed(ctx, d, j)
		}
		return j, key, err
	},
	Check: func(_ context.Context, d *decide.Decision, j *decide.NewJob) (*decide.Change, error) {
		j.Job = Authored(d, j.Job)
		j.ID, j.Money = d.Request, j.Chosen.Money
		if err := Check(d, j.Rate, j.Noun()); err != nil {
			return nil, err
		}
		verb, err := d.Operator.ItemVerb(j)
		if err != nil {
			return nil, err
		}
		items := j.Items()
		return &decide.Change{
			Target: j.ID, Judges: j.JudgesMoney(verb), Money: j.Money, State: j.Content(items),
			Confirmed: func(first string) { j.AskedBy = first },
			After: map[string]any{"action": j.Action, "effect": j.Effect, "reference": j.Reference,
				"filter": j.Filter, "items": len(items), "money": j.Money, "rate": j.Rate},
			Do: func(ctx context.Context, tx pgx.Tx) error { return Insert(ctx, d, tx, j.Job, items) },
		}, nil
	},
	Act: func(ctx context.Context, d *decide.Decision, j *decide.NewJob, _ decide.Recorded) (string, *job.Job, error) {
		known, err := get(ctx, d.Operator, d.Request)
		if err != nil {
			return "", nil, err
		}
		if known.Action != j.Action || known.Effect != j.Effect || known.Reference != j.Reference ||
			!maps.Equal(known.Filter, j.Filter) || known.Actor != d.Actor {
			return "", nil, d.Reused(fmt.Sprintf("another job: a %s of %d %ss by %s (%s)", known.Action, known.Items,
				known.Noun(), known.Actor, known.Reason))
		}
		if known.State == job.Running {
			err = run(ctx, d.Operator, known)
		}
		return known.Message(), known, err
	},
}
