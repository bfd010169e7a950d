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
	// MostJobItems bounds a job: whoever acts on more has not looked at what they act on.
	MostJobItems = 50_000
	// chosenPage is how many receipts are read at once while a job's events are chosen.
	chosenPage = 1000
	// LeastJobRate is in events a second.
	LeastJobRate = 0.1
	// MostJobRate is, too: a decision takes some milliseconds of every part there is.
	MostJobRate = 100.0
	// MaxJobID bounds the ID of a job, in bytes: the requests about its events begin with it.
	MaxJobID = 60
	// maxJobWhy bounds the reason of a job, in bytes: the requests about its events add the job's ID to it.
	maxJobWhy = workflows.MaxWhy - 500
	// startJobWithin is how long Temporal may take to take a job's run.
	startJobWithin = 10 * time.Second
)

var errTooMany = invalid("the filter lets more than %d events pass: narrow it, with a source, a type, an account or "+
	"a time", MostJobItems)

// Chosen are the events that a job is about, or would be.
type Chosen struct {
	Events []ChosenEvent `json:"events"`
	// Money is what they are about, in minor units by currency, as far as it is known. Several events about one object
	// count once.
	Money map[string]int64 `json:"money"`
}

// ChosenEvent is one of them.
type ChosenEvent struct {
	Receipt    string `json:"receipt"`
	EventID    string `json:"event_id"`
	Type       string `json:"type"`
	Status     string `json:"status"`
	ReasonCode string `json:"reason_code"`
	Account    string `json:"account"`
	Amount     *int64 `json:"amount"`
	Currency   string `json:"currency,omitempty"`
	// LiveMoney and Reviewed decide whether a verb about the event needs two people: whether the event is about live
	// money, and whether a person reviews it or has rejected it.
	LiveMoney bool `json:"live_money"`
	Reviewed  bool `json:"reviewed"`
	// UpdatedAt is when the event had changed last. A job leaves an event out that changes later.
	UpdatedAt time.Time `json:"updated_at"`
}

func chosenOf(r timeline.Receipt) ChosenEvent {
	return ChosenEvent{Receipt: r.ID, EventID: r.EventID, Type: r.Type, Status: r.Status, ReasonCode: r.ReasonCode,
		Account: r.OurAccount, Amount: r.Amount, Currency: r.Currency, LiveMoney: liveMoney(&r), Reviewed: reviewed(&r),
		UpdatedAt: r.UpdatedAt}
}

// CountEvents returns how many events pass f, and what [ChooseEvents] would return, with the newest events alone.
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

// ChooseEvents returns all events that pass f, the newest first. It reads them in pages.
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

// NewJob is a job that is to be made, about the chosen events, or about accounts or tasks. Its ID may be "".
type NewJob struct {
	job.Job
	Chosen Chosen
	Others []job.Item
	// Confirms is the ID of the pending job that the second person makes; see [ConfirmedJob].
	Confirms string
}

// items are what the job is about.
func (j *NewJob) items() []job.Item {
	items := j.Others
	for _, e := range j.Chosen.Events {
		items = append(items, job.Item{Target: e.Receipt, Name: e.EventID, Seen: &e.UpdatedAt})
	}
	return items
}

// state is what the second person confirms: the pending job itself, with its list.
func (j *NewJob) state(items []job.Item) any {
	return []any{j.Action, j.Effect, j.Reference, j.Filter, j.Rate, items}
}

// what says what it is about: "12 events".
func (j *NewJob) what() string { return fmt.Sprintf("%d %ss", len(j.items()), j.Noun()) }

// makes returns a job as the person of the decision makes it.
func (d *Decision) makes(j job.Job) job.Job {
	by := d.identity()
	j.Who, j.Issuer, j.Subject, j.Why = d.Who, by.Issuer, by.Subject, d.Why
	return j
}

// makeJob makes a job in tx, and refuses an ID that another job has.
func (d *Decision) makeJob(ctx context.Context, tx pgx.Tx, j job.Job, items []job.Item) error {
	err := job.MakeIn(ctx, tx, j, items)
	if errors.Is(err, job.ErrTaken) {
		err = d.reused("another job")
	}
	return err
}

// checkJob refuses a decision whose job could not be made.
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
	if rate >= LeastJobRate && rate <= MostJobRate { // which NaN is not
		return nil
	}
	return fmt.Errorf("rate: write a number of %ss a second, from %g to %g", noun, LeastJobRate, MostJobRate)
}

// CheckMany returns an error if no job of this verb can be about events of a status, or go at a rate.
func (v *Verb) CheckMany(status string, rate float64) error {
	if !slices.Contains(v.Many, status) {
		return fmt.Errorf("status: %s acts on events that are %s", v.Name, strings.Join(v.Many, " or "))
	}
	return checkRate(rate, "event")
}

// startJobRule makes the job of a [*NewJob] and starts it. The audit trail has who decides and why before the
// first event is touched. The request's ID is the job's. A worker starts a job that Temporal did not take.
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

// runJob starts the job's run, or tells a running one that the job has changed.
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

// runMade returns a job that was just made, and starts its run.
func (o *Operator) runMade(ctx context.Context, id string) (*job.Job, error) {
	j, err := o.getJob(ctx, id)
	if err == nil && j.State == job.Running {
		err = o.runJob(ctx, j)
	}
	return j, err
}

// SweepJobs starts the jobs that were made and whose run Temporal has not taken. A job is started once; a run that was
// ended in Temporal is not started again.
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

// JobDetails is a job with what came of it.
type JobDetails struct {
	*job.Job
	// Events says how those events stand now about which the job has decided.
	Events []job.Standing `json:"events"`
	// List holds some of its items, those first that failed or were refused.
	List []job.Item `json:"list"`
}

// ShowJob returns a job with at most so many of its items; only narrows those to a result, or to "open".
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

// jobMoves are the verbs that change the state of a job: the states before, the state after, and how its note begins.
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

// jobRule pauses, resumes or cancels a job. A pause and an end let the events go on that are under way, and need no
// Temporal. A resumed job without a run is started: Temporal never took it, or somebody ended it there.
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
				if err == nil && !moved { // it ended meanwhile
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
			// A paused run waits for a signal. One that runs sees it by itself, and the job is cancelled in any case.
			_ = d.o.runJob(ctx, j)
		case d.Verb != verbCancelJob && j.State == job.Running:
			err = d.o.runJob(ctx, j) // also if the command died in between, and is repeated
		}
		return fmt.Sprintf("it is %s: %d done, %d refused, %d failed, %d left", j.State, j.Done, j.Refused, j.Failed,
			j.Left()), j, err
	},
}

// refuseJob says that a job cannot be paused, resumed or cancelled as it stands.
func refuseJob(d *Decision, j *job.Job) error {
	switch j.State {
	case job.Finished:
		return d.refuse("is finished: there is nothing to do")
	case job.Cancelled:
		return d.refuse("is cancelled: a new job takes what is left")
	}
	return d.refuse("is %s already", j.State)
}
