// Package job stores the bulk jobs of operators. A job is one decision about many events, which are fixed when the
// job is made, with the result for each.
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

// The states. Finished: each item has its result. Cancelled: somebody stopped the job for good, and the remaining
// events stay as they were.
const (
	Running   State = "running"
	Paused    State = "paused"
	Cancelled State = "cancelled"
	Finished  State = "finished"
)

// Result is the result of an item.
type Result string

// The results. Done: the decision was taken; the event's receipt shows its further course. Refused: the decision
// could not be taken, for the reason in the note, and nothing was changed. Failed: all tries failed, the last one as
// the note says.
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
	// Action is the decision about each event, a verb; or one of [OfAccounts], or [CloseTask]. Effect
	// narrows it to one effect. Reference is what done says of it.
	Action    string `json:"action"`
	Effect    string `json:"effect,omitempty"`
	Reference string `json:"reference,omitempty"`
	// Filter is the filter that chose the events, by the names of the command's flags.
	Filter map[string]string `json:"filter"`
	Who    string            `json:"who"`
	// AskedBy asked for the job first, where Who was the second person; "" where one was enough.
	AskedBy string `json:"asked_by,omitempty"`
	Why     string `json:"why"`
	// Rate is the most events that are begun in a second.
	Rate float64 `json:"rate"`
	// Money is the sum of the events' known amounts, in minor units by currency.
	Money map[string]int64 `json:"money"`
	State State            `json:"state"`
	// StateNote says who paused or cancelled the job, and why.
	StateNote string `json:"state_note,omitempty"`
	// Items counts the events, and Done, Refused and Failed those that have a result.
	Items   int `json:"items"`
	Done    int `json:"done"`
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	// CreatedAt is when the job was made, ChangedAt when it last made progress or changed its state.
	CreatedAt  time.Time  `json:"created_at"`
	ChangedAt  time.Time  `json:"changed_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

// Noun is what the job is about.
func (j *Job) Noun() string {
	if slices.Contains(OfAccounts, j.Action) {
		return "account"
	}
	if j.Action == CloseTask {
		return "task"
	}
	return "event"
}

// Says says in a line what the job does.
func (j *Job) Says() string {
	return fmt.Sprintf("%s of %d %ss at %g a second", j.Action, j.Items, j.Noun(), j.Rate)
}

// The actions about accounts: folding them anew by another meaning, or after bodies were read again, comparing them
// with what the provider says, and telling subscribers what they may use.
const (
	Refold    = "refold"
	Reread    = "reread"
	Reconcile = "reconcile"
	Announce  = "announce"
)

// CloseTask is the action about tasks: each is closed as done.
const CloseTask = "close-task"

// OfAccounts lists the actions about accounts.
var OfAccounts = []string{Refold, Reread, Reconcile, Announce}

// Left counts the events without a result.
func (j *Job) Left() int { return j.Items - j.Done - j.Refused - j.Failed }

// Item is one event of a job, one account, or one task.
type Item struct {
	// Target is the ID of a receipt, the account after its mode: "live/acme", or a task's object after mode and kind:
	// "live/dispute/dp_1". Name is how people know it.
	Target string `json:"target"`
	Name   string `json:"name"`
	// Attempts counts the tries that ended in doubt.
	Attempts int        `json:"attempts"`
	Result   Result     `json:"result"`
	Note     string     `json:"note"`
	EndedAt  *time.Time `json:"ended_at"`
}

// Store is the jobs in Postgres.
type Store struct{ pool *pgxpool.Pool }

// New returns the jobs of a migrated database.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

const columns = `id, action, effect, reference, filter, who, asked_by, why, rate, money, state, state_note, items, done, refused, failed, created_at, changed_at, finished_at`

const makeSQL = `
insert into jobs (id, action, effect, reference, filter, who, asked_by, why, rate, money, state, items)
values ($1, $2, $3, $4, coalesce($5::jsonb, '{}'), $6, $7, $8, $9, coalesce($10::jsonb, '{}'), 'running', $11)`

// MakeIn makes a running job of items in the caller's transaction. An ID that is taken is an error.
func MakeIn(ctx context.Context, tx pgx.Tx, j Job, items []Item) error {
	if err := schema.Exec(ctx, tx, "make job "+j.ID, makeSQL, j.ID, j.Action, j.Effect, j.Reference, j.Filter, j.Who,
		j.AskedBy, j.Why, j.Rate, j.Money, len(items)); err != nil {
		return err
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"job_items"}, []string{"job", "target", "name"},
		pgx.CopyFromSlice(len(items),
			func(i int) ([]any, error) { return []any{j.ID, items[i].Target, items[i].Name}, nil }))
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

// List returns the jobs, the newest first: those behind the job after, "" for the first ones.
func (s *Store) List(ctx context.Context, limit int, after string) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list jobs", listSQL, limit, after)
}

const openSQL = `select ` + columns + ` from jobs where state in ('running', 'paused') order by created_at, id`

// Open returns the jobs that run or are paused, the oldest first.
func (s *Store) Open(ctx context.Context) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list open jobs", openSQL)
}

// unstartedSQL leaves out jobs of the last seconds: their maker is just starting them.
const unstartedSQL = `
select ` + columns + ` from jobs
 where started_at is null and state = (select 'running') and created_at < now() - interval '10 seconds' order by created_at, id`

// Unstarted returns the running jobs that have no run in Temporal: Temporal was away, or the process that made the
// job died.
func (s *Store) Unstarted(ctx context.Context) ([]Job, error) {
	return schema.List[Job](ctx, s.pool, "list jobs that are not started", unstartedSQL)
}

const startedSQL = `update jobs set started_at = now() where id = $1 and started_at is null`

// Started records that Temporal has taken a job's run. It may be called twice; the first time stays.
func (s *Store) Started(ctx context.Context, id string) error {
	return schema.Exec(ctx, s.pool, "record the start of job "+id, startedSQL, id)
}

const moveSQL = `
update jobs set state = $2, state_note = $3, changed_at = now(), finished_at = case when $2 = 'cancelled' then now() end
 where id = $1 and state = any($4)
returning ` + columns

// MoveIn brings a job that is in one of the states from into another, with a note for people, in the caller's
// transaction. If it is in none of them, MoveIn returns the job as it is, and false.
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
