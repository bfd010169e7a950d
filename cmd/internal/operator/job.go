package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/pawlhq/pawl/schema/audit"
	"github.com/pawlhq/pawl/schema/job"
	"github.com/pawlhq/pawl/schema/receipt"
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
	// startJobWithin is how long Temporal may take to take a job's run.
	startJobWithin = 10 * time.Second
)

// ActsOn lists the statuses of events that a verb acts on in bulk; none for a verb that is about one event alone.
func ActsOn(verb string) []string {
	switch verb {
	case VerbRetry, VerbSkip:
		return []string{string(receipt.Dead), string(receipt.NeedsReview)}
	case VerbRun:
		return []string{string(receipt.Ignored), string(receipt.NeedsReview), string(receipt.Dead)}
	case VerbReplay:
		return []string{string(receipt.Processed), string(receipt.Compensated), string(receipt.NeedsReview), string(receipt.Dead)}
	}
	return nil
}

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
}

// TooManyError means that a filter lets more events pass than a job may have.
type TooManyError struct{}

func (*TooManyError) Error() string {
	return fmt.Sprintf("the filter lets more than %d events pass: narrow it, with a source, a type, an account or a time", MostJobItems)
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
			chosen.Events = append(chosen.Events, ChosenEvent{
				Receipt: r.ID, EventID: r.EventID, Type: r.Type, Status: r.Status, ReasonCode: r.ReasonCode, Account: r.OurAccount, Amount: r.Amount, Currency: r.Currency,
			})
			if r.Amount != nil && (r.ObjectID == "" || !counted[r.ObjectID]) {
				chosen.Money[r.Currency] += *r.Amount
				counted[r.ObjectID] = true
			}
			f.OlderThan = r.ID
		}
		if len(chosen.Events) > MostJobItems {
			return Chosen{}, &TooManyError{}
		}
		if len(page) < chosenPage {
			return chosen, nil
		}
	}
}

// Jobs makes, shows and steers bulk jobs. All of its fields are required to make and to resume one; Store is enough to
// look at them.
type Jobs struct {
	Store *job.Store
	Audit *audit.Store
	// Temporal takes the runs, on TaskQueue.
	Temporal  JobStarter
	TaskQueue string
}

// JobStarter starts the run of a job, or tells it that the job has changed; a client.Client.
type JobStarter interface {
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
}

// AnotherJobError means that a request ID stands for a job of other things.
type AnotherJobError struct{ Job *job.Job }

func (e *AnotherJobError) Error() string {
	return fmt.Sprintf("the request ID %s is taken by another job: a %s of %d events by %s (%s); use another ID, or none",
		e.Job.ID, e.Job.Action, e.Job.Items, e.Job.Who, e.Job.Why)
}

// NotStartedError means that a job is made and Temporal has not taken its run.
type NotStartedError struct {
	ID  string
	Err error
}

func (e *NotStartedError) Error() string {
	return fmt.Sprintf("the job %s is made, and Temporal did not take its run: %v; a worker starts it as soon as Temporal does: pawl jobs show %[1]s", e.ID, e.Err)
}

func (e *NotStartedError) Unwrap() error { return e.Err }

// CheckJobID refuses an ID that cannot name a job. "" is none, and fine. The requests about its events begin with it.
func CheckJobID(id string) error {
	if len(id) > 60 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the request ID of a job has 60 characters at most, of printable ASCII without spaces")
	}
	return nil
}

// Start makes the job j, of which ID may be "", about the chosen events, and starts it. Who decides and why stands in the
// audit trail before the first event is touched. It may be called again with the same ID: then it returns the job that
// is there, and false, and starts it where that was not done. The error is an [*AnotherJobError] where the ID stands for
// something else, and a [*NotStartedError] where the job was made and waits for [Jobs.Sweep].
func (o *Jobs) Start(ctx context.Context, j job.Job, chosen Chosen) (*job.Job, bool, error) {
	if err := accountable(j.Who, j.Why); err != nil {
		return nil, false, err
	}
	switch {
	case len(j.Who) > 200 || len(j.Why) > 1500 || strings.Contains(j.Who+j.Why, "\x00"):
		return nil, false, errors.New("who has 200 bytes at most, and why 1500, without NUL")
	case j.Rate < LeastJobRate || j.Rate > MostJobRate:
		return nil, false, fmt.Errorf("the rate is between %g and %g events a second", LeastJobRate, MostJobRate)
	}
	if err := CheckJobID(j.ID); err != nil {
		return nil, false, err
	}
	if j.ID == "" {
		j.ID = j.Action + "-" + uuid.NewString()[:8]
	}
	items := make([]job.Item, len(chosen.Events))
	for i, e := range chosen.Events {
		items[i] = job.Item{ReceiptID: e.Receipt, EventID: e.EventID}
	}
	j.Money = chosen.Money
	// Recorded before it is made, like everything that an operator does; the request ID stands for both.
	known, err := o.Store.Get(ctx, j.ID)
	if errors.Is(err, job.ErrNotFound) {
		if err = o.Audit.Append(ctx, audit.Action{
			RequestID: "job/" + j.ID, Actor: j.Who, Action: "start-job", Target: j.ID, Reason: j.Why,
			Before: map[string]any{}, After: map[string]any{"action": j.Action, "effect": j.Effect, "filter": j.Filter, "items": len(items), "money": j.Money, "rate": j.Rate},
		}); err != nil {
			return nil, false, err
		}
		var made bool
		if known, made, err = o.Store.Make(ctx, j, items); err == nil && made {
			return known, true, o.run(ctx, known)
		}
	}
	if err != nil {
		return nil, false, err
	}
	if known.Action != j.Action || known.Effect != j.Effect || !maps.Equal(known.Filter, j.Filter) || known.Who != j.Who {
		return nil, false, &AnotherJobError{Job: known}
	}
	if known.State == job.Running {
		err = o.run(ctx, known)
	}
	return known, false, err
}

// run starts the job's run where there is none, and tells it that the job has changed where there is one.
func (o *Jobs) run(ctx context.Context, j *job.Job) error {
	ctx, cancel := context.WithTimeout(ctx, startJobWithin)
	defer cancel()
	in := workflows.JobInput{ID: j.ID}
	_, err := o.Temporal.SignalWithStartWorkflow(ctx, in.WorkflowID(), workflows.SignalJobChanged, nil, client.StartWorkflowOptions{
		TaskQueue: o.TaskQueue, StaticSummary: fmt.Sprintf("%s of %d events", j.Action, j.Items),
	}, workflows.Job, in)
	if err != nil {
		return &NotStartedError{ID: j.ID, Err: err}
	}
	return o.Store.Started(ctx, j.ID)
}

// Sweep starts the jobs that were made and whose run Temporal has not taken. A job is started once; a run that was ended
// in Temporal is not started again.
func (o *Jobs) Sweep(ctx context.Context) error {
	list, err := o.Store.Unstarted(ctx)
	if err != nil {
		return err
	}
	for _, j := range list {
		if err := o.run(ctx, &j); err != nil {
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

// UnknownJobError means that no job has the ID.
type UnknownJobError struct{ ID string }

func (e *UnknownJobError) Error() string {
	return fmt.Sprintf("no job %q: pawl jobs list shows them", e.ID)
}

// Show returns a job with at most so many of its items; only narrows those to a result, or to "open".
func (o *Jobs) Show(ctx context.Context, id, only string, limit int) (*JobDetails, error) {
	j, err := o.get(ctx, id)
	if err != nil {
		return nil, err
	}
	d := &JobDetails{Job: j}
	if d.Events, err = o.Store.Standing(ctx, id); err != nil {
		return nil, err
	}
	d.List, err = o.Store.Items(ctx, id, only, limit)
	return d, err
}

func (o *Jobs) get(ctx context.Context, id string) (*job.Job, error) {
	j, err := o.Store.Get(ctx, id)
	if errors.Is(err, job.ErrNotFound) {
		return nil, &UnknownJobError{ID: id}
	}
	return j, err
}

// JobStateError means that a job cannot be paused, resumed or cancelled in the state that it is in.
type JobStateError struct {
	Job  *job.Job
	Verb string
}

func (e *JobStateError) Error() string {
	switch e.Job.State {
	case job.Finished:
		return fmt.Sprintf("the job %s is finished: there is nothing to %s", e.Job.ID, e.Verb)
	case job.Cancelled:
		return fmt.Sprintf("the job %s is cancelled: there is nothing to %s; a new one takes what is left", e.Job.ID, e.Verb)
	}
	return fmt.Sprintf("the job %s is %s already", e.Job.ID, e.Job.State)
}

// MovedJob is a job that was paused, resumed or cancelled, as it stands now.
type MovedJob struct {
	*job.Job
	Repeat
}

// Pause lets a running job stand still after the events that are under way. It needs no Temporal. Pause, Cancel and
// Resume, repeated with a request ID, do nothing and return the job as it stands.
func (o *Jobs) Pause(ctx context.Context, id string, by Decided) (*MovedJob, error) {
	return o.move(ctx, "pause", id, by, job.Paused, job.Running)
}

// Cancel ends a job after the events that are under way. What was not begun stays as it was.
func (o *Jobs) Cancel(ctx context.Context, id string, by Decided) (*MovedJob, error) {
	j, err := o.move(ctx, "cancel", id, by, job.Cancelled, job.Running, job.Paused)
	if err != nil || j.Repeated {
		return j, err
	}
	// A paused run waits for a signal. One that runs sees it by itself, and the job is cancelled in any case.
	_ = o.run(ctx, j.Job)
	return j, nil
}

// Resume lets a paused job go on, and starts the run of one that has none: it was never taken by Temporal, or was ended
// there.
func (o *Jobs) Resume(ctx context.Context, id string, by Decided) (*MovedJob, error) {
	j, err := o.move(ctx, "resume", id, by, job.Running, job.Paused, job.Running)
	if err != nil || j.State != job.Running {
		return j, err
	}
	return j, o.run(ctx, j.Job) // also where the command died in between, and is repeated
}

// move records who brings a job from one of the states to another, and why, and does it.
func (o *Jobs) move(ctx context.Context, verb, id string, by Decided, to job.State, from ...job.State) (*MovedJob, error) {
	if err := by.check(); err != nil {
		return nil, err
	}
	j, err := o.get(ctx, id)
	if err != nil {
		return nil, err
	}
	action := audit.Action{
		RequestID: by.id("job/" + id), Actor: by.Who, Action: verb + "-job", Target: id, Reason: by.Why,
		Before: map[string]any{"state": j.State, "done": j.Done, "refused": j.Refused, "failed": j.Failed, "left": j.Left()},
		After:  map[string]any{"state": to},
	}
	recorded, repeat, err := by.earlier(ctx, o.Audit, action)
	switch {
	case err != nil:
		return nil, err
	case recorded != nil:
		return &MovedJob{j, repeat}, nil
	case !slices.Contains(from, j.State):
		return nil, &JobStateError{Job: j, Verb: verb}
	}
	note := verb + "d by " + by.Who + ": " + by.Why
	if verb == "cancel" {
		note = "cancelled by " + by.Who + ": " + by.Why
	}
	if to == job.Running {
		note = ""
	}
	added, err := o.Audit.AppendWith(ctx, action, func(ctx context.Context, tx pgx.Tx) (err error) {
		var moved bool
		j, moved, err = job.MoveIn(ctx, tx, id, to, note, from...)
		if err == nil && !moved { // it ended meanwhile
			err = &JobStateError{Job: j, Verb: verb}
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !added: // the same request, at this moment
		return o.move(ctx, verb, id, by, to, from...)
	}
	return &MovedJob{Job: j}, nil
}
