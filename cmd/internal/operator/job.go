package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/timeline"
	"github.com/pawlhq/pawl/workflows"
)

const (
	// MostJobItems is the maximum number of items in a job. Nobody can review a longer list.
	MostJobItems = 50_000
	// chosenPage is the page size for reading the events of a job.
	chosenPage = 1000
	// LeastJobRate is the minimum rate, in events per second.
	LeastJobRate = 0.1
	// MostJobRate is the maximum rate, in events per second. Each decision needs several milliseconds of Postgres and
	// Temporal.
	MostJobRate = 100.0
	// MaxJobID is the maximum length of a job ID in bytes. The request IDs of its items start with it.
	MaxJobID = 60
	// maxJobWhy is the maximum length of the reason in bytes. The decisions about its items append the job ID to it.
	maxJobWhy = workflows.MaxWhy - 500
	// startJobWithin is the timeout for starting the job's run.
	startJobWithin = 10 * time.Second
)

var errTooMany = invalid("the filter lets more than %d events pass: narrow it, with a source, a type, an account or "+
	"a time", MostJobItems)

// Chosen lists the events of a job with the sum of their amounts.
type Chosen struct {
	Events []ChosenEvent `json:"events"`
	// Money is the sum of the known amounts in minor units, by currency. An object with several events counts once.
	Money map[string]int64 `json:"money"`
}

// ChosenEvent is an event of a job.
type ChosenEvent struct {
	Receipt    string `json:"receipt"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	Status     string `json:"status"`
	ReasonCode string `json:"reason_code"`
	Account    string `json:"account"`
	Amount     *int64 `json:"amount"`
	Currency   string `json:"currency,omitempty"`
	// LiveMoney is set for an event about live money. Reviewed is set if a person has to review the event or has
	// rejected it. Together they determine whether a decision needs two people.
	LiveMoney bool `json:"live_money"`
	Reviewed  bool `json:"reviewed"`
	// UpdatedAt is the time of the last change. The job skips an event that has changed since.
	UpdatedAt time.Time `json:"updated_at"`
}

func chosenOf(r timeline.Receipt) ChosenEvent {
	return ChosenEvent{Receipt: r.ID, EventID: r.EventID, Type: r.Type, Status: r.Status, ReasonCode: r.ReasonCode,
		Account: r.OurAccount, Amount: r.Amount, Currency: r.Currency, LiveMoney: liveMoney(&r), Reviewed: reviewed(&r),
		UpdatedAt: r.UpdatedAt}
}

// CountEvents counts the events that match f. It returns the sum of all and the newest events.
func CountEvents(ctx context.Context, db timeline.DB, f Events, newest int) (count int, chosen Chosen, err error) {
	if err := f.resolve(ctx, db); err != nil {
		return 0, chosen, err
	}
	sum, err := timeline.SumUp(ctx, db, f.Filter, MostJobItems)
	if err == nil && sum.Events > MostJobItems {
		err = errTooMany
	}
	if err != nil {
		return 0, chosen, err
	}
	f.Limit = newest
	first, err := timeline.List(ctx, db, f.Filter)
	for _, r := range first {
		chosen.Events = append(chosen.Events, chosenOf(r))
	}
	chosen.Money = sum.Money
	return sum.Events, chosen, err
}

// ChooseEvents returns all events that match f, newest first. It fails if there are more than [MostJobItems].
func ChooseEvents(ctx context.Context, db timeline.DB, f Events) (Chosen, error) {
	chosen, counted := Chosen{Events: []ChosenEvent{}, Money: map[string]int64{}}, map[string]bool{}
	for f.Limit = chosenPage; ; {
		page, err := ListEvents(ctx, db, f)
		if err != nil {
			return Chosen{}, err
		}
		for _, r := range page {
			chosen.Events = append(chosen.Events, chosenOf(r))
			if r.Amount != nil && (r.ObjectID == "" || !counted[r.ObjectID]) {
				chosen.Money[r.Currency] = schema.Plus(chosen.Money[r.Currency], *r.Amount)
				counted[r.ObjectID] = true
			}
			f.OlderThan = r.ID
		}
		if len(chosen.Events) > MostJobItems {
			return Chosen{}, errTooMany
		}
		if len(page) < chosenPage {
			return chosen, nil
		}
	}
}

// NewJob is a job that does not exist yet. Its items are events (Chosen), accounts or tasks (Others). Its ID may be
// empty.
type NewJob struct {
	job.Job
	Chosen Chosen
	Others []job.Item
	// Confirms is the ID of the pending job that the second person confirms; see [ConfirmedJob].
	Confirms string
}

// items returns the items of the job.
func (j *NewJob) items() []job.Item {
	items := j.Others
	for _, e := range j.Chosen.Events {
		items = append(items, job.Item{Target: e.Receipt, Name: e.EventID, Seen: &e.UpdatedAt})
	}
	return items
}

// state returns the values that the second person confirms. It includes all items.
func (j *NewJob) state(items []job.Item) any {
	return []any{j.Action, j.Effect, j.Reference, j.Filter, j.Rate, items}
}

// what returns the number of items and their noun, for example "12 events".
func (j *NewJob) what() string { return fmt.Sprintf("%d %ss", len(j.items()), j.Noun()) }

// makes returns the job with the person and the reason of the decision.
func (d *Decision) makes(j job.Job) job.Job {
	by := d.identity()
	j.Who, j.Issuer, j.Subject, j.Why = d.Who, by.Issuer, by.Subject, d.Why
	return j
}

// makeJob inserts the job in tx. It refuses an ID that another job has.
func (d *Decision) makeJob(ctx context.Context, tx pgx.Tx, j job.Job, items []job.Item) error {
	err := job.MakeIn(ctx, tx, j, items)
	if errors.Is(err, job.ErrTaken) {
		err = d.reused("another job")
	}
	return err
}

// checkJob validates the limits of a job.
func checkJob(d *Decision, rate float64, noun string) error {
	switch {
	case len(d.Request) > MaxJobID:
		return fmt.Errorf("the request ID of a job has %d characters at most", MaxJobID)
	case len(d.Why) > maxJobWhy:
		return fmt.Errorf("the reason of a job has %d bytes at most", maxJobWhy)
	}
	return checkRate(rate, noun)
}

func checkRate(rate float64, noun string) error {
	if rate >= LeastJobRate && rate <= MostJobRate { // rejects NaN, too
		return nil
	}
	return fmt.Errorf("rate: write a number of %ss a second, from %g to %g", noun, LeastJobRate, MostJobRate)
}

// CheckMany validates the event status and the rate of a bulk decision.
func (v *Verb) CheckMany(status string, rate float64) error {
	if !slices.Contains(v.Many, status) {
		return fmt.Errorf("status: %s acts on events that are %s", v.Name, strings.Join(v.Many, " or "))
	}
	return checkRate(rate, "event")
}

// startJobRule creates a job and starts its run. The audit record is committed with the job, before the first item is
// processed. The ID of the job is the request ID. If Temporal is unavailable, a worker starts the run later.
var startJobRule = rule[*NewJob, *job.Job]{
	find: func(ctx context.Context, d *Decision) (j *NewJob, key string, err error) {
		j, key, err = shown(func(*NewJob) string { return "job" })(ctx, d)
		if err == nil && j.Confirms != "" && !d.preview {
			return d.confirmedJob(ctx, j)
		}
		return j, key, err
	},
	check: func(_ context.Context, d *Decision, j *NewJob) (*change, error) {
		j.Job = d.makes(j.Job)
		j.ID, j.Money = d.Request, j.Chosen.Money
		if err := checkJob(d, j.Rate, j.Noun()); err != nil {
			return nil, err
		}
		items := j.items()
		return &change{
			target: j.ID, judges: j.judges(), money: j.Money, state: j.state(items),
			after: map[string]any{"action": j.Action, "effect": j.Effect, "reference": j.Reference,
				"filter": j.Filter, "items": len(items), "money": j.Money, "rate": j.Rate},
			do: func(ctx context.Context, tx pgx.Tx) error { return d.makeJob(ctx, tx, j.Job, items) },
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, j *NewJob, _ recorded) (string, *job.Job, error) {
		known, err := d.o.getJob(ctx, d.Request)
		if err != nil {
			return "", nil, err
		}
		if known.Action != j.Action || known.Effect != j.Effect || known.Reference != j.Reference ||
			!maps.Equal(known.Filter, j.Filter) || known.Who != d.Who {
			return "", nil, d.reused(fmt.Sprintf("another job: a %s of %d %ss by %s (%s)", known.Action, known.Items,
				known.Noun(), known.Who, known.Why))
		}
		if known.State == job.Running {
			err = d.o.runJob(ctx, known)
		}
		return known.Says(), known, err
	},
}

// runJob starts the job's run. If the run exists, it signals that the job has changed.
func (o *Operator) runJob(ctx context.Context, j *job.Job) error {
	ctx, cancel := context.WithTimeout(ctx, startJobWithin)
	defer cancel()
	in := workflows.JobInput{ID: j.ID}
	_, err := o.Temporal.SignalWithStartWorkflow(ctx, in.WorkflowID(), workflows.SignalJobChanged, nil,
		client.StartWorkflowOptions{
			TaskQueue: o.TaskQueue, StaticSummary: fmt.Sprintf("%s of %d %ss", j.Action, j.Items, j.Noun()),
		}, workflows.Job, in)
	if err != nil {
		return fmt.Errorf("the job %s is made, and Temporal did not take its run: %w; a worker starts it as soon as Temporal does: pawl jobs show %[1]s", j.ID, err)
	}
	return job.New(o.DB).Started(ctx, j.ID)
}

// runMade returns a new job and starts its run.
func (o *Operator) runMade(ctx context.Context, id string) (*job.Job, error) {
	j, err := o.getJob(ctx, id)
	if err == nil && j.State == job.Running {
		err = o.runJob(ctx, j)
	}
	return j, err
}

// SweepJobs starts the runs of jobs that Temporal did not accept at first. It does not restart a run that was
// terminated.
func (o *Operator) SweepJobs(ctx context.Context) error {
	list, err := job.New(o.DB).Unstarted(ctx)
	if err != nil {
		return err
	}
	for _, j := range list {
		if err := o.runJob(ctx, &j); err != nil {
			return err
		}
	}
	return nil
}

// JobDetails is a job with its results.
type JobDetails struct {
	*job.Job
	// Events counts the events that the job has decided about, by their current status.
	Events []job.Standing `json:"events"`
	// List contains some of the items, failed and refused items first.
	List []job.Item `json:"list"`
}

// ShowJob returns a job with at most limit items. only selects the items with a result, or the "open" items.
func (o *Operator) ShowJob(ctx context.Context, id, only string, limit int) (*JobDetails, error) {
	j, err := o.getJob(ctx, id)
	if err != nil {
		return nil, err
	}
	d, store := &JobDetails{Job: j}, job.New(o.DB)
	if d.Events, err = store.Standing(ctx, id); err != nil {
		return nil, err
	}
	d.List, err = store.Items(ctx, id, only, limit)
	return d, err
}

func (o *Operator) getJob(ctx context.Context, id string) (*job.Job, error) {
	j, err := job.New(o.DB).Get(ctx, id)
	if errors.Is(err, schema.ErrNotFound) {
		return nil, unknown("no job %q: pawl jobs list shows them", id)
	}
	return j, err
}

// jobMoves maps a verb to the valid states of the job, the new state, and the beginning of the note.
var jobMoves = map[string]struct {
	from []job.State
	to   job.State
	note string
}{
	"pause-job":   {[]job.State{job.Running}, job.Paused, "paused"},
	"resume-job":  {[]job.State{job.Paused, job.Running}, job.Running, ""},
	verbCancelJob: {[]job.State{job.Running, job.Paused}, job.Cancelled, "cancelled"},
}

const verbCancelJob = "cancel-job"

// jobRule pauses, resumes or cancels a job. Pause and cancel let running items finish, and work without Temporal.
// Resume also starts the run if Temporal never accepted it or if it was terminated.
var jobRule = rule[*job.Job, *job.Job]{
	find: func(ctx context.Context, d *Decision) (*job.Job, string, error) {
		j, err := d.o.getJob(ctx, d.Target)
		return j, "job/" + d.Target, err
	},
	check: func(_ context.Context, d *Decision, j *job.Job) (*change, error) {
		move := jobMoves[d.Verb]
		if !slices.Contains(move.from, j.State) {
			return nil, refuseJob(d, j)
		}
		note := ""
		if move.note != "" {
			note = move.note + " by " + d.Who + ": " + d.Why
		}
		return &change{
			target: j.ID, after: map[string]any{"state": move.to},
			before: map[string]any{"state": j.State, "done": j.Done, "refused": j.Refused, "failed": j.Failed,
				"left": j.Left()},
			do: func(ctx context.Context, tx pgx.Tx) error {
				now, moved, err := job.MoveIn(ctx, tx, j.ID, move.to, note, move.from...)
				if err == nil && !moved { // the job has finished since the check
					err = refuseJob(d, now)
				}
				return err
			},
		}, nil
	},
	answer: func(ctx context.Context, d *Decision, j *job.Job, _ recorded) (string, *job.Job, error) {
		j, err := d.o.getJob(ctx, j.ID)
		if err != nil {
			return "", nil, err
		}
		switch {
		case d.Verb == verbCancelJob && !d.fromRun:
			// This wakes a paused run. A running one notices the change without a signal, so an error is ignored.
			_ = d.o.runJob(ctx, j)
		case d.Verb != verbCancelJob && j.State == job.Running:
			err = d.o.runJob(ctx, j) // a repeated request starts the run if the first call failed before it
		}
		return fmt.Sprintf("it is %s: %d done, %d refused, %d failed, %d left", j.State, j.Done, j.Refused, j.Failed,
			j.Left()), j, err
	},
}

// refuseJob returns the refusal of a change that the state of the job does not allow.
func refuseJob(d *Decision, j *job.Job) error {
	switch j.State {
	case job.Finished:
		return d.refuse("is finished: there is nothing to do")
	case job.Cancelled:
		return d.refuse("is cancelled: a new job takes what is left")
	}
	return d.refuse("is %s already", j.State)
}
