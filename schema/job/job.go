// Package job stores the bulk jobs of operators. A job is one decision about many events, which are fixed when the job
// is made, with a result for each.
package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlhq/pawl/schema"
)

// State is the state of a job.
type State string

// The states. Finished: each item has its result. Cancelled: a person stopped the job for good, and the remaining
// events did not change.
const (
	Running   State = "running"
	Paused    State = "paused"
	Cancelled State = "cancelled"
	Finished  State = "finished"
)

// Result is the result of an item.
type Result string

// The results. Done: the decision was made; the event's receipt shows its further course. Refused: the decision was not
// possible, for the reason in the note, and nothing was changed. Failed: all attempts failed; the note has the last
// error.
const (
	Open    Result = ""
	Done    Result = "done"
	Refused Result = "refused"
	Failed  Result = "failed"
)

// Results lists the results of items that have ended.
var Results = []Result{Done, Refused, Failed}

// Job is one decision about many events.
type Job struct {
	// ID is the ID of the request: a repeated request returns this job.
	ID string `json:"id"`
	// Action is the decision about each event (a verb), one of [OfAccounts], or [CloseTask]. Effect restricts it to one
	// effect. Reference is the reference of a "done".
	Action    string `json:"action"`
	Effect    string `json:"effect,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Filter is the filter that selected the events, by the names of the command's flags.
	Filter map[string]string `json:"filter"`
	Who    string            `json:"who"`
	// Issuer and Subject identify the person who made the job. They are "" for the command line.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// AskedBy is the first person of a job that requires two people; Who is the second.
	AskedBy string `json:"asked_by,omitempty"`
	Why     string `json:"why"`
	// Rate is the maximum number of events started per second.
	Rate float64 `json:"rate"`
	// Money is the sum of the events' known amounts, in minor units by currency.
	Money map[string]int64 `json:"money"`
	State State            `json:"state"`
	// StateNote names the person who paused or cancelled the job, and the reason.
	StateNote string `json:"state_note,omitempty"`
	// Items counts the events. Done, Refused and Failed count the events with a result.
	Items   int `json:"items"`
	Done    int `json:"done"`
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	// CreatedAt is when the job was made. ChangedAt is the time of its last progress or state change.
	CreatedAt  time.Time  `json:"created_at"`
	ChangedAt  time.Time  `json:"changed_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// Noun returns the kind of the job's targets.
func (j *Job) Noun() string {
	if slices.Contains(OfAccounts, j.Action) {
		return "account"
	}
	switch j.Action {
	case CloseTask:
		return "task"
	case ApplyMeaning:
		return "meaning"
	}
	return "event"
}

// Says describes the job in one line.
func (j *Job) Says() string {
	return fmt.Sprintf("%s of %d %ss at %g a second", j.Action, j.Items, j.Noun(), j.Rate)
}

// The actions about accounts: recompute them with other billing rules, parse their payloads again, compare them with
// the provider's state, and publish their access to subscribers.
const (
	Refold    = "refold"
	Reread    = "reread"
	Reconcile = "reconcile"
	Announce  = "announce"
)

// CloseTask is the action about tasks: it closes each as done.
const CloseTask = "close-task"

// ApplyMeaning activates billing rules. The target of its only item is the hash of the rules.
const ApplyMeaning = "apply-meaning"

// OfAccounts lists the actions about accounts.
var OfAccounts = []string{Refold, Reread, Reconcile, Announce}

// Left counts the events without a result.
func (j *Job) Left() int { return j.Items - j.Done - j.Refused - j.Failed }

// Item is one event, account or task of a job.
type Item struct {
	// Target is the ID of a receipt, an account after its mode ("live/acme"), or a task's object after mode and kind
	// ("live/dispute/dp_1"). Name is the name for people.
	Target string `json:"target"`
	Name   string `json:"name"`
	// Seen is when the event or task had last changed at the time of the decision. It is nil for an account.
	Seen *time.Time `json:"seen,omitempty"`
	// Attempts counts the failed attempts.
	Attempts int        `json:"attempts"`
	Result   Result     `json:"result"`
	Note     string     `json:"note"`
	EndedAt  *time.Time `json:"ended_at"`
}

// Store stores the jobs in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the store of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const columns = `id, action, effect, reference, filter, who, issuer, subject, asked_by, why, rate, money, state, state_note, items, done, refused, failed, created_at, changed_at, finished_at`

const makeSQL = `
insert into jobs (id, action, effect, reference, filter, who, issuer, subject, asked_by, why, rate, money, state, items)
values ($1, $2, $3, $4, coalesce($5::jsonb, '{}'), $6, $7, $8, $9, $10, $11, coalesce($12::jsonb, '{}'), 'running', $13)
    on conflict (id) do nothing`

// ErrTaken means that another job has the ID.
var ErrTaken = errors.New("another job has this ID")

// MakeIn makes a running job of items in the caller's transaction. It returns [ErrTaken] if the ID is in use.
func MakeIn(ctx context.Context, tx pgx.Tx, j Job, items []Item) error {
	made, err := schema.Changes(ctx, tx, "make job "+j.ID, makeSQL, j.ID, j.Action, j.Effect, j.Reference, j.Filter,
		j.Who, j.Issuer, j.Subject, j.AskedBy, j.Why, j.Rate, j.Money, len(items))
	switch {
	case err != nil:
		return err
	case !made:
		return fmt.Errorf("make job %s: %w", j.ID, ErrTaken)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"job_items"}, []string{"job", "target", "name", "seen"},
		pgx.CopyFromSlice(len(items),
			func(i int) ([]any, error) { return []any{j.ID, items[i].Target, items[i].Name, items[i].Seen}, nil }))
	if err != nil {
		return fmt.Errorf("make the items of job %s: %w", j.ID, err)
	}
	return nil
}

const getSQL = `select ` + columns + ` from jobs where id = $1`

// Get returns a job, or [schema.ErrNotFound].
func (s *Store) Get(ctx context.Context, id string) (*Job, error) {
	return one(ctx, s.pool, "read job "+id, getSQL, id)
}

const listSQL = `select ` + columns + ` from jobs j
 where $2 = '' or exists (select from jobs a where a.id = $2 and (j.created_at < a.created_at or j.created_at = a.created_at and j.id > a.id))
 order by created_at desc, id limit $1`

// List returns the jobs, the newest first. after is the last job of the previous page, or "".
func (s *Store) List(ctx context.Context, limit int, after string) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list jobs", listSQL, limit, after)
}

const openSQL = `select ` + columns + ` from jobs where state in ('running', 'paused') order by created_at, id`

// Open returns the jobs that run or are paused, the oldest first.
func (s *Store) Open(ctx context.Context) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list open jobs", openSQL)
}

// unstartedSQL omits jobs of the last seconds, which their maker is about to start.
const unstartedSQL = `
select ` + columns + ` from jobs
 where started_at is null and state = (select 'running') and created_at < now() - interval '10 seconds' order by created_at, id`

// Unstarted returns the running jobs without a run in Temporal: Temporal was down, or the process that made the job
// died.
func (s *Store) Unstarted(ctx context.Context) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list jobs that are not started", unstartedSQL)
}

const startedSQL = `update jobs set started_at = now() where id = $1 and started_at is null`

// Started records that Temporal accepted a job's run. It may be called twice; the first time is kept.
func (s *Store) Started(ctx context.Context, id string) error {
	return schema.Exec(ctx, s.pool, "record the start of job "+id, startedSQL, id)
}

const moveSQL = `
update jobs set state = $2, state_note = $3, changed_at = now(), finished_at = case when $2 = 'cancelled' then now() end
 where id = $1 and state = any($4)
returning ` + columns

// MoveIn moves a job from one of the states from to another, with a note for people, in the caller's transaction. If
// the job is in another state, MoveIn returns the unchanged job and false.
func MoveIn(ctx context.Context, db schema.Querier, id string, to State, note string,
	from ...State) (*Job, bool, error) {
	states := make([]string, len(from))
	for i, f := range from {
		states[i] = string(f)
	}
	j, err := one(ctx, db, "change job "+id, moveSQL, id, string(to), note, states)
	if errors.Is(err, schema.ErrNotFound) {
		j, err = one(ctx, db, "read job "+id, getSQL, id)
		return j, false, err
	}
	return j, err == nil, err
}

const finishSQL = `
update jobs set state = 'finished', state_note = '', changed_at = now(), finished_at = now()
 where id = $1 and state = 'running' and not exists (select from job_items i where i.job = jobs.id and i.result = '')
returning ` + columns

// Finish ends a running job if each of its items has a result, and returns the job in either case.
func (s *Store) Finish(ctx context.Context, id string) (*Job, error) {
	j, err := one(ctx, s.pool, "finish job "+id, finishSQL, id)
	if errors.Is(err, schema.ErrNotFound) {
		return s.Get(ctx, id)
	}
	return j, err
}

func one(ctx context.Context, db schema.Querier, doing, sql string, args ...any) (*Job, error) {
	j, err := schema.One[Job](ctx, db, doing, sql, args...)
	return &j, err
}
